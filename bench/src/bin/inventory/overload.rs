//! More URLs than the queue takes, while the worker is off: everything else is refused, memory stays, and nothing is lost.

use crate::{
    Arguments,
    gateway::Gateway,
    load::{self, Pace},
    outcome::Outcome,
    request::Request,
};
use anyhow::ensure;
use crawlway_bench::{measured, median};
use rustix::process::Pid;
use serde_json::json;
use std::{net::SocketAddr, path::Path, sync::mpsc, thread, time::Duration};

/// How many URLs may wait.
const LIMIT: usize = 1000;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(
    arguments: &Arguments,
    program: &Path,
    place: &Path,
    pages: SocketAddr,
) -> anyhow::Result<()> {
    let mut gateway = Gateway::start(program, place, arguments.broker, LIMIT, pages)?;
    let mut request = Request::post(gateway.address, &format!("http://{pages}/"));
    let rate = arguments.rate.unwrap_or(2_000.0);
    let time = Duration::from_secs_f64(arguments.seconds * 4.0);
    let watch = Memory::watch(gateway.process.pid());
    let mut full = load::drive(gateway.address, arguments.connections, &mut request, Pace::Rate(rate), time)?;
    let memory = watch.thirds();
    check(&full)?;
    let accepted = full.with(202);
    let waiting = gateway.waiting()?;
    ensure!(
        waiting == accepted && accepted >= LIMIT as u64,
        "expected the queue to be full of what was accepted; {accepted} were accepted and {waiting} wait"
    );

    gateway.start_worker()?;
    let drain = gateway.drained()?;
    // At a pace that a worker with one page at a time can keep up with.
    let mut after = load::drive(
        gateway.address,
        arguments.connections,
        &mut request,
        Pace::Rate(50.0),
        Duration::from_secs(4),
    )?;
    ensure!(
        after.with(202) == after.sent,
        "expected full service after the drain; statuses were {:?}",
        after.statuses
    );
    gateway.drained()?;
    let (accepted, completed) = (accepted + after.with(202), gateway.completed()?);
    ensure!(
        completed == accepted,
        "expected each of the {accepted} accepted URLs to be completed; {completed} are"
    );
    gateway.end()?;
    let [p50, p95, p99, max] = full.within([0.5, 0.95, 0.99, 1.0]);
    let p99_after = after.within([0.99; 4])[0];
    let mega = memory.map(|bytes| bytes as f64 / 1e6);
    if arguments.json {
        let told = json!({
            "broker": arguments.broker.name(), "limit": LIMIT, "asked_per_s": rate, "seconds": time.as_secs_f64(),
            "reached_per_s": full.rate(), "accepted": full.with(202), "refused_503": full.with(503),
            "timed_out": full.timed_out, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": max,
            "memory_mb_thirds": mega, "drain_s": drain.as_secs_f64(), "after_accepted": after.with(202),
            "after_p99_ms": p99_after, "completed": completed, "load": measured::load(),
        });
        println!("{told:#}");
        return Ok(());
    }
    println!(
        "{rate} POST/s for {:.0} s on {}, at most {LIMIT} URLs waiting, worker off\n",
        time.as_secs_f64(),
        arguments.broker.name()
    );
    println!(
        "answered: {:.0} per s; p50 {p50:.2}, p95 {p95:.2}, p99 {p99:.2}, at most {max:.2} ms",
        full.rate()
    );
    println!(
        "accepted (202): {}; refused (503, queue-full, Retry-After): {}; others, broken, timed out: 0",
        full.with(202),
        full.with(503)
    );
    println!("memory, median of each third: {:.1}, {:.1}, {:.1} MB", mega[0], mega[1], mega[2]);
    println!("worker on: drained in {:.1} s", drain.as_secs_f64());
    println!("afterwards: {} of {} accepted, p99 {p99_after:.2} ms", after.with(202), after.sent);
    println!("accepted {accepted} = completed records {completed}");
    println!("\nload average: {}", measured::load());
    Ok(())
}

/// Nothing but accepted, and refused as the contract says.
fn check(full: &Outcome) -> anyhow::Result<()> {
    ensure!(
        full.with(202) + full.full == full.sent && full.other_refusals == 0,
        "expected only 202, and 503 with `queue-full` and `Retry-After`; of {} there were {:?}, {} refused otherwise, {} broken and \
         {} timed out",
        full.sent,
        full.statuses,
        full.other_refusals,
        full.broken,
        full.timed_out
    );
    Ok(())
}

/// The memory of a process over time.
struct Memory {
    end: mpsc::Sender<()>,
    looks: thread::JoinHandle<Vec<u64>>,
}

impl Memory {
    fn watch(pid: Pid) -> Self {
        let (end, ended) = mpsc::channel();
        let looks = thread::spawn(move || {
            let mut looks = Vec::new();
            while ended.recv_timeout(LOOK).is_err() {
                looks.extend(measured::memory_now(pid));
            }
            looks
        });
        Self { end, looks }
    }

    /// The median in each third of the time.
    fn thirds(self) -> [u64; 3] {
        let _ = self.end.send(());
        let looks = self.looks.join().unwrap_or_default();
        let third = (looks.len() / 3).max(1);
        let mut thirds = looks.chunks(third).map(median);
        [(); 3].map(|()| thirds.next().unwrap_or_default())
    }
}
