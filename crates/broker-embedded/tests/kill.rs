//! Kill test: a child process under load is killed with SIGKILL at random times.
//!
//! The child prints the ids of accepted (`A`), delivered (`D`) and settled (`S`) messages. No accepted message may be
//! lost, and none may be delivered after its settle returned `Ok`. The test runs itself, hence no test harness.
#![allow(clippy::print_stdout, reason = "it prints what a test harness would")]

use crawlway_broker::{
    Broker, Outgoing, QueueAdmin, QueueName, QueueSpec, SettleOutcome, Timestamp, Verdict,
};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{
    collections::HashSet,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const KILLS: usize = 120;
const QUEUES: [&str; 2] = ["plain", "grouped"];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => child(Path::new(&arguments[2]), arguments[3].parse().expect("a run number")),
        Some("--drain") => drain(Path::new(&arguments[2])),
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            kill_repeatedly();
            println!("test a_killed_queue_loses_nothing_and_brings_nothing_back ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

/// Xorshift random number generator.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Ids that the children reported.
#[derive(Default)]
struct Oracle {
    accepted: HashSet<String>,
    delivered: HashSet<String>,
    settled: HashSet<String>,
}

impl Oracle {
    fn record(&mut self, output: &str, run: usize) {
        // An incomplete last line does not count.
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        for line in whole.lines() {
            let (what, ids) = line.split_at(1);
            for id in ids.split_whitespace() {
                let id = id.to_owned();
                match what {
                    "A" => drop(self.accepted.insert(id)),
                    "S" => drop(self.settled.insert(id)),
                    "D" => {
                        assert!(
                            !self.settled.contains(&id),
                            "run {run}: {id} is redelivered after its settle returned ok"
                        );
                        self.delivered.insert(id);
                    }
                    _ => panic!("run {run}: unexpected output {line:?}"),
                }
            }
        }
    }
}

fn kill_repeatedly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = folder.path().join("queue");
    let seed = Timestamp::now().as_millis();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut oracle = Oracle::default();
    let start = |mode: &str, run: usize| {
        Command::new(std::env::current_exe().expect("our own path"))
            .arg(mode)
            .arg(&directory)
            .arg(run.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts")
    };
    for run in 0..KILLS {
        let mut child = start("--child", run);
        let mut stdout = child.stdout.take().expect("its output");
        let reader = thread::spawn(move || {
            let mut output = String::new();
            stdout.read_to_string(&mut output).map(|_| output)
        });
        // Some children are killed while they open the directory.
        thread::sleep(Duration::from_millis(1 + rng.below(120)));
        child.kill().expect("SIGKILL");
        let status = child.wait().expect("its end");
        assert_eq!(status.code(), None, "run {run}: the child ended by itself, with {status}");
        oracle.record(&reader.join().expect("the reader").expect("text"), run);
    }
    let output = start("--drain", KILLS).wait_with_output().expect("the last child ends");
    assert!(output.status.success(), "the last child takes out what is left: {}", output.status);
    oracle.record(&String::from_utf8(output.stdout).expect("text"), KILLS);
    let lost: Vec<&String> = oracle.accepted.difference(&oracle.delivered).collect();
    assert!(lost.is_empty(), "{} of {} accepted are lost: {lost:?}", lost.len(), oracle.accepted.len());
    let unsettled: Vec<&String> = oracle.accepted.difference(&oracle.settled).collect();
    println!(
        "{KILLS} kills, {} accepted, {} settled, {} settled without a report",
        oracle.accepted.len(),
        oracle.settled.len(),
        unsettled.len()
    );
    assert!(oracle.accepted.len() > KILLS, "the children got to work");
    assert!(unsettled.len() <= oracle.accepted.len() / 2, "most settles were reported");
}

fn open(directory: &Path) -> Arc<EmbeddedBroker> {
    // Small segments and a short interval, so that recycling and compaction happen in a short run.
    let options =
        Options { max_segment: 64 << 10, housekeeping: Duration::from_millis(5), ..Options::default() };
    let broker = EmbeddedBroker::open(directory, options).expect("what a kill leaves can be opened");
    assert_eq!(broker.recovery().damage, [], "a kill damages nothing");
    Arc::new(broker)
}

fn specs() -> Vec<QueueSpec> {
    let spec =
        |name: &str| QueueSpec::new(QueueName::new(name).expect("a name")).prefetch(500).max_attempts(60_000);
    vec![spec(QUEUES[0]), spec(QUEUES[1]).ordering(crawlway_broker::Ordering::PerGroup)]
}

/// Prints a report line in one write.
fn report(what: char, ids: &[String]) {
    if !ids.is_empty() {
        let line = format!("{what} {}\n", ids.join(" "));
        std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
    }
}

fn child(directory: &Path, run: u64) {
    let broker = open(directory);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        broker.declare(&specs()).await.expect("declared");
        let numbers = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for task in 0..3 {
            tasks.push(tokio::spawn(publish(broker.clone(), run, task, numbers.clone())));
            tasks.push(tokio::spawn(consume(broker.clone(), run, task)));
        }
        for task in tasks {
            task.await.expect("a task panicked");
        }
    });
}

async fn publish(broker: Arc<EmbeddedBroker>, run: u64, task: u64, numbers: Arc<AtomicU64>) {
    let mut rng = Rng::new(run * 31 + task);
    loop {
        let queue = QueueName::new(QUEUES[rng.below(2) as usize]).expect("a name");
        let batch: Vec<Outgoing> = (0..1 + rng.below(16))
            .map(|_| {
                let id = format!("{run}-{}", numbers.fetch_add(1, Ordering::Relaxed));
                let body = id.repeat(1 + rng.below(100) as usize);
                Outgoing::to_queue(&queue, body).id(id.as_str()).group(format!("g{}", rng.below(50)))
            })
            .collect();
        let ids: Vec<String> = batch.iter().map(|message| message.id.to_string()).collect();
        let outcomes = broker.publish(batch).await;
        let accepted: Vec<String> =
            ids.into_iter().zip(outcomes).filter(|(_, o)| o.is_ok()).map(|(id, _)| id).collect();
        report('A', &accepted);
    }
}

async fn consume(broker: Arc<EmbeddedBroker>, run: u64, task: u64) {
    let mut rng = Rng::new(run * 37 + task + 1000);
    loop {
        let queue = QueueName::new(QUEUES[rng.below(2) as usize]).expect("a name");
        let deliveries = broker.receive(&queue, 32, Duration::from_millis(5)).await.expect("received");
        let ids: Vec<String> = deliveries.iter().map(|delivery| delivery.message.id.to_string()).collect();
        for delivery in &deliveries {
            let id = delivery.message.id.as_str();
            let whole = delivery.message.body.chunks(id.len()).all(|part| part == id.as_bytes());
            assert!(whole, "{id} has the body of another");
        }
        report('D', &ids);
        let verdicts = deliveries
            .into_iter()
            .map(|delivery| {
                let after = Duration::from_millis(rng.below(20));
                let verdict = match rng.below(20) {
                    0..=13 => Verdict::Done,
                    14..=16 => Verdict::Retry { after, error: "it failed".into() },
                    _ => Verdict::Defer { until: Timestamp::now() + after },
                };
                (delivery.receipt, verdict)
            })
            .collect();
        let outcomes = broker.settle(verdicts).await;
        let done: Vec<String> = ids
            .into_iter()
            .zip(outcomes)
            .filter(|(_, o)| *o == Ok(SettleOutcome::Done))
            .map(|(id, _)| id)
            .collect();
        report('S', &done);
    }
}

/// Receives and settles all remaining messages.
fn drain(directory: &Path) {
    let broker = open(directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        broker.declare(&specs()).await.expect("declared");
        let deadline = Instant::now() + Duration::from_secs(60);
        for name in QUEUES {
            let queue = QueueName::new(name).expect("a name");
            loop {
                assert!(Instant::now() < deadline, "taking out what is left does not end");
                let deliveries =
                    broker.receive(&queue, 100, Duration::from_millis(20)).await.expect("received");
                let ids: Vec<String> =
                    deliveries.iter().map(|delivery| delivery.message.id.to_string()).collect();
                report('D', &ids);
                let verdicts =
                    deliveries.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
                assert!(broker.settle(verdicts).await.iter().all(Result::is_ok), "settled");
                report('S', &ids);
                let depth = broker.depth(&queue).await.expect("the depth");
                if depth.pending() + depth.in_flight == 0 {
                    assert_eq!(depth.dead, 0, "no dead letters");
                    break;
                }
            }
        }
    });
}
