//! Cases: stored versions of a job.

use super::fixture::*;

pub(super) async fn a_stored_version_is_handed_to_the_extractor(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    t.running("r", &jobs).await;
    assert_eq!(t.check("r", &jobs[0]).await.version, None);
    // Negative: the highest bit of the SimHash is set.
    for _ in 0..2 {
        assert_eq!(
            t.store_version("r", &jobs[0], None, i64::MIN + 1).await,
            StoreVersionOutcome::Stored,
            "also repeated"
        );
    }
    let check = t.check("r", &jobs[0]).await;
    assert_eq!(
        (check.job, check.version.clone()),
        (Some((JobStage::Extract, None)), Some(version(i64::MIN + 1)))
    );
    assert_eq!(check.next_step(), NextStep::Extract, "it is not fetched again");
    let job = t.job(&jobs[0]).await;
    assert_eq!((job.status, job.version), (JobStatus::Crawled, Some(version(i64::MIN + 1))));
    t.about(job.stored_at.unwrap_or_else(|| panic!("a time")), t.now(), "stored");
    assert_eq!(t.check("r", &jobs[1]).await.version, None, "no other job has it");
    assert_eq!(counts(&t.run("r").await), (vec![], 2), "it is open");
    t.settle("r", &jobs[0], JobOutcome::Stored).await;
    t.pass(Duration::from_secs(1)).await;
    t.running("r-2", &jobs).await;
    let check = t.check("r-2", &jobs[0]).await;
    assert_eq!(
        (check.next_step(), check.version),
        (NextStep::Crawl, Some(version(i64::MIN + 1))),
        "for the next run"
    );
}

pub(super) async fn only_the_compared_version_is_replaced(t: Fixture<'_>) {
    let jobs = jobs_of("a", 1);
    t.running("r-1", &jobs).await;
    t.running("r-2", &jobs).await;
    t.store_version("r-1", &jobs[0], None, 7).await;
    for expected in [None, Some(8)] {
        let answer = t.store_version("r-2", &jobs[0], expected, 9).await;
        assert_eq!(answer, StoreVersionOutcome::Changed { present: Some(7) }, "compared with {expected:?}");
    }
    assert_eq!(t.job(&jobs[0]).await.version, Some(version(7)));
    assert_eq!(t.check("r-2", &jobs[0]).await.next_step(), NextStep::Crawl, "unchanged");
    assert_eq!(t.store_version("r-2", &jobs[0], Some(7), 9).await, StoreVersionOutcome::Stored);
    assert_eq!(t.job(&jobs[0]).await.version, Some(version(9)));
}

pub(super) async fn a_settled_job_takes_no_version(t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    t.running("r", &jobs).await;
    t.settle("r", &jobs[0], JobOutcome::Aborted).await;
    let answer = t.store_version("r", &jobs[0], None, 7).await;
    assert_eq!(answer, StoreVersionOutcome::Settled(JobOutcome::Aborted));
    assert_eq!(t.job(&jobs[0]).await.version, None);
    t.settle("r", &jobs[1], JobOutcome::Dead).await;
    assert_eq!(t.store_version("r", &jobs[1], None, 7).await, StoreVersionOutcome::Stored, "a replay");
    assert_eq!(t.check("r", &jobs[1]).await.next_step(), NextStep::Extract);
}

pub(super) async fn racing_versions_have_one_winner(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 10);
    t.running("r", &jobs).await;
    let stored = t
        .race(6, |number, store| {
            let keys: Vec<JobKey> = jobs.iter().map(|job| job.key.clone()).collect();
            async move {
                let mut stored = Vec::new();
                for key in keys {
                    let new = version(number as i64);
                    let answer = expect_ok(store.store_version("r", &key, None, &new).await, "storing");
                    stored.push(answer == StoreVersionOutcome::Stored);
                }
                stored
            }
        })
        .await;
    for (place, job) in jobs.iter().enumerate() {
        let winners: Vec<usize> = (0..6).filter(|worker| stored[*worker][place]).collect();
        assert_eq!(winners.len(), 1, "{}", job.key);
        assert_eq!(t.job(job).await.version, Some(version(winners[0] as i64)));
    }
}
