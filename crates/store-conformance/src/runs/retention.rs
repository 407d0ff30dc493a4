//! Cases: retention of the jobs of finished runs.

use super::fixture::*;

/// Retention of the cases.
const MIN_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Fixture<'_> {
    async fn purge(&self, max: usize) -> usize {
        expect_ok(self.store.purge(MIN_AGE, max).await, "purging")
    }

    /// A finished run with this many jobs.
    async fn finished(&self, run: &str, count: u64) -> Vec<NewJob> {
        let jobs = jobs_of("a", count);
        self.sealed(run, &jobs).await;
        for job in &jobs {
            self.settle(run, job, JobOutcome::Dead).await;
        }
        self.finalise(run).await;
        jobs
    }
}

pub(super) async fn a_finished_run_expires_and_keeps_its_counts(mut t: Fixture<'_>) {
    let jobs = t.finished("r", 3).await;
    t.running("open", &jobs).await;
    let before = t.run("r").await;
    let slack = t.slack();
    t.pass(MIN_AGE - slack - Duration::from_secs(1)).await;
    assert_eq!((t.purge(10).await, t.ids("r", JobFilter::All).await.len()), (0, 3), "not yet");
    t.pass_all_of(slack + Duration::from_secs(1)).await;
    assert_eq!((t.purge(10).await, t.purge(10).await), (3, 0), "once");
    let run = t.run("r").await;
    t.about(run.expired_at.unwrap_or_else(|| panic!("it is expired")), t.now(), "the expiry");
    assert_eq!(run, Run { expired_at: run.expired_at, ..before }, "the rest stays");
    assert_eq!(t.ids("r", JobFilter::All).await, [""; 0]);
    assert_eq!(t.settle("r", &jobs[0], JobOutcome::Stored).await, SettleOutcome::Unknown, "a late replay");
    assert_eq!(t.ids("open", JobFilter::All).await.len(), 3, "another run has its jobs");
    assert_eq!(t.job(&jobs[0]).await.last_run, "open", "records stay");
}

pub(super) async fn no_more_are_purged_than_asked(mut t: Fixture<'_>) {
    t.finished("r-1", 3).await;
    t.finished("r-2", 2).await;
    t.pass_all_of(MIN_AGE).await;
    assert_eq!(t.purge(2).await, 2);
    let left = t.ids("r-1", JobFilter::All).await.len() + t.ids("r-2", JobFilter::All).await.len();
    assert_eq!(left, 3);
    assert_eq!((t.purge(2).await, t.purge(2).await, t.purge(2).await), (2, 1, 0));
    for run in ["r-1", "r-2"] {
        assert!(t.run(run).await.expired_at.is_some(), "{run}");
    }
}
