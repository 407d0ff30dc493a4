//! Large backlog of small messages: memory, and time of recovery.

use anyhow::Context;
use crawlway_bench::measure;
use crawlway_broker::{Broker, Bytes, Outgoing, QueueAdmin, QueueName, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{path::Path, process::Command, time::Instant};

const BATCH: usize = 1000;

/// Fills a queue, then opens it in another process.
pub(crate) fn run(folder: &Path, messages: usize) -> anyhow::Result<()> {
    let directory = folder.join("backlog");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let started = Instant::now();
    let broker = EmbeddedBroker::open(&directory, Options::default())?;
    runtime.block_on(fill(&broker, messages))?;
    drop(broker);
    let filling = started.elapsed();
    let filled_peak = peak_memory()?;
    let output =
        Command::new(std::env::current_exe()?).arg("--open").arg("--dir").arg(&directory).output()?;
    anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let opened: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    std::fs::remove_dir_all(&directory)?;
    println!("{messages} pending messages of 100 bytes");
    println!("filled in {:.1} s, peak memory {} MiB", filling.as_secs_f64(), filled_peak / (1 << 20));
    println!(
        "opened in {:.2} s, peak memory {} MiB; {} ready",
        opened["seconds"].as_f64().unwrap_or(0.0),
        opened["peak_mib"],
        opened["ready"]
    );
    Ok(())
}

async fn fill(broker: &EmbeddedBroker, messages: usize) -> anyhow::Result<()> {
    let queue = QueueName::new("backlog")?;
    broker.declare(&[QueueSpec::new(queue.clone())]).await?;
    let body = Bytes::from(vec![b'x'; 100]);
    let mut left = messages;
    while left > 0 {
        let count = left.min(BATCH);
        for outcome in
            broker.publish((0..count).map(|_| Outgoing::to_queue(&queue, body.clone())).collect()).await
        {
            outcome?;
        }
        left -= count;
    }
    Ok(())
}

/// Opens the directory and prints the time and the peak memory.
pub(crate) fn open(directory: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started = Instant::now();
    let broker = EmbeddedBroker::open(directory, Options::default())?;
    let took = started.elapsed();
    let depth = runtime.block_on(broker.depth(&QueueName::new("backlog")?))?;
    let report = serde_json::json!({
        "seconds": took.as_secs_f64(), "peak_mib": peak_memory()? / (1 << 20), "ready": depth.ready,
    });
    println!("{report}");
    Ok(())
}

/// Peak memory of this process in bytes.
fn peak_memory() -> anyhow::Result<u64> {
    measure::peak_memory(rustix::process::getpid()).context("reading the memory of this process")
}
