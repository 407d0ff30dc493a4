//! Cost of a receive with few and with many message groups.

use crawlway_broker::{Broker, Ordering, Outgoing, QueueName, QueueSpec, Verdict};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{
    path::Path,
    time::{Duration, Instant},
};

const MESSAGES: usize = 1_000_000;
const MEASURED: usize = 200_000;
const BATCH: usize = 64;

/// Compares 1,000 with 1,000,000 groups.
pub(crate) fn run(folder: &Path) -> anyhow::Result<()> {
    let few = cost(&folder.join("few"), 1_000)?;
    let many = cost(&folder.join("many"), 1_000_000)?;
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("{MESSAGES} pending messages; receive and settle of {MEASURED}, {BATCH} at a time, per message");
    println!("{:<20} {:>8.2} µs", "1,000 groups", micros(few));
    println!("{:<20} {:>8.2} µs {ratio:>8.2} times", "1,000,000 groups", micros(many));
    Ok(())
}

fn cost(folder: &Path, groups: usize) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let broker = EmbeddedBroker::open(folder, Options::default())?;
    let took = runtime.block_on(async {
        let queue = QueueName::new("grouped")?;
        broker
            .declare(&[QueueSpec::new(queue.clone()).ordering(Ordering::PerGroup).prefetch(BATCH as u32)])
            .await?;
        for start in (0..MESSAGES).step_by(1000) {
            let message = |n: usize| Outgoing::to_queue(&queue, "x").group(format!("group-{}", n % groups));
            for outcome in broker.publish((start..start + 1000).map(message).collect()).await {
                outcome?;
            }
        }
        let started = Instant::now();
        let mut done = 0;
        while done < MEASURED {
            let deliveries = broker.receive(&queue, BATCH, Duration::from_secs(1)).await?;
            done += deliveries.len();
            let verdicts = deliveries.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
            for outcome in broker.settle(verdicts).await {
                outcome?;
            }
        }
        anyhow::Ok(started.elapsed() / MEASURED as u32)
    })?;
    drop(broker);
    std::fs::remove_dir_all(folder)?;
    Ok(took)
}
