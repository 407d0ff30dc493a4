//! Kills during republishing: maximum number of duplicate messages.

mod support;

use crawlway_broker::{Broker, Verdict};
use crawlway_testkit::servers;
use lapin::Channel;
use std::{collections::BTreeSet, time::Duration};
use support::{
    counts, eventually, foreign_client, open, options, process_with_queue, publish_numbers, queue,
};

const MESSAGES: usize = 2_000;
const KILLS: u32 = 6;
/// Messages that are republished at a time.
const REPUBLISH_CONCURRENCY: u32 = 8;

async fn ready(channel: &Channel, queue: &str) -> u32 {
    counts(channel, queue).await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_during_republishing_leave_few_copies() {
    let server = servers::rabbitmq();
    let spec = queue("copies").prefetch(1_000).max_attempts(100);
    let publisher = open(options(&server), &spec).await;
    publish_numbers(&publisher, &spec.name, MESSAGES).await;
    let (_connection, channel) = foreign_client(&server).await;
    let (main, due) = (spec.name.as_str(), format!("{}:due", spec.name));
    for kill in 0..KILLS {
        let republished_before = ready(&channel, &due).await;
        let process = process_with_queue(options(&server), &spec).await;
        let (broker, queue) = (process.broker.clone(), spec.name.clone());
        process.handle().spawn(async move {
            loop {
                let _ = broker.receive(&queue, 1, Duration::from_secs(1)).await;
            }
        });
        if kill == 0 {
            eventually("the process has prefetched", async || ready(&channel, main).await <= 1_000).await;
        } else {
            eventually("some are republished", async || {
                ready(&channel, &due).await > republished_before + 20
            })
            .await;
        }
        process.kill();
        let mut last = 0;
        eventually("all are requeued and the counts are stable", async || {
            let now = ready(&channel, main).await + ready(&channel, &due).await;
            let stable = now == std::mem::replace(&mut last, now) && now as usize >= MESSAGES;
            tokio::time::sleep(Duration::from_millis(200)).await;
            stable
        })
        .await;
    }
    let max = MESSAGES as u32 + KILLS * REPUBLISH_CONCURRENCY;
    let queued = ready(&channel, main).await + ready(&channel, &due).await;
    assert!(
        (MESSAGES as u32..=max).contains(&queued),
        "{queued} queued for {MESSAGES} messages and {KILLS} kills"
    );

    let mut delivered = BTreeSet::new();
    eventually("each is delivered", async || {
        let received =
            publisher.receive(&spec.name, 100, Duration::from_millis(500)).await.unwrap_or_default();
        delivered.extend(received.iter().map(|delivery| delivery.message.body.clone()));
        let verdicts = received.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
        publisher.settle(verdicts).await;
        delivered.len() == MESSAGES
    })
    .await;
}
