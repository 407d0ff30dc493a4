//! Start-up back-off: a process whose predecessors on the same data directory crashed soon after their start waits a while before
//! it runs items, longer each time, so that a crash loop leaves the machine to others.

use crate::output::warn;
use crawlway_clock::Timestamp;
use crawlway_flow::Stop;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

const FILE: &str = "restarts.json";
/// A process that ended within this time of its start, and not in order, is part of a crash loop.
const SOON: Duration = Duration::from_secs(60);
/// The delay after the second crash in a row; doubled each time,
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// up to this one.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// What the next process is to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct State {
    /// Since when a process runs items; none while it waits, or after an orderly end.
    running_since: Option<Timestamp>,
    /// How many processes crashed in a row.
    crashes: u32,
    /// Items are not run before this time.
    not_before: Timestamp,
}

impl State {
    /// What a process that starts now has to know, given what its predecessor left.
    fn at_start(self, now: Timestamp) -> Self {
        let Some(since) = self.running_since else { return self };
        let crashes = if now.since(since) < SOON { self.crashes.saturating_add(1) } else { 0 };
        Self { running_since: None, crashes, not_before: now + delay(crashes) }
    }
}

/// How long to wait after so many crashes in a row.
fn delay(crashes: u32) -> Duration {
    match crashes {
        0 | 1 => Duration::ZERO,
        more => FIRST_DELAY.saturating_mul(1 << (more - 2).min(16)).min(MAX_DELAY),
    }
}

/// Note that a process runs items. Ended in order, it is taken back.
#[derive(Debug)]
pub(crate) struct Restarts {
    path: PathBuf,
}

impl Restarts {
    /// The note in a data directory that no other process uses.
    pub(crate) fn new(data: &Path) -> Self {
        Self { path: data.join(FILE) }
    }

    /// Waits as long as the crashes before call for, and notes that this process runs items now.
    pub(crate) async fn wait(&self, stop: &Stop) {
        let now = Timestamp::now();
        let before = read(&self.path);
        let state = before.at_start(now);
        if state != before {
            self.note(&state);
        }
        // A clock that was set must not make it longer.
        let rest = state.not_before.since(now).min(MAX_DELAY);
        if !rest.is_zero() {
            warn(&format!(
                "the last {} processes on this data directory crashed soon after their start; items run again in {:.1} s",
                state.crashes,
                rest.as_secs_f64()
            ));
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                _ = stop.requested() => return,
            }
        }
        self.note(&State { running_since: Some(Timestamp::now()), ..state });
    }

    /// Notes an orderly end.
    pub(crate) fn ended_in_order(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "the next start may take this end for a crash");
        }
    }

    fn note(&self, state: &State) {
        let written =
            serde_json::to_vec(state).map_err(io::Error::other).and_then(|json| fs::write(&self.path, json));
        if let Err(error) = written {
            tracing::warn!(%error, path = %self.path.display(), "a crash loop would not be noticed");
        }
    }
}

/// What was left; what cannot be read says nothing.
fn read(path: &Path) -> State {
    fs::read(path).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_after_the_second_crash_up_to_the_longest() {
        let delays: Vec<u128> = (0..10).map(|crashes| delay(crashes).as_millis()).collect();
        assert_eq!(delays, [0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(delay(u32::MAX), MAX_DELAY);
    }

    #[test]
    fn only_a_crash_soon_after_the_start_counts() {
        let start = Timestamp::from_millis(1_700_000_000_000);
        let runs = State { running_since: Some(start), crashes: 3, not_before: Timestamp::default() };
        let soon = runs.at_start(start + Duration::from_secs(5));
        assert_eq!((soon.crashes, soon.running_since), (4, None));
        assert_eq!(soon.not_before, start + Duration::from_millis(5_400));
        assert_eq!(
            soon.at_start(start + Duration::from_secs(6)),
            soon,
            "who is killed while it waits counts nothing"
        );
        assert_eq!(runs.at_start(start + SOON).crashes, 0, "a process that lived long");
        assert_eq!(State::default().at_start(start), State::default(), "an orderly end");
    }
}
