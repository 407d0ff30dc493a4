//! How many copies a kill leaves behind while what lost workers had is being moved.

mod support;

use crawlway_broker::{Broker, Outgoing};
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_testkit::servers;
use lapin::{Channel, options::QueueDeclareOptions, types::FieldTable};
use std::{collections::BTreeMap, time::Duration};
use support::{options, queue, stranger, until};

const MESSAGES: usize = 2_000;
const KILLS: u32 = 6;
/// How many are between a copy and its original at a time.
const AT_ONCE: u32 = 8;

async fn ready(channel: &Channel, queue: &str) -> u32 {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
    declared.expect("a look").message_count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_amid_the_move_of_what_came_back_leave_few_copies() {
    let server = servers::rabbitmq();
    let spec = queue("copies").prefetch(1_000).max_attempts(100);
    let publisher = support::connect(&server).await;
    publisher.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let batch = (0..MESSAGES).map(|n| Outgoing::to_queue(&spec.name, format!("{n}"))).collect();
    assert!(publisher.publish(batch).await.iter().all(Result::is_ok));
    let (_connection, channel) = stranger(&server).await;
    let due = format!("{}:due", spec.name);
    for kill in 0..KILLS {
        let moved_before = ready(&channel, &due).await;
        // Its runtime stands for the process: without it, nothing of the handle goes on, and nothing is said goodbye to.
        let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let process = process.expect("a runtime");
        let (options, queue) = (options(&server), spec.clone());
        process.spawn(async move {
            let broker = RabbitBroker::connect(options).await.expect("the server answers");
            broker.declare(std::slice::from_ref(&queue)).await.expect("the queue");
            loop {
                let _ = broker.receive(&queue.name, 1, Duration::from_secs(1)).await;
            }
        });
        if kill == 0 {
            until("all that is prefetched is in the process", async || {
                ready(&channel, spec.name.as_str()).await <= 1_000
            })
            .await;
        } else {
            until("some are moved", async || ready(&channel, &due).await > moved_before + 20).await;
        }
        process.shutdown_background();
        let mut last = 0;
        // What the process had is back when the numbers stay as they are.
        until("all is back", async || {
            let now = ready(&channel, spec.name.as_str()).await + ready(&channel, &due).await;
            let same = now == std::mem::replace(&mut last, now) && now as usize >= MESSAGES;
            tokio::time::sleep(Duration::from_millis(200)).await;
            same
        })
        .await;
    }
    let most = MESSAGES as u32 + KILLS * AT_ONCE;
    let queued = ready(&channel, spec.name.as_str()).await + ready(&channel, &due).await;
    assert!(
        (MESSAGES as u32..=most).contains(&queued),
        "{queued} queued for {MESSAGES} messages and {KILLS} kills"
    );

    let mut came: BTreeMap<String, u32> = BTreeMap::new();
    until("each comes", async || {
        let got = publisher.receive(&spec.name, 100, Duration::from_millis(500)).await.unwrap_or_default();
        for delivery in &got {
            *came.entry(String::from_utf8_lossy(&delivery.message.body).into_owned()).or_default() += 1;
        }
        let verdicts = got.into_iter().map(|one| (one.receipt, crawlway_broker::Verdict::Done)).collect();
        publisher.settle(verdicts).await;
        came.len() == MESSAGES
    })
    .await;
}
