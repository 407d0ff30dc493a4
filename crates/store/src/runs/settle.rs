//! Processing of a job: the check before, its version, its outcome.

use super::{Extraction, JobKey, JobOutcome, JobStage, JobVersion, RunState};

/// State of a run and of one of its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCheck {
    /// State of the run.
    pub state: RunState,
    /// Whether the run belongs to the test database.
    pub use_test_db: bool,
    /// Whether the breaker of the job's company is open.
    pub breaker_open: bool,
    /// The stage and outcome of the job in this run; `None` if the run does not have it.
    pub job: Option<(JobStage, Option<JobOutcome>)>,
    /// Last stored version of the job, of any run.
    pub version: Option<JobVersion>,
}

/// What a worker does with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Fetch its page.
    Crawl,
    /// Extract its stored page; publish it to the extractor if the worker is a crawler.
    Extract,
    /// Settle it with this outcome and no request.
    Settle(JobOutcome),
    /// Nothing: it is settled.
    Nothing(JobOutcome),
    /// Nothing: the run does not have it.
    Unknown,
}

impl JobCheck {
    /// What a worker does with the job.
    pub fn next_step(&self) -> NextStep {
        let Some((stage, outcome)) = self.job else { return NextStep::Unknown };
        match (outcome, stage) {
            (Some(outcome), _) if !outcome.is_amendable() => NextStep::Nothing(outcome),
            _ if self.state == RunState::Aborted => NextStep::Settle(JobOutcome::Aborted),
            (_, JobStage::Extract) => NextStep::Extract,
            _ if self.breaker_open => NextStep::Settle(JobOutcome::Skipped),
            (_, JobStage::Crawl) => NextStep::Crawl,
        }
    }
}

/// Outcome of [`RunStore::store_version`](super::RunStore::store_version).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreVersionOutcome {
    /// The version is stored, and the job is in the stage `extract`.
    Stored,
    /// The present version is neither the expected nor the new one: compare with it.
    Changed {
        /// Its SimHash.
        present: Option<i64>,
    },
    /// The job is settled with this outcome; nothing is stored.
    Settled(JobOutcome),
    /// The run does not have the job.
    Unknown,
}

/// Outcome of a job, to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Job.
    pub job: JobKey,
    /// Outcome.
    pub outcome: JobOutcome,
    /// Reason, for `error_message`.
    pub error: Option<String>,
    /// Result of the extractor.
    pub extraction: Option<Extraction>,
}

impl Settlement {
    /// Outcome without further details.
    pub const fn new(job: JobKey, outcome: JobOutcome) -> Self {
        Self { job, outcome, error: None, extraction: None }
    }

    /// Outcome with its reason.
    pub fn because(job: JobKey, outcome: JobOutcome, reason: impl Into<String>) -> Self {
        Self { error: Some(reason.into()), ..Self::new(job, outcome) }
    }

    /// Stored page with the result of its extraction.
    pub fn extracted(job: JobKey, extraction: Extraction) -> Self {
        Self { extraction: Some(extraction), ..Self::new(job, JobOutcome::Stored) }
    }
}

/// Outcome of [`RunStore::settle`](super::RunStore::settle) for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The job was open and is settled.
    Settled {
        /// Whether its failure opened the breaker of its company.
        opened_breaker: bool,
    },
    /// The job had an [amendable](JobOutcome::is_amendable) outcome, which is replaced.
    Amended {
        /// The replaced outcome.
        from: JobOutcome,
        /// Whether its failure opened the breaker of its company.
        opened_breaker: bool,
    },
    /// The job is settled with this outcome, which is unchanged.
    AlreadySettled(JobOutcome),
    /// The run does not have the job.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_follows_from_the_state() {
        use {JobOutcome::*, JobStage::*, NextStep as Next, RunState::*};
        let step = |state, breaker_open, job| {
            JobCheck { state, use_test_db: false, breaker_open, job, version: None }.next_step()
        };
        assert_eq!(step(Running, false, None), Next::Unknown);
        assert_eq!(step(Running, false, Some((Crawl, None))), Next::Crawl);
        assert_eq!(step(Running, true, Some((Crawl, None))), Next::Settle(Skipped));
        assert_eq!(step(Running, true, Some((Extract, None))), Next::Extract, "its page is stored");
        assert_eq!(step(RunState::Aborted, true, Some((Extract, None))), Next::Settle(JobOutcome::Aborted));
        assert_eq!(step(RunState::Aborted, true, Some((Crawl, Some(Failed)))), Next::Nothing(Failed));
        assert_eq!(step(Finalised, false, Some((Crawl, Some(Dead)))), Next::Crawl, "a replay");
    }
}
