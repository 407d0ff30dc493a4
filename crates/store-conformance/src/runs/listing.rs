//! Cases: lists of runs and of their jobs.

use super::fixture::*;

pub(super) async fn the_newest_run_comes_first(mut t: Fixture<'_>) {
    for number in 0..7 {
        t.running(&format!("r-{number}"), &jobs_of("a", number)).await;
        // Two of one time each, so that pages end among them.
        t.pass(Duration::from_secs(number % 2)).await;
    }
    t.sealed("r-0", &[]).await;
    t.finalise("r-0").await;
    let expected: Vec<String> = (0..7).rev().map(|number| format!("r-{number}")).collect();
    for limit in [1, 2, 3, 7, 8] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let query = RunQuery { after, limit, ..RunQuery::default() };
            let page = expect_ok(t.store.runs(&query).await, "listing");
            assert!(page.runs.len() <= limit, "no more than {limit}");
            found.extend(page.runs.into_iter().map(|run| (run.id, run.counts.open)));
            let Some(next) = page.next else { break };
            after = Some(next.to_string().parse::<RunCursor>().unwrap_or_else(|error| panic!("{error}")));
        }
        let (ids, open): (Vec<String>, Vec<u64>) = found.into_iter().unzip();
        assert_eq!((ids, open), (expected.clone(), vec![6, 5, 4, 3, 2, 1, 0]), "in pages of {limit}");
    }
    let query = RunQuery { state: Some(RunState::Finalised), limit: 10, ..RunQuery::default() };
    let finalised = expect_ok(t.store.runs(&query).await, "listing").runs;
    assert_eq!(finalised.iter().map(|run| &*run.id).collect::<Vec<_>>(), ["r-0"]);
}

pub(super) async fn jobs_are_listed_by_outcome(t: Fixture<'_>) {
    let jobs = jobs_of("a", 9);
    t.running("r", &jobs).await;
    t.running("other", &jobs).await;
    for (place, outcome) in [(1, JobOutcome::Failed), (4, JobOutcome::Closed), (6, JobOutcome::Failed)] {
        t.settle_with("r", Settlement::because(jobs[place].key.clone(), outcome, format!("reason {place}")))
            .await;
    }
    t.store_version("r", &jobs[8], None, 7).await;
    let open = JobFilter::Open { min_age: Duration::ZERO };
    for (filter, expected) in [
        (JobFilter::All, vec!["1", "2", "3", "4", "5", "6", "7", "8", "9"]),
        (JobFilter::Settled(JobOutcome::Failed), vec!["2", "7"]),
        (JobFilter::Settled(JobOutcome::Closed), vec!["5"]),
        (JobFilter::Settled(JobOutcome::Stored), vec![]),
        (open, vec!["1", "3", "4", "6", "8", "9"]),
    ] {
        assert_eq!(t.ids("r", filter).await, expected, "{filter:?}");
    }
    let all = RunJobQuery { limit: MAX_PAGE_SIZE, ..RunJobQuery::default() };
    let page = expect_ok(t.store.jobs("r", &all).await, "listing");
    assert_eq!(page.jobs[1].error_message.as_deref(), Some("reason 1"));
    assert_eq!((page.jobs[8].stage, page.jobs[8].outcome, page.next), (JobStage::Extract, None, None));
    assert_eq!((&page.jobs[2].url, page.jobs[2].position), (&jobs[2].url, 3));
    assert_eq!(t.ids("unknown", JobFilter::All).await, [""; 0]);
}

pub(super) async fn open_jobs_are_found_by_their_age(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 4);
    t.running("r", &jobs).await;
    let hour = Duration::from_secs(3600);
    let old = JobFilter::Open { min_age: hour };
    let slack = t.slack();
    t.pass(hour - slack - Duration::from_secs(1)).await;
    assert_eq!(t.ids("r", old).await, [""; 0], "not yet");
    t.store_version("r", &jobs[1], None, 7).await;
    t.settle("r", &jobs[2], JobOutcome::Closed).await;
    t.pass_all_of(slack + Duration::from_secs(1)).await;
    assert_eq!(t.ids("r", old).await, ["1", "4"], "neither the settled one nor the one in a new stage");
    t.pass_all_of(hour).await;
    assert_eq!(t.ids("r", old).await, ["1", "2", "4"]);
}
