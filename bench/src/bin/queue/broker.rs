//! Load on a queue through the broker contract.

use crate::{CONSUMERS, IN_FLIGHT, PUBLISHERS};
use anyhow::ensure;
use crawlway_broker::{Bytes, MessageId, Outgoing, QueueBackend, QueueName, QueueSpec, Verdict};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Calls of the publishers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// One call with 64 messages.
    Batches,
    /// 64 concurrent calls with one message each.
    Singles,
}

/// Time to publish, receive and settle all messages.
pub(crate) fn run(folder: &Path, messages: usize, size: usize, calls: Calls) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let broker: Arc<dyn QueueBackend> = Arc::new(EmbeddedBroker::open(folder, Options::default())?);
    let took = runtime.block_on(work(broker.clone(), messages / IN_FLIGHT * IN_FLIGHT, size, calls))?;
    drop(broker);
    std::fs::remove_dir_all(folder)?;
    Ok(took)
}

pub(crate) async fn work(
    broker: Arc<dyn QueueBackend>,
    messages: usize,
    size: usize,
    calls: Calls,
) -> anyhow::Result<Duration> {
    // Unique, since a server may have queues of earlier runs.
    let queue = QueueName::new(&format!("bench-{}", &MessageId::random().as_str()[24..]))?;
    let prefetch = (CONSUMERS * IN_FLIGHT) as u32;
    broker.declare(&[QueueSpec::new(queue.clone()).prefetch(prefetch)]).await?;
    let body = Bytes::from(vec![b'x'; size]);
    let (per_call, callers) = match calls {
        Calls::Batches => (IN_FLIGHT, PUBLISHERS),
        Calls::Singles => (1, PUBLISHERS * IN_FLIGHT),
    };
    let started = Instant::now();
    let left = Arc::new(AtomicUsize::new(messages / per_call));
    let mut tasks = Vec::new();
    for _ in 0..callers {
        let (broker, queue, body, left) = (broker.clone(), queue.clone(), body.clone(), left.clone());
        tasks.push(tokio::spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let batch = (0..per_call).map(|_| Outgoing::to_queue(&queue, body.clone())).collect();
                for outcome in broker.publish(batch).await {
                    outcome?;
                }
            }
            anyhow::Ok(())
        }));
    }
    let settled = Arc::new(AtomicUsize::new(0));
    for _ in 0..CONSUMERS {
        let (broker, queue, settled) = (broker.clone(), queue.clone(), settled.clone());
        tasks.push(tokio::spawn(async move {
            while settled.load(Ordering::Relaxed) < messages {
                let deliveries = broker.receive(&queue, IN_FLIGHT, Duration::from_millis(20)).await?;
                let count = deliveries.len();
                let verdicts =
                    deliveries.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
                for outcome in broker.settle(verdicts).await {
                    outcome?;
                }
                settled.fetch_add(count, Ordering::Relaxed);
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let took = started.elapsed();
    let depth = broker.depth(&queue).await?;
    ensure!(depth.pending() + depth.in_flight == 0, "expected an empty queue, got {depth:?}");
    Ok(took)
}
