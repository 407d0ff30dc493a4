//! Flow control: pauses by the gap above the watermark, rebalances, delay tiers.

mod support;

use crawlway_broker::{Broker, Outgoing, Timestamp, Verdict};
use crawlway_broker_kafka::Options;
use crawlway_testkit::servers;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use support::{
    DEADLINE, TestLedger, delete_topics, done, eventually, number, numbers, options, publish_numbers, queue,
    receive, start, watermarks,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_pauses_the_partition_until_its_oldest_message_is_settled() {
    const MAX_GAP: usize = 20;
    let (ledger, spec) = (TestLedger::open().await, queue("gap").prefetch(200));
    let small =
        Options { partitions: 1, max_gap: u32::try_from(MAX_GAP).unwrap(), ..options(&servers::kafka()) };
    let process = start(small, &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    publish_numbers(broker, &spec.name, 100).await;
    let mut received = receive(broker, &spec.name, MAX_GAP).await;
    let oldest = received.remove(0);
    let nothing_comes = async || {
        let more = broker.receive(&spec.name, 100, Duration::from_secs(2)).await.unwrap();
        assert!(more.is_empty(), "{} beyond the gap", more.len());
    };
    nothing_comes().await;
    // The watermark stays where it is.
    done(broker, &received).await;
    nothing_comes().await;
    done(broker, &[oldest]).await;
    let mut rest = 100 - MAX_GAP;
    while rest > 0 {
        let more = receive(broker, &spec.name, 1).await;
        rest -= more.len();
        done(broker, &more).await;
    }
    delete_topics(broker, &servers::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_above_the_watermark_is_not_redelivered_after_a_rebalance() {
    let (ledger, spec) = (TestLedger::open().await, queue("rebalance").prefetch(200));
    let first = start(options(&servers::kafka()), &ledger).await;
    first.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    publish_numbers(&*first.broker, &spec.name, 100).await;
    let received = receive(&*first.broker, &spec.name, 100).await;
    let (held, settled): (Vec<_>, Vec<_>) =
        received.into_iter().partition(|delivery| number(delivery).is_multiple_of(10));
    done(&*first.broker, &settled).await;

    // The second process takes one of the two partitions, and what is in flight there.
    let second = start(options(&servers::kafka()), &ledger).await;
    second.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let moved = receive(&*second.broker, &spec.name, 1).await;
    let mut again: BTreeMap<usize, usize> = BTreeMap::new();
    let mut kept = 0;
    for delivery in held {
        let answer = first.broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0);
        kept += usize::from(answer.is_ok());
    }
    let mut take = moved;
    loop {
        for delivery in &take {
            *again.entry(number(delivery)).or_default() += 1;
        }
        done(&*second.broker, &take).await;
        take = second.broker.receive(&spec.name, 100, Duration::from_secs(2)).await.unwrap();
        if take.is_empty() {
            break;
        }
    }
    assert!(
        again.iter().all(|(number, count)| number % 10 == 0 && *count == 1),
        "only what was held moves, once: {again:?}"
    );
    assert_eq!(kept + again.len(), 10, "each held message is settled by its owner");
    let more = first.broker.receive(&spec.name, 100, Duration::from_secs(1)).await.unwrap();
    assert!(more.is_empty(), "{:?}", numbers(&more));
    delete_topics(&*first.broker, &servers::kafka()).await;
}

/// A tier holds 500 messages in memory. More than that hop to other tiers, so that those behind them are not late.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_delay_tier_delays_nothing_behind_it() {
    const MANY: usize = 600;
    let (ledger, spec) = (TestLedger::open().await, queue("tiers").prefetch(1000));
    let process = start(options(&servers::kafka()), &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let start = Timestamp::now();
    let (late, early) = (start + Duration::from_secs(28), start + Duration::from_secs(10));
    // All of them in the tier of 4 s.
    for (numbers, due) in [(0..MANY, late), (MANY..MANY + 5, early)] {
        let outgoing = |number: usize| Outgoing::to_queue(&spec.name, number.to_string()).not_before(due);
        for answer in broker.publish(numbers.map(outgoing).collect()).await {
            answer.unwrap();
        }
    }
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let begin = Instant::now();
    while seen.len() < MANY + 5 {
        assert!(begin.elapsed() < DEADLINE, "{} of {} messages came", seen.len(), MANY + 5);
        let received = broker.receive(&spec.name, 500, Duration::from_secs(1)).await.unwrap();
        for delivery in &received {
            let (number, now) = (number(delivery), Timestamp::now());
            *seen.entry(number).or_default() += 1;
            let due = if number < MANY { late } else { early };
            assert!(now >= due, "{number} is early by {:?}", due.since(now));
            assert!(number < MANY || now < late, "{number} waited for those before it");
            assert_eq!(delivery.attempt, 1, "a hop is no attempt");
        }
        done(broker, &received).await;
    }
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    let hops = watermarks(&servers::kafka(), &format!("{}.wait", spec.name), 1).1;
    assert!(hops > MANY as i64 + 5, "no message hopped: {hops} records");
    delete_topics(broker, &servers::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settled_records_of_the_wait_topic_are_removed() {
    let (ledger, spec) = (TestLedger::open().await, queue("trim").prefetch(100));
    let often = Options { cleanup_interval: Duration::from_secs(1), ..options(&servers::kafka()) };
    let process = start(often, &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let due = Timestamp::now() + Duration::from_secs(2);
    let batch =
        (0..30).map(|number: usize| Outgoing::to_queue(&spec.name, number.to_string()).not_before(due));
    for answer in broker.publish(batch.collect()).await {
        answer.unwrap();
    }
    let mut received = receive(broker, &spec.name, 30).await;
    let held = received.pop().unwrap();
    done(broker, &received).await;
    let wait = format!("{}.wait", spec.name);
    let trimmed = async |to: i64| {
        eventually("records are removed", async || watermarks(&servers::kafka(), &wait, 0) == (to, 30)).await;
    };
    trimmed(29).await;
    done(broker, &[held]).await;
    trimmed(30).await;
    delete_topics(broker, &servers::kafka()).await;
}
