//! Overload: more URLs than the queue accepts while the worker is off. The rest is refused, memory is stable, and no URL is lost.

use crate::{
    Arguments,
    gateway::Gateway,
    load::{self, Schedule},
    request::Request,
    results::Results,
};
use anyhow::ensure;
use crawlway_bench::{measure, median};
use rustix::process::Pid;
use std::{net::SocketAddr, path::Path, sync::mpsc, thread, time::Duration};

/// Maximum length of the queue.
const MAX_LENGTH: usize = 1000;
/// Interval of memory samples.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(
    arguments: &Arguments,
    program: &Path,
    directory: &Path,
    pages: SocketAddr,
) -> anyhow::Result<()> {
    let mut gateway = Gateway::start(program, directory, arguments.broker, MAX_LENGTH, pages)?;
    let mut request = Request::post(gateway.address, &format!("http://{pages}/"));
    let rate = arguments.rate.unwrap_or(2_000.0);
    let time = Duration::from_secs_f64(arguments.seconds * 4.0);
    let memory = MemorySampler::start(gateway.process.pid());
    let mut full =
        load::run(gateway.address, arguments.connections, &mut request, Schedule::Rate(rate), time)?;
    let memory = memory.thirds();
    check(&full)?;
    let accepted = full.with_status(202);
    let pending = gateway.pending()?;
    ensure!(
        pending == accepted && accepted >= MAX_LENGTH as u64,
        "expected a queue full of accepted URLs; {accepted} were accepted and {pending} are pending"
    );

    gateway.start_worker()?;
    let drain = gateway.wait_until_drained()?;
    // A rate that one worker can handle.
    let mut after = load::run(
        gateway.address,
        arguments.connections,
        &mut request,
        Schedule::Rate(50.0),
        Duration::from_secs(4),
    )?;
    ensure!(
        after.with_status(202) == after.sent,
        "expected only 202 after the drain; statuses were {:?}",
        after.statuses
    );
    gateway.wait_until_drained()?;
    let (accepted, completed) = (accepted + after.with_status(202), gateway.completed()?);
    ensure!(completed == accepted, "expected {accepted} completed URLs, got {completed}");
    gateway.stop()?;
    let [p50, p95, p99, max] = full.percentiles([0.5, 0.95, 0.99, 1.0]);
    let p99_after = after.percentiles([0.99; 4])[0];
    let mega = memory.map(|bytes| bytes as f64 / 1e6);
    println!(
        "{rate} POST/s for {:.0} s on {}, maximum queue length {MAX_LENGTH}, worker off\n",
        time.as_secs_f64(),
        arguments.broker.name()
    );
    println!(
        "responses: {:.0} per s; p50 {p50:.2}, p95 {p95:.2}, p99 {p99:.2}, max {max:.2} ms",
        full.rate()
    );
    println!(
        "accepted (202): {}; refused (503, queue-full, Retry-After): {}; other, failed, timed out: 0",
        full.with_status(202),
        full.with_status(503)
    );
    println!("memory, median of each third: {:.1}, {:.1}, {:.1} MB", mega[0], mega[1], mega[2]);
    println!("worker on: drained in {:.1} s", drain.as_secs_f64());
    println!("after the drain: {} of {} accepted, p99 {p99_after:.2} ms", after.with_status(202), after.sent);
    println!("accepted {accepted} = completed records {completed}");
    println!("\nload average: {}", measure::load());
    Ok(())
}

/// Checks that all responses are 202, or 503 according to the contract.
fn check(full: &Results) -> anyhow::Result<()> {
    ensure!(
        full.with_status(202) + full.queue_full == full.sent && full.other_503 == 0,
        "expected only 202, and 503 with `queue-full` and `Retry-After`; of {} requests: {:?}, {} other 503, {} failed and {} timed \
         out",
        full.sent,
        full.statuses,
        full.other_503,
        full.failed,
        full.timed_out
    );
    Ok(())
}

/// Memory samples of a process.
struct MemorySampler {
    stop: mpsc::Sender<()>,
    samples: thread::JoinHandle<Vec<u64>>,
}

impl MemorySampler {
    fn start(pid: Pid) -> Self {
        let (stop, stopped) = mpsc::channel();
        let samples = thread::spawn(move || {
            let mut samples = Vec::new();
            while stopped.recv_timeout(POLL_INTERVAL).is_err() {
                samples.extend(measure::memory(pid));
            }
            samples
        });
        Self { stop, samples }
    }

    /// Median of each third of the samples.
    fn thirds(self) -> [u64; 3] {
        let _ = self.stop.send(());
        let samples = self.samples.join().unwrap_or_default();
        let third = (samples.len() / 3).max(1);
        let mut thirds = samples.chunks(third).map(median);
        [(); 3].map(|()| thirds.next().unwrap_or_default())
    }
}
