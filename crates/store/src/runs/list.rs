//! Paginated lists of runs, and of the jobs of a run.

use super::{JobKey, JobOutcome, JobStage, Run, RunState};
use crate::Timestamp;
use std::{fmt, str::FromStr, time::Duration};

/// Maximum page size.
pub const MAX_PAGE_SIZE: usize = 1000;

/// Query for a page of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunQuery {
    /// In this state.
    pub state: Option<RunState>,
    /// Cursor of the previous page.
    pub after: Option<RunCursor>,
    /// Page size, capped at [`MAX_PAGE_SIZE`].
    pub limit: usize,
}

/// A page of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// The runs, newest first.
    pub runs: Vec<Run>,
    /// Cursor of the next page; `None` at the end.
    pub next: Option<RunCursor>,
}

impl RunPage {
    /// A page of up to `max` runs, from a query for `max + 1`: the extra one shows that there is a next page.
    pub fn from_rows(mut runs: Vec<Run>, max: usize) -> Self {
        let more = runs.len() > max;
        runs.truncate(max);
        let next = runs.last().filter(|_| more).map(RunCursor::at);
        Self { runs, next }
    }
}

/// Pagination cursor: the last run of a page. Its text is `MILLISECONDS-ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCursor {
    /// Time of its start.
    pub started_at: Timestamp,
    /// Its id.
    pub id: String,
}

impl RunCursor {
    /// Cursor of a page that ends with this run.
    pub fn at(run: &Run) -> Self {
        Self { started_at: run.started_at, id: run.id.clone() }
    }
}

/// Error of a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cursor; use the one of the previous page")]
pub struct InvalidRunCursor(String);

impl fmt::Display for RunCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.started_at.as_millis(), self.id)
    }
}

impl FromStr for RunCursor {
    type Err = InvalidRunCursor;

    fn from_str(text: &str) -> Result<Self, InvalidRunCursor> {
        let read = || {
            let (millis, id) = text.split_once('-')?;
            Some(Self { started_at: Timestamp::from_millis(millis.parse().ok()?), id: id.to_owned() })
        };
        read().ok_or_else(|| InvalidRunCursor(text.chars().take(80).collect()))
    }
}

/// Which jobs of a run are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobFilter {
    /// All.
    #[default]
    All,
    /// Those that are open, and have been in their stage at least this long. Reconciliation looks for the messages of the old ones.
    Open {
        /// Minimum time in the stage.
        min_age: Duration,
    },
    /// Those with this outcome.
    Settled(JobOutcome),
}

/// Query for a page of the jobs of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunJobQuery {
    /// Which jobs.
    pub filter: JobFilter,
    /// Position of the last job of the previous page.
    pub after: Option<u64>,
    /// Page size, capped at [`MAX_PAGE_SIZE`].
    pub limit: usize,
}

/// A job in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJob {
    /// Key.
    pub key: JobKey,
    /// URL of its record.
    pub url: String,
    /// Position in the source.
    pub position: u64,
    /// Stage that it is in, or was in when it was settled.
    pub stage: JobStage,
    /// Outcome; `None` while it is open.
    pub outcome: Option<JobOutcome>,
    /// Reason of its outcome.
    pub error_message: Option<String>,
    /// When it was settled, or came into its stage.
    pub changed_at: Timestamp,
}

/// A page of the jobs of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJobPage {
    /// The jobs by position.
    pub jobs: Vec<RunJob>,
    /// Position to continue after; `None` at the end.
    pub next: Option<u64>,
}

impl RunJobPage {
    /// A page of up to `max` jobs, from a query for `max + 1`: the extra one shows that there is a next page.
    pub fn from_rows(mut jobs: Vec<RunJob>, max: usize) -> Self {
        let more = jobs.len() > max;
        jobs.truncate(max);
        let next = jobs.last().filter(|_| more).map(|job| job.position);
        Self { jobs, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips() {
        let cursor = RunCursor { started_at: Timestamp::from_millis(17), id: "a-b".to_owned() };
        assert_eq!(cursor.to_string(), "17-a-b");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert!("x-1".parse::<RunCursor>().is_err());
    }
}
