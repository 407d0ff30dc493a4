//! A worker that is killed repeatedly, for tests of backends that start themselves as a child.
//!
//! The child processes messages one after the other, like a worker, and prints each answer. Message `n` fails `n % 4` times,
//! and is completed after that unless it has failed permanently. The next child begins with the first message that was not
//! acknowledged.

use super::fixture::{about, at, expect_ok, page};
use crawlway_store::UrlRecords;
use crawlway_store::inventory::{BeginOutcome, EndOutcome, MAX_ATTEMPTS, RecordId, RecordStatus};
use std::{
    collections::{HashMap, HashSet},
    io::Read,
    process::{Command, Stdio},
    time::Duration,
};

fn url(message: u64) -> String {
    format!("https://a.example/{message}")
}

/// The child: processes messages from this one on until it is killed, and prints a line after each step.
pub async fn work(records: &dyn UrlRecords, from: u64, tell: impl Fn(String)) {
    for message in from.. {
        let request = about(&url(message), &format!("m-{message}"), message);
        loop {
            match expect_ok(records.begin(&request, at(message)).await, "beginning") {
                BeginOutcome::AlreadyFinished { .. } => break,
                BeginOutcome::Superseded { by } => {
                    panic!("there is no other message about it, and yet {by} is newer")
                }
                BeginOutcome::Started { attempt, retry_count } => {
                    tell(format!("F {message}"));
                    let ended = if u64::from(retry_count) < message % 4 {
                        records.fail(&attempt, "timed out", MAX_ATTEMPTS, at(message)).await
                    } else {
                        records.complete(&attempt, &page(&message.to_string()), at(message)).await
                    };
                    match expect_ok(ended, "ending") {
                        EndOutcome::Recorded { status, retry_count } => {
                            tell(format!("E {message} {status} {retry_count}"));
                        }
                        other => panic!("the attempt is the only one, and yet {other:?}"),
                    }
                }
            }
        }
        tell(format!("A {message}"));
    }
}

/// Answers that children have printed.
#[derive(Debug, Default)]
pub struct KilledWorkers {
    acknowledged: u64,
    ended: HashMap<u64, (String, u32)>,
    finished: HashSet<u64>,
}

impl KilledWorkers {
    /// Starts children, each with the message to begin with, and kills each at a random time.
    pub fn kill_repeatedly(kills: u64, child: impl Fn(u64) -> Command) -> Self {
        let mut chance = crawlway_store::Timestamp::now().as_millis();
        let mut told = Self::default();
        for run in 0..kills {
            let mut child = child(told.acknowledged)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap_or_else(|error| panic!("starting a child: {error}"));
            let mut stdout = child.stdout.take().unwrap_or_else(|| panic!("the child has an output"));
            let reader = std::thread::spawn(move || {
                let mut output = String::new();
                stdout.read_to_string(&mut output).map(|_| output)
            });
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_millis(20 + (chance >> 33) % 250));
            child.kill().unwrap_or_else(|error| panic!("killing a child: {error}"));
            let status = child.wait().unwrap_or_else(|error| panic!("waiting for a child: {error}"));
            assert_eq!(status.code(), None, "run {run}: the child ended by itself, with {status}");
            match reader.join() {
                Ok(Ok(output)) => told.read(&output),
                other => panic!("run {run}: the output of the child: {other:?}"),
            }
        }
        assert!(told.acknowledged > kills, "the children got to work: {}", told.acknowledged);
        told
    }

    /// Number of acknowledged messages.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn read(&mut self, output: &str) {
        // A last line without its end was not printed completely.
        let whole = output.rfind('\n').map_or("", |end| &output[..end]);
        for line in whole.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |place: usize| words[place].parse::<u64>().unwrap_or_else(|_| panic!("{line:?}"));
            let message = number(1);
            match words[0] {
                "F" => assert!(!self.finished.contains(&message), "{message} is fetched after its end"),
                "E" => {
                    let count = u32::try_from(number(3)).unwrap_or(u32::MAX);
                    let before = self.ended.insert(message, (words[2].to_owned(), count));
                    assert!(before.is_none_or(|(_, before)| before <= count), "{line:?} counts backwards");
                    if RecordStatus::from_name(words[2]).is_some_and(RecordStatus::is_finished) {
                        self.finished.insert(message);
                    }
                }
                "A" => self.acknowledged = message + 1,
                _ => panic!("the child said {line:?}"),
            }
        }
    }

    /// Checks that every acknowledged message has the expected end, with its failures counted once.
    pub async fn check(&self, records: &dyn UrlRecords) {
        for message in 0..self.acknowledged {
            let record = expect_ok(records.get(RecordId::of_url(&url(message))).await, "reading");
            let record =
                record.unwrap_or_else(|| panic!("{message} was acknowledged, and its record is lost"));
            let failures = u32::try_from(message % 4).unwrap_or(0);
            let status =
                if failures < MAX_ATTEMPTS { RecordStatus::Completed } else { RecordStatus::FailedPermanent };
            assert_eq!(record.processing.retry_count, failures, "the failures of {message}");
            assert_eq!(record.status, status, "the end of {message}");
            if status == RecordStatus::Completed {
                let source = format!("<p>{message}</p>");
                assert_eq!(
                    record.metadata.page_source.text(),
                    Some(source.as_str()),
                    "the page of {message}"
                );
            }
        }
        let counts = expect_ok(records.counts().await, "counting");
        // Beside the acknowledged there is at most the one that the last child was at.
        assert!(counts.total() - self.acknowledged <= 1, "{counts:?} for {} messages", self.acknowledged);
    }
}
