//! A child that sends requests is killed with SIGKILL at random times and started again at once; no two requests of
//! any two lives may be closer than the gap, and no life may ask a group that told an earlier one to wait.
//!
//! The child says on standard output what it does: `S` a request starts, `E` it ends, `B` it was told to wait. On the
//! system's clock. Without a test harness, since the test starts itself.
#![allow(clippy::print_stdout, reason = "it prints what a test harness would")]

use crawlway_store::{Gate, Group, Limits, Outcome, Policy, Ticket, Timestamp, Turn, gate::BackOff};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use std::{
    collections::HashMap,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

const KILLS: usize = 60;
const GAP: Duration = Duration::from_millis(40);
const RETRY_AFTER: Duration = Duration::from_millis(900);
/// Name, how many at a time, and after so many requests it tells us to wait.
const GROUPS: [(&str, u32, Option<u64>); 3] = [("one", 1, None), ("three", 3, None), ("angry", 1, Some(2))];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => child(Path::new(&arguments[2]), arguments[3].parse().expect("a seed")),
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            kill_many_times();
            println!("test a_killed_gate_keeps_its_word ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

/// What is known of one group from the outside.
#[derive(Default)]
struct Known {
    last_start: Option<Timestamp>,
    last_end: Option<Timestamp>,
    not_before: Option<Timestamp>,
    in_flight: u32,
    requests: u32,
    cut_off: u32,
}

#[derive(Default)]
struct Witness(HashMap<String, Known>);

impl Witness {
    /// The child was alive at the time of its kill, so what it had in flight ended no earlier.
    fn hear(&mut self, output: &str, killed: Timestamp, run: usize) {
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        let mut starts: HashMap<&str, Vec<Timestamp>> = HashMap::new();
        for line in whole.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, group, time] = words[..] else { panic!("run {run}: the child said {line:?}") };
            let time = Timestamp::from_millis(time.parse().expect("a time"));
            let allowed = GROUPS.iter().find(|(name, ..)| *name == group).expect("a group").1;
            let known = self.0.entry(group.to_owned()).or_default();
            match what {
                "S" => {
                    if allowed > 1 {
                        starts.entry(group).or_default().push(time);
                    } else if let Some(last) = known.last_end {
                        assert!(time >= last + GAP, "run {run}: {group} asked at {time:?}, {last:?} before");
                    }
                    let told = known.not_before;
                    assert!(told <= Some(time), "run {run}: {group} asked at {time:?}, but told {told:?}");
                    known.in_flight += 1;
                    known.requests += 1;
                    assert!(
                        known.in_flight <= allowed,
                        "run {run}: {group} has {} in flight",
                        known.in_flight
                    );
                }
                "E" => {
                    known.last_end = known.last_end.max(Some(time));
                    known.in_flight -= 1;
                }
                "B" => known.not_before = known.not_before.max(Some(time)),
                _ => panic!("run {run}: the child said {line:?}"),
            }
        }
        // Of requests at the same time, the one that started first may be told last.
        for (group, mut times) in starts {
            times.sort();
            let last = &mut self.0.entry(group.to_owned()).or_default().last_start;
            for time in times {
                let before = last.replace(time);
                let early = before.is_some_and(|before| time < before + GAP);
                assert!(!early, "run {run}: {group} asked at {time:?}, {before:?} before");
            }
        }
        for known in self.0.values_mut().filter(|known| known.in_flight > 0) {
            known.last_end = known.last_end.max(Some(killed));
            known.cut_off += known.in_flight;
            known.in_flight = 0;
        }
    }
}

fn kill_many_times() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = folder.path().join("gate");
    let seed = Timestamp::now().as_millis();
    println!("seed {seed}");
    let mut witness = Witness::default();
    for run in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().expect("our own path"))
            .arg("--child")
            .arg(&directory)
            .arg((seed + run as u64).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let mut stdout = child.stdout.take().expect("its output");
        let reader = thread::spawn(move || {
            let mut output = String::new();
            stdout.read_to_string(&mut output).map(|_| output)
        });
        thread::sleep(Duration::from_millis(1 + (seed / 7 + run as u64 * 7919) % 200));
        let killed = Timestamp::now();
        child.kill().expect("SIGKILL");
        let status = child.wait().expect("its end");
        assert_eq!(status.code(), None, "run {run}: the child ended by itself, with {status}");
        witness.hear(&reader.join().expect("the reader").expect("text"), killed, run);
    }
    for (name, known) in &witness.0 {
        println!("{name}: {} requests, {} of them cut off by a kill", known.requests, known.cut_off);
    }
    for (name, ..) in GROUPS {
        assert!(witness.0.get(name).is_some_and(|known| known.requests > 2), "the children asked {name}");
    }
    assert!(witness.0["one"].cut_off > 0, "some kills came in the middle of a request");
}

fn tell(what: char, group: &Group, time: Timestamp) {
    let line = format!("{what} {group} {}\n", time.as_millis());
    std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
}

fn child(directory: &Path, seed: u64) {
    // What the group asks for is longer than any back-off, so that it is what counts.
    let back_off = BackOff { first: GAP, most: GAP, ..BackOff::default() };
    let policy = Policy { back_off, breaker: None, ..Policy::default() };
    let options = GateOptions { policy, directory: Some(directory.to_owned()), ..GateOptions::default() };
    let gate = EmbeddedGate::open(options).expect("what a kill leaves can be opened");
    let threads: Vec<_> = GROUPS
        .iter()
        .flat_map(|&(name, allowed, patience)| {
            (0..allowed + 1).map(move |nth| (name, allowed, patience, nth))
        })
        .map(|(name, allowed, patience, nth)| {
            let gate = gate.clone();
            let group = Group::new(name).expect("a name");
            thread::spawn(move || send(&gate, &group, allowed, patience, seed * 10 + u64::from(nth)))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread panicked");
    }
}

fn send(gate: &EmbeddedGate, group: &Group, allowed: u32, patience: Option<u64>, seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let limits = Limits { in_flight: allowed, gap: GAP };
    let ticket = Ticket::from_u128(seed.into());
    for request in 1.. {
        let permit = loop {
            match runtime.block_on(gate.reserve(group, ticket, &limits)).expect("an answer") {
                Turn::Go(permit) => break permit,
                Turn::NotBefore { at, .. } => thread::sleep(at.since(Timestamp::now()).min(GAP)),
            }
        };
        // When the gate let it go, which is before anybody could hear of it.
        tell('S', group, permit.until - Policy::default().lease);
        thread::sleep(Duration::from_millis((seed * 31 + request * 17) % 60));
        let ended = Timestamp::now();
        tell('E', group, ended);
        let blocks = patience.is_some_and(|patience| request % patience == 0);
        let outcome =
            if blocks { Outcome::Blocked { retry_after: Some(RETRY_AFTER) } } else { Outcome::Success };
        runtime.block_on(gate.finish(&permit, outcome)).expect("finished");
        if blocks {
            tell('B', group, ended + RETRY_AFTER);
        }
    }
}
