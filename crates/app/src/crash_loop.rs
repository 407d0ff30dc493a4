//! Back-off in a crash loop: after crashes soon after the start, a process on the same data directory waits before it runs
//! items, longer each time.

use crate::output::warn;
use crawlway_clock::{Backoff, Timestamp};
use crawlway_flow::Shutdown;
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

const FILE: &str = "restarts.json";
/// A crash within this time after the start is part of a crash loop.
const CRASH_LOOP_WINDOW: Duration = Duration::from_secs(60);
const MAX_DELAY: Duration = Duration::from_secs(5);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), MAX_DELAY);

/// Content of the file, for the next process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct State {
    /// Time since which a process runs items; none during its delay.
    running_since: Option<Timestamp>,
    /// Number of crashes in a row.
    crashes: u32,
    /// Items are not run before this time.
    not_before: Timestamp,
}

impl State {
    /// State of a process that starts now, after the state of its predecessor.
    fn at_start(self, now: Timestamp) -> Self {
        let Some(since) = self.running_since else { return self };
        let crashes = if now.since(since) < CRASH_LOOP_WINDOW { self.crashes.saturating_add(1) } else { 0 };
        Self { running_since: None, crashes, not_before: now + delay(crashes) }
    }
}

/// Delay after this many crashes in a row; a single crash costs none.
fn delay(crashes: u32) -> Duration {
    BACKOFF.delay(crashes.saturating_sub(1))
}

/// File that marks a running process. A graceful shutdown removes it.
#[derive(Debug)]
pub(crate) struct Restarts {
    path: PathBuf,
}

impl Restarts {
    /// The file in a data directory that no other process uses.
    pub(crate) fn new(data: &Path) -> Self {
        Self { path: data.join(FILE) }
    }

    /// Waits for the back-off, then marks this process as running.
    pub(crate) async fn wait(&self, stop: &Shutdown) {
        let now = Timestamp::now();
        let before = read(&self.path);
        let state = before.at_start(now);
        if state != before {
            self.write(&state);
        }
        // Bounded, in case the clock was set back.
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
        self.write(&State { running_since: Some(Timestamp::now()), ..state });
    }

    /// Removes the file after a graceful shutdown.
    pub(crate) fn shut_down(&self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the file; the next start may count this end as a crash");
        }
    }

    fn write(&self, state: &State) {
        let written =
            serde_json::to_vec(state).map_err(io::Error::other).and_then(|json| fs::write(&self.path, json));
        if let Err(error) = written {
            tracing::warn!(%error, path = %self.path.display(), "cannot write the file; a crash loop would not be detected");
        }
    }
}

/// State of the predecessor; the default if the file is missing or invalid.
fn read(path: &Path) -> State {
    fs::read(path).ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_crash_in_a_row_is_the_first_that_delays() {
        let delays: Vec<u128> = (0..4).map(|crashes| delay(crashes).as_millis()).collect();
        assert_eq!(delays, [0, 0, 100, 200]);
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
            "a kill during the delay does not count"
        );
        assert_eq!(runs.at_start(start + CRASH_LOOP_WINDOW).crashes, 0, "a process that ran for long");
        assert_eq!(State::default().at_start(start), State::default(), "a graceful shutdown");
    }
}
