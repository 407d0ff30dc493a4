//! Fixture of runs: jobs of two companies, and calls that must work.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::runs::*;

/// Failures that open a breaker in the cases.
pub(super) const MAX_FAILURES: u32 = 5;

pub(super) fn new_run(id: &str) -> NewRun {
    NewRun {
        id: id.to_owned(),
        source: Some("jobs.csv".to_owned()),
        use_test_db: false,
        max_failures: MAX_FAILURES,
    }
}

pub(super) fn key(company: &str, external_id: &str) -> JobKey {
    JobKey::new(company, external_id).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn new_job(company: &str, external_id: &str, position: u64) -> NewJob {
    let url = format!("https://{company}.example/{external_id}");
    NewJob { key: key(company, external_id), url, title: Some(format!("Job {external_id}")), position }
}

/// Jobs of a company with the ids 1 to `count`.
pub(super) fn jobs_of(company: &str, count: u64) -> Vec<NewJob> {
    (1..=count).map(|number| new_job(company, &number.to_string(), number)).collect()
}

pub(super) fn version(simhash: i64) -> JobVersion {
    JobVersion { simhash, blob_key: format!("raw/{simhash}.html") }
}

pub(super) const SETTLED: SettleOutcome = SettleOutcome::Settled { opened_breaker: false };

impl Fixture<'_> {
    /// A run with these jobs, sealed.
    pub(super) async fn sealed(&self, id: &str, jobs: &[NewJob]) {
        self.running(id, jobs).await;
        expect_ok(self.store.seal(id).await, "sealing");
    }

    /// A run with these jobs.
    pub(super) async fn running(&self, id: &str, jobs: &[NewJob]) {
        expect_ok(self.store.start(&new_run(id)).await, "starting");
        self.add(id, jobs).await;
    }

    pub(super) async fn add(&self, run: &str, jobs: &[NewJob]) -> Vec<AddOutcome> {
        expect_ok(self.store.add_jobs(run, jobs).await, "adding")
            .unwrap_or_else(|| panic!("{run} takes jobs"))
    }

    pub(super) async fn settle_with(&self, run: &str, settlement: Settlement) -> SettleOutcome {
        expect_ok(self.store.settle(run, from_ref(&settlement)).await, "settling")[0]
    }

    pub(super) async fn settle(&self, run: &str, job: &NewJob, outcome: JobOutcome) -> SettleOutcome {
        self.settle_with(run, Settlement::new(job.key.clone(), outcome)).await
    }

    pub(super) async fn check(&self, run: &str, job: &NewJob) -> JobCheck {
        let check = expect_ok(self.store.check(run, &job.key).await, "checking");
        check.unwrap_or_else(|| panic!("run {run} must be there"))
    }

    pub(super) async fn store_version(
        &self,
        run: &str,
        job: &NewJob,
        expected: Option<i64>,
        new: i64,
    ) -> StoreVersionOutcome {
        expect_ok(self.store.store_version(run, &job.key, expected, &version(new)).await, "storing")
    }

    pub(super) async fn finalise(&self, run: &str) -> FinaliseOutcome {
        expect_ok(self.store.finalise(run).await, "finalising")
    }

    pub(super) async fn run(&self, id: &str) -> Run {
        expect_ok(self.store.run(id).await, "reading").unwrap_or_else(|| panic!("run {id} must be there"))
    }

    pub(super) async fn job(&self, job: &NewJob) -> Job {
        expect_ok(self.store.job(&job.key).await, "reading")
            .unwrap_or_else(|| panic!("{} must be there", job.key))
    }

    /// External ids of the jobs of a run, in pages of 2.
    pub(super) async fn ids(&self, run: &str, filter: JobFilter) -> Vec<String> {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let query = RunJobQuery { filter, after, limit: 2 };
            let page = expect_ok(self.store.jobs(run, &query).await, "listing");
            ids.extend(page.jobs.iter().map(|job| job.key.external_id().to_owned()));
            after = page.next;
            if after.is_none() {
                return ids;
            }
        }
    }
}

/// Outcomes of a run that are not zero, and the number of open jobs.
pub(super) fn counts(run: &Run) -> (Vec<(JobOutcome, u64)>, u64) {
    (run.counts.iter().filter(|(_, count)| *count > 0).collect(), run.counts.open)
}
