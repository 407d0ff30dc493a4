//! Ingestion runs: a row per run, per job, and per job of a run.

mod ending;
mod ingest;
mod lists;
mod rows;
mod settle;
mod versions;

use crate::{
    connection::{Arg, Durability::PowerLoss, Tx},
    dialect::Sql,
    fault::Fault,
    store::{SqlStore, read, transact},
    time::saturating_i64,
};
use crawlway_store::{
    RunStore, StoreError,
    runs::{
        AbortOutcome, AddOutcome, FinaliseOutcome, Job, JobCheck, JobFilter, JobKey, JobOutcome, JobVersion,
        MAX_BATCH, MAX_PAGE_SIZE, NewJob, NewRun, Run, RunJobPage, RunJobQuery, RunPage, RunQuery,
        SettleOutcome, Settlement, StartOutcome, StoreVersionOutcome,
    },
};
use std::time::Duration;

/// How a transaction locks a run against others. On SQLite there is one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunLock {
    /// For changes of jobs, which do not change the run.
    Shared,
    /// For changes of the run, its metadata included.
    Exclusive,
}

/// Locks a run until the transaction ends. Advisory locks, since they are granted in order: with locks of its row, settlements of many
/// workers would keep an abort waiting for ever.
async fn lock(tx: &mut Tx, run: &str, lock: RunLock) -> Result<(), Fault> {
    // The second argument is arbitrary.
    static SHARED: Sql = Sql::new(
        "SELECT 1 FROM (SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 7239452018448))) l",
    );
    static EXCLUSIVE: Sql =
        Sql::new("SELECT 1 FROM (SELECT pg_advisory_xact_lock(hashtextextended($1, 7239452018448))) l");
    if tx.is_shared() {
        let statement = if lock == RunLock::Shared { &SHARED } else { &EXCLUSIVE };
        tx.run(statement, vec![Arg::Text(run)]).await?;
    }
    Ok(())
}

fn check_batch(len: usize) -> Result<(), StoreError> {
    if len <= MAX_BATCH {
        return Ok(());
    }
    Err(StoreError::Invalid { problem: format!("a batch of {len} jobs; the maximum is {MAX_BATCH}") })
}

#[async_trait::async_trait]
impl RunStore for SqlStore {
    async fn start(&self, run: &NewRun) -> Result<StartOutcome, StoreError> {
        transact!(PowerLoss, self, tx, ingest::start(tx, run, self.0.time.now()))
    }

    async fn add_jobs(&self, run: &str, jobs: &[NewJob]) -> Result<Option<Vec<AddOutcome>>, StoreError> {
        check_batch(jobs.len())?;
        transact!(PowerLoss, self, tx, ingest::add_jobs(tx, run, jobs, self.0.time.now()))
    }

    async fn set_queued_position(&self, run: &str, position: u64) -> Result<(), StoreError> {
        static SET: Sql =
            Sql::new("UPDATE ingestion_runs SET queued_position = $2 WHERE id = $1 AND queued_position < $2");
        let args = || vec![Arg::Text(run), Arg::Int(saturating_i64(position))];
        transact!(self, tx, tx.run(&SET, args())).map(drop)
    }

    async fn seal(&self, run: &str) -> Result<Option<Run>, StoreError> {
        transact!(PowerLoss, self, tx, ingest::seal(tx, run, self.0.time.now()))
    }

    async fn check(&self, run: &str, job: &JobKey) -> Result<Option<JobCheck>, StoreError> {
        read!(self, tx, versions::check(tx, run, job))
    }

    async fn store_version(
        &self,
        run: &str,
        job: &JobKey,
        expected: Option<i64>,
        version: &JobVersion,
    ) -> Result<StoreVersionOutcome, StoreError> {
        transact!(self, tx, versions::store(tx, run, job, expected, version, self.0.time.now()))
    }

    async fn settle(&self, run: &str, settlements: &[Settlement]) -> Result<Vec<SettleOutcome>, StoreError> {
        check_batch(settlements.len())?;
        transact!(PowerLoss, self, tx, settle::settle(tx, run, settlements, self.0.time.now()))
    }

    async fn finalise(&self, run: &str) -> Result<FinaliseOutcome, StoreError> {
        // Without a lock first, since jobs are open nearly always.
        if let Some(outcome) = read!(self, tx, ending::not_due(tx, run))? {
            return Ok(outcome);
        }
        transact!(PowerLoss, self, tx, ending::finalise(tx, run, self.0.time.now()))
    }

    async fn abort(&self, run: &str) -> Result<AbortOutcome, StoreError> {
        let outcome = transact!(PowerLoss, self, tx, ending::abort(tx, run))?;
        if !matches!(outcome, AbortOutcome::Aborted | AbortOutcome::AlreadyAborted) {
            return Ok(outcome);
        }
        let filter = JobFilter::Open { min_age: Duration::ZERO };
        let query = RunJobQuery { filter, after: None, limit: MAX_PAGE_SIZE };
        loop {
            let open = RunStore::jobs(self, run, &query).await?.jobs;
            if open.is_empty() {
                break;
            }
            let aborted = open.into_iter().map(|job| Settlement::new(job.key, JobOutcome::Aborted));
            RunStore::settle(self, run, &aborted.collect::<Vec<_>>()).await?;
        }
        RunStore::finalise(self, run).await?;
        Ok(outcome)
    }

    async fn run(&self, run: &str) -> Result<Option<Run>, StoreError> {
        read!(self, tx, lists::run(tx, run))
    }

    async fn runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        read!(self, tx, lists::runs(tx, query))
    }

    async fn jobs(&self, run: &str, query: &RunJobQuery) -> Result<RunJobPage, StoreError> {
        read!(self, tx, lists::jobs(tx, run, query, self.0.time.now()))
    }

    async fn job(&self, job: &JobKey) -> Result<Option<Job>, StoreError> {
        read!(self, tx, lists::job(tx, job))
    }

    async fn purge(&self, min_age: Duration, max: usize) -> Result<usize, StoreError> {
        transact!(self, tx, ending::purge(tx, min_age, max, self.0.time.now()))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.ping().await
    }
}
