//! Opening and closing a real directory: outcomes under load, and exclusive access.

use crawlway_broker::{
    Broker, BrokerError, DeadLetterFilter, DeadLetters, Outgoing, PublishError, QueueAdmin, QueueName,
    QueueSpec, Verdict,
};
use crawlway_broker_embedded::{EmbeddedBroker, OpenError, Options};
use std::{
    collections::BTreeSet,
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

fn queue() -> QueueName {
    QueueName::new("q").expect("a name")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_during_close_has_a_correct_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let mut accepted = BTreeSet::new();
    for round in 0..30 {
        let broker = Arc::new(EmbeddedBroker::open(folder.path(), Options::default()).unwrap());
        broker.declare(&[QueueSpec::new(queue()).prefetch(100_000)]).await.unwrap();
        let publisher = |task: usize| {
            let broker = broker.clone();
            tokio::spawn(async move {
                let mut accepted = Vec::new();
                for n in 0.. {
                    let id = format!("{round}-{task}-{n}");
                    match broker
                        .publish(vec![Outgoing::to_queue(&queue(), "x").id(id.as_str())])
                        .await
                        .remove(0)
                    {
                        Ok(()) => accepted.push(id),
                        Err(PublishError::Closed) => break,
                        Err(error) => panic!("unexpected: {error}"),
                    }
                }
                accepted
            })
        };
        let publishers: Vec<_> = (0..8).map(publisher).collect();
        tokio::time::sleep(Duration::from_millis(round)).await;
        broker.close().await.unwrap();
        for publisher in publishers {
            accepted.extend(publisher.await.unwrap());
        }
        assert_eq!(broker.depth(&queue()).await, Err(BrokerError::Closed));
    }
    let broker = EmbeddedBroker::open(folder.path(), Options::default()).unwrap();
    let mut there = BTreeSet::new();
    loop {
        let deliveries = broker.receive(&queue(), 1000, Duration::from_millis(1)).await.unwrap();
        if deliveries.is_empty() {
            break;
        }
        there.extend(deliveries.into_iter().map(|delivery| delivery.message.id.to_string()));
    }
    assert_eq!(accepted.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new(), "accepted and lost");
}

#[test]
fn a_second_open_is_refused_with_the_process_id() {
    let folder = tempfile::tempdir().unwrap();
    let first = EmbeddedBroker::open(folder.path(), Options::default()).unwrap();
    let error = EmbeddedBroker::open(folder.path(), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }));
    let text = error.to_string();
    assert!(
        text.contains(&format!("process {}", std::process::id())) && text.contains("choose another"),
        "{text}"
    );
    drop(first);
    EmbeddedBroker::open(folder.path(), Options::default()).unwrap();
}

#[test]
fn a_foreign_directory_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.tex"), "years of work").unwrap();
    let text = EmbeddedBroker::open(folder.path(), Options::default()).unwrap_err().to_string();
    assert!(text.contains("thesis.tex") && text.contains("move it away"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written there");
}

#[test]
fn disk_io_runs_on_blocking_threads() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let broker = EmbeddedBroker::open(directory.path(), Options::default()).unwrap();
        let spec = QueueSpec::new(QueueName::new("q").unwrap());
        broker.declare(std::slice::from_ref(&spec)).await.unwrap();
        broker.publish((0..3).map(|_| Outgoing::to_queue(&spec.name, "x")).collect()).await;
        let taken = broker.receive(&spec.name, 3, Duration::ZERO).await.unwrap();
        let dead = Verdict::Dead { reason: "no".to_owned() };
        let verdicts = taken.into_iter().map(|taken| (taken.receipt, dead.clone())).collect();
        assert!(completes_on_a_blocking_thread(broker.settle(verdicts)).await.iter().all(Result::is_ok));
        let letters = completes_on_a_blocking_thread(broker.dead_letters(
            &spec.name,
            &DeadLetterFilter::all(),
            None,
            10,
        ))
        .await
        .unwrap();
        assert_eq!(letters.letters.len(), 3);
        completes_on_a_blocking_thread(broker.pause(&spec.name)).await.unwrap();
        assert_eq!(
            completes_on_a_blocking_thread(broker.replay(&spec.name, &DeadLetterFilter::all()))
                .await
                .unwrap()
                .count,
            3
        );
    });
}

/// Polls a call while the only blocking thread is busy: it must be pending, and is then completed.
async fn completes_on_a_blocking_thread<T>(call: impl Future<Output = T>) -> T {
    let (free, busy) = std::sync::mpsc::channel::<()>();
    let blocker = tokio::task::spawn_blocking(move || busy.recv().is_ok());
    let mut call = pin!(call);
    let first = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "it ran on the async thread");
    drop(free);
    blocker.await.expect("the blocker ends");
    call.await
}
