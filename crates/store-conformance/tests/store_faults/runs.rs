//! Faults of the ingestion runs.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{RunStore, runs::*};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    HidesDuplicates,
    EverythingIsNew,
    PositionGoesBack,
    BreakerStaysClosed,
    AnyVersionIsReplaced,
    NothingIsAmended,
    DropsReasons,
    FinalisesTwice,
    AbortLeavesJobsOpen,
    FilterIsIgnored,
    NothingIsPurged,
    PurgesAtOnce,
}
use Fault::*;

faulty! { RunStore {
        start(run: &NewRun) -> Answer<StartOutcome>;
        seal(run: &str) -> Answer<Option<Run>>;
        run(run: &str) -> Answer<Option<Run>>;
        runs(query: &RunQuery) -> Answer<RunPage>;
        job(job: &JobKey) -> Answer<Option<Job>>;
        ready() -> Answer<()>;
    }

    async fn add_jobs(&self, run: &str, jobs: &[NewJob]) -> Answer<Option<Vec<AddOutcome>>> {
        let outcomes = self.store.add_jobs(run, jobs).await?;
        let changed = |outcome| match (self.fault, outcome) {
            (HidesDuplicates, AddOutcome::Duplicate { .. }) => AddOutcome::Repeated,
            (EverythingIsNew, AddOutcome::Known) => AddOutcome::New,
            (_, outcome) => outcome,
        };
        Ok(outcomes.map(|outcomes| outcomes.into_iter().map(changed).collect()))
    }

    async fn set_queued_position(&self, run: &str, position: u64) -> Answer<()> {
        let position = if self.fault == PositionGoesBack { 1 } else { position };
        self.store.set_queued_position(run, position).await
    }

    async fn check(&self, run: &str, job: &JobKey) -> Answer<Option<JobCheck>> {
        let check = self.store.check(run, job).await?;
        Ok(check.map(|check| JobCheck { breaker_open: check.breaker_open && self.fault != BreakerStaysClosed, ..check }))
    }

    async fn store_version(
        &self,
        run: &str,
        job: &JobKey,
        expected: Option<i64>,
        version: &JobVersion,
    ) -> Answer<StoreVersionOutcome> {
        match self.store.store_version(run, job, expected, version).await? {
            StoreVersionOutcome::Changed { present } if self.fault == AnyVersionIsReplaced => {
                self.store.store_version(run, job, present, version).await
            }
            outcome => Ok(outcome),
        }
    }

    async fn settle(&self, run: &str, settlements: &[Settlement]) -> Answer<Vec<SettleOutcome>> {
        let mut settlements = settlements.to_vec();
        for settlement in &mut settlements {
            match self.fault {
                DropsReasons => settlement.error = None,
                NothingIsAmended if settlement.outcome.is_amendable() => settlement.outcome = JobOutcome::Closed,
                _ => {}
            }
        }
        self.store.settle(run, &settlements).await
    }

    async fn finalise(&self, run: &str) -> Answer<FinaliseOutcome> {
        let outcome = self.store.finalise(run).await?;
        match (self.fault, &outcome) {
            (FinalisesTwice, FinaliseOutcome::AlreadyFinished) => {
                let run = self.store.run(run).await?;
                Ok(run.map_or(outcome, |run| FinaliseOutcome::Finished(Box::new(run))))
            }
            _ => Ok(outcome),
        }
    }

    async fn abort(&self, run: &str) -> Answer<AbortOutcome> {
        match self.fault {
            AbortLeavesJobsOpen => Ok(AbortOutcome::Aborted),
            _ => self.store.abort(run).await,
        }
    }

    async fn jobs(&self, run: &str, query: &RunJobQuery) -> Answer<RunJobPage> {
        let mut query = query.clone();
        if self.fault == FilterIsIgnored {
            query.filter = JobFilter::All;
        }
        self.store.jobs(run, &query).await
    }

    async fn purge(&self, min_age: Duration, max: usize) -> Answer<usize> {
        match self.fault {
            NothingIsPurged => Ok(0),
            PurgesAtOnce => self.store.purge(Duration::ZERO, max).await,
            _ => self.store.purge(min_age, max).await,
        }
    }
}

finds! { runs on dyn RunStore, Sqlite::new();
    HidesDuplicates: ingesting::duplicates_are_told_and_the_first_counts;
    EverythingIsNew: ingesting::jobs_are_upserted_and_old_errors_cleared;
    PositionGoesBack: ingesting::a_queued_position_never_goes_back;
    BreakerStaysClosed: breaker::the_last_failure_opens_the_breaker, breaker::breakers_are_per_company_and_run;
    AnyVersionIsReplaced: versions::only_the_compared_version_is_replaced, versions::racing_versions_have_one_winner;
    NothingIsAmended: settling::a_lost_message_can_come_back, ending::a_replay_amends_the_counts_of_a_finalised_run;
    DropsReasons: listing::jobs_are_listed_by_outcome;
    FinalisesTwice: ending::a_run_is_finalised_exactly_once;
    AbortLeavesJobsOpen: ending::an_aborted_run_is_finished_with_its_counts;
    FilterIsIgnored: listing::open_jobs_are_found_by_their_age;
    NothingIsPurged: retention::no_more_are_purged_than_asked;
    PurgesAtOnce: retention::a_finished_run_expires_and_keeps_its_counts;
}
