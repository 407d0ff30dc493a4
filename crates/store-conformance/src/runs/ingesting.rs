//! Cases: the start of a run, its jobs, its seal.

use super::fixture::*;

pub(super) async fn a_run_is_started_once(t: Fixture<'_>) {
    assert_eq!(expect_ok(t.store.run("r").await, "reading"), None);
    let started = expect_ok(t.store.start(&NewRun { use_test_db: true, ..new_run("r") }).await, "starting");
    let StartOutcome::Started(run) = started else { panic!("it is new: {started:?}") };
    assert_eq!((run.state, run.jobs, run.use_test_db, run.finished_at), (RunState::Queued, 0, true, None));
    assert_eq!((run.metadata.source.as_deref(), run.metadata.max_failures), (Some("jobs.csv"), MAX_FAILURES));
    t.about(run.started_at, t.now(), "the start");
    let again = expect_ok(t.store.start(&new_run("r")).await, "starting");
    assert_eq!(again, StartOutcome::Exists(run.clone()), "the first one counts");
    assert_eq!(t.run("r").await, run);
}

pub(super) async fn jobs_are_upserted_and_old_errors_cleared(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    expect_ok(t.store.start(&new_run("r-1")).await, "starting");
    assert_eq!(t.add("r-1", &jobs[..1]).await, [AddOutcome::New]);
    assert_eq!(t.run("r-1").await.state, RunState::Running);
    let failed = Settlement::because(jobs[0].key.clone(), JobOutcome::Failed, "503");
    t.settle_with("r-1", failed).await;
    let first = t.job(&jobs[0]).await;
    assert_eq!(
        (first.status, first.error_message.as_deref()),
        (JobStatus::Settled(JobOutcome::Failed), Some("503"))
    );
    t.pass(Duration::from_secs(60)).await;
    expect_ok(t.store.start(&new_run("r-2")).await, "starting");
    let moved = NewJob { url: "https://a.example/moved".to_owned(), title: None, ..jobs[0].clone() };
    assert_eq!(t.add("r-2", &[moved.clone(), jobs[1].clone()]).await, [AddOutcome::Known, AddOutcome::New]);
    let job = t.job(&jobs[0]).await;
    assert_eq!((job.status, job.error_message), (JobStatus::Queued, None), "the old error is cleared");
    assert_eq!((job.url, job.extraction.title.as_deref()), (moved.url, Some("Job 1")), "the title stays");
    assert_eq!((&*job.first_run, &*job.last_run, job.created_at), ("r-1", "r-2", first.created_at));
    assert!(job.updated_at > first.updated_at, "it is changed");
}

pub(super) async fn duplicates_are_told_and_the_first_counts(t: Fixture<'_>) {
    expect_ok(t.store.start(&new_run("r")).await, "starting");
    let duplicate =
        |position| NewJob { url: "https://other.example/".to_owned(), ..new_job("a", "1", position) };
    let batch = [new_job("a", "1", 1), new_job("b", "1", 2), duplicate(3), new_job("a", "2", 4)];
    let first = AddOutcome::Duplicate { first: 1 };
    assert_eq!(t.add("r", &batch).await, [AddOutcome::New, AddOutcome::New, first, AddOutcome::New]);
    assert_eq!(
        t.add("r", &[duplicate(5), new_job("a", "3", 6)]).await,
        [first, AddOutcome::New],
        "in a later batch"
    );
    assert_eq!((t.job(&batch[0]).await.url, t.run("r").await.jobs), (batch[0].url.clone(), 4));
    assert_eq!(t.ids("r", JobFilter::All).await, ["1", "1", "2", "3"]);
}

pub(super) async fn a_repeated_batch_changes_nothing(t: Fixture<'_>) {
    let jobs = jobs_of("a", 3);
    t.running("r", &jobs[..2]).await;
    t.settle_with("r", Settlement::because(jobs[0].key.clone(), JobOutcome::Failed, "503")).await;
    let (run, job) = (t.run("r").await, t.job(&jobs[0]).await);
    assert_eq!(t.add("r", &jobs[..2]).await, [AddOutcome::Repeated; 2]);
    assert_eq!((t.run("r").await, t.job(&jobs[0]).await), (run, job), "as before");
    assert_eq!(t.add("r", &jobs).await, [AddOutcome::Repeated, AddOutcome::Repeated, AddOutcome::New]);
    assert_eq!(t.run("r").await.jobs, 3);
}

pub(super) async fn only_an_open_run_takes_jobs(t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    assert_eq!(expect_ok(t.store.add_jobs("unknown", &jobs).await, "adding"), None);
    assert_eq!(expect_ok(t.store.seal("unknown").await, "sealing"), None);
    t.sealed("sealed", &jobs[..1]).await;
    t.running("aborted", &jobs[..1]).await;
    expect_ok(t.store.abort("aborted").await, "aborting");
    t.sealed("finalised", &[]).await;
    t.finalise("finalised").await;
    for run in ["sealed", "aborted", "finalised"] {
        let before = t.run(run).await;
        assert_eq!(expect_ok(t.store.add_jobs(run, &jobs[1..]).await, "adding"), None, "{run}");
        assert_eq!(expect_ok(t.store.seal(run).await, "sealing"), Some(before.clone()), "{run} stays");
        assert_eq!(before.state.as_str(), run);
    }
    assert_eq!(expect_ok(t.store.job(&jobs[1].key).await, "reading"), None, "nothing is stored");
}

pub(super) async fn a_run_of_many_batches_is_counted(t: Fixture<'_>) {
    expect_ok(t.store.start(&new_run("r")).await, "starting");
    for batch in 0..10 {
        let jobs: Vec<NewJob> = (batch * 500..(batch + 1) * 500)
            .map(|n| new_job(&format!("c-{}", n % 7), &n.to_string(), n))
            .collect();
        assert!(t.add("r", &jobs).await.iter().all(|outcome| *outcome == AddOutcome::New));
    }
    let run = t.run("r").await;
    assert_eq!((run.jobs, run.counts.open), (5000, 5000));
    let large = jobs_of("a", MAX_BATCH as u64 + 1);
    assert!(
        matches!(t.store.add_jobs("r", &large).await, Err(StoreError::Invalid { .. })),
        "a batch has a limit"
    );
}

pub(super) async fn odd_keys_and_texts_come_back(t: Fixture<'_>) {
    let long = "\u{1f577}".repeat(MAX_KEY_BYTES / 4);
    let companies =
        ["..", "a/b", "a\"b", "a\\b", "$.x", "$", "'; --", "A", "a", "\u{e9}", "e\u{301}", "{1}", &long];
    let jobs: Vec<NewJob> = (1..).zip(companies).map(|(n, company)| new_job(company, company, n)).collect();
    t.running("r", &jobs).await;
    for (job, text) in jobs.iter().zip(odd_texts().iter().cycle()) {
        t.settle_with("r", Settlement::because(job.key.clone(), JobOutcome::Dead, text)).await;
        let stored = t.job(job).await;
        assert_eq!(stored.key, job.key);
        assert_eq!(stored.error_message.map(|error| text.starts_with(&error)), Some(true), "{text:?}");
    }
    assert_eq!(t.run("r").await.counts.of(JobOutcome::Dead), jobs.len() as u64);
    let nul = Settlement::because(jobs[0].key.clone(), JobOutcome::Failed, WITH_NUL);
    assert!(matches!(t.settle_with("r", nul).await, SettleOutcome::Amended { .. }));
    let source = NewRun { source: Some(WITH_NUL.to_owned()), ..new_run("nul") };
    expect_ok(t.store.start(&source).await, "starting");
}

pub(super) async fn a_queued_position_never_goes_back(t: Fixture<'_>) {
    t.running("r", &jobs_of("a", 3)).await;
    for (position, expected) in [(2, 2), (1, 2), (3, 3)] {
        expect_ok(t.store.set_queued_position("r", position).await, "a position");
        assert_eq!(t.run("r").await.queued_position, expected);
    }
    expect_ok(t.store.set_queued_position("unknown", 1).await, "a position");
}
