//! Cases: outcomes of jobs.

use super::fixture::*;

pub(super) async fn each_outcome_is_counted(t: Fixture<'_>) {
    let jobs = jobs_of("a", JobOutcome::ALL.len() as u64 + 1);
    t.running("r", &jobs).await;
    let settlements: Vec<Settlement> = jobs
        .iter()
        .zip(JobOutcome::ALL)
        .map(|(job, outcome)| Settlement::new(job.key.clone(), *outcome))
        .collect();
    let answers = expect_ok(t.store.settle("r", &settlements).await, "settling");
    assert_eq!(answers, vec![SETTLED; settlements.len()]);
    let run = t.run("r").await;
    assert_eq!(counts(&run), (JobOutcome::ALL.iter().map(|outcome| (*outcome, 1)).collect(), 1));
    for (job, outcome) in jobs.iter().zip(JobOutcome::ALL) {
        assert_eq!(t.job(job).await.status, JobStatus::Settled(*outcome));
        assert_eq!(t.check("r", job).await.job, Some((JobStage::Crawl, Some(*outcome))));
    }
    assert_eq!(expect_ok(t.store.settle("r", &[]).await, "settling"), []);
}

pub(super) async fn a_job_is_settled_once(t: Fixture<'_>) {
    let jobs = jobs_of("a", 1);
    t.running("r", &jobs).await;
    assert_eq!(t.settle("r", &jobs[0], JobOutcome::Unchanged).await, SETTLED);
    for outcome in JobOutcome::ALL {
        let again = t.settle("r", &jobs[0], *outcome).await;
        assert_eq!(again, SettleOutcome::AlreadySettled(JobOutcome::Unchanged), "{outcome}");
    }
    assert_eq!(counts(&t.run("r").await), (vec![(JobOutcome::Unchanged, 1)], 0));
    assert_eq!(t.check("r", &jobs[0]).await.next_step(), NextStep::Nothing(JobOutcome::Unchanged));
}

pub(super) async fn a_lost_message_can_come_back(t: Fixture<'_>) {
    let jobs = jobs_of("a", 3);
    t.running("r", &jobs).await;
    let lost = [JobOutcome::Dead, JobOutcome::Dropped, JobOutcome::Expired];
    for (job, from) in jobs.iter().zip(lost) {
        t.settle_with("r", Settlement::because(job.key.clone(), from, "gone")).await;
        assert_eq!(t.settle("r", job, JobOutcome::Dead).await, SettleOutcome::AlreadySettled(from));
        assert_eq!(t.check("r", job).await.next_step(), NextStep::Crawl, "it can be replayed");
        let amended = t.settle("r", job, JobOutcome::Closed).await;
        assert_eq!(amended, SettleOutcome::Amended { from, opened_breaker: false });
        assert_eq!(
            t.settle("r", job, JobOutcome::Closed).await,
            SettleOutcome::AlreadySettled(JobOutcome::Closed)
        );
        let record = t.job(job).await;
        assert_eq!((record.status, record.error_message), (JobStatus::Settled(JobOutcome::Closed), None));
    }
    assert_eq!(counts(&t.run("r").await), (vec![(JobOutcome::Closed, 3)], 0));
}

pub(super) async fn an_extraction_is_stored_and_replayed(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    t.running("r", &jobs).await;
    t.store_version("r", &jobs[0], None, 7).await;
    let text = |text: &str| Some(text.to_owned());
    let extraction = Extraction {
        title: text("Baker"),
        description: text("Bakes."),
        requirements: text("Flour."),
        language: text("en"),
        location: text("Graz"),
        employment_type: text("FULL_TIME"),
        salary: text("2000 EUR"),
    };
    let job = || jobs[0].key.clone();
    assert_eq!(t.settle_with("r", Settlement::extracted(job(), extraction.clone())).await, SETTLED);
    let first = t.job(&jobs[0]).await;
    assert_eq!((first.status, &first.extraction), (JobStatus::Settled(JobOutcome::Stored), &extraction));
    t.pass(Duration::from_secs(1)).await;
    let again = Extraction { title: None, salary: None, ..extraction.clone() };
    let replayed = t.settle_with("r", Settlement::extracted(job(), again.clone())).await;
    assert_eq!(replayed, SettleOutcome::AlreadySettled(JobOutcome::Stored));
    let second = t.job(&jobs[0]).await;
    assert_eq!(
        second.extraction,
        Extraction { title: text("Baker"), ..again },
        "replaced, but for the title"
    );
    assert!(second.extracted_at > first.extracted_at && second.version == first.version);
    assert_eq!(t.job(&jobs[1]).await.extraction.description, None, "no other job has it");
    assert_eq!(counts(&t.run("r").await), (vec![(JobOutcome::Stored, 1)], 1), "counted once");
}

pub(super) async fn a_later_run_has_the_record(t: Fixture<'_>) {
    let jobs = jobs_of("a", 1);
    t.running("r-1", &jobs).await;
    t.running("r-2", &jobs).await;
    t.settle_with("r-1", Settlement::because(jobs[0].key.clone(), JobOutcome::Failed, "503")).await;
    let job = t.job(&jobs[0]).await;
    assert_eq!(
        (job.status, job.error_message),
        (JobStatus::Queued, None),
        "the record is that of the later run"
    );
    assert_eq!((t.run("r-1").await.counts.open, t.run("r-2").await.counts.open), (0, 1));
    t.settle("r-2", &jobs[0], JobOutcome::Closed).await;
    assert_eq!(t.job(&jobs[0]).await.status, JobStatus::Settled(JobOutcome::Closed));
}

pub(super) async fn unknown_runs_and_jobs_are_told(t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    t.running("r", &jobs[..1]).await;
    t.running("other", &jobs[1..]).await;
    for run in ["r", "unknown"] {
        assert_eq!(t.settle(run, &jobs[1], JobOutcome::Failed).await, SettleOutcome::Unknown);
        assert_eq!(t.store_version(run, &jobs[1], None, 7).await, StoreVersionOutcome::Unknown);
    }
    assert_eq!(expect_ok(t.store.check("unknown", &jobs[0].key).await, "checking"), None);
    assert_eq!(t.check("r", &jobs[1]).await.next_step(), NextStep::Unknown);
    let settlements = [
        Settlement::new(jobs[1].key.clone(), JobOutcome::Closed),
        Settlement::new(jobs[0].key.clone(), JobOutcome::Closed),
    ];
    let answers = expect_ok(t.store.settle("r", &settlements).await, "settling");
    assert_eq!(answers, [SettleOutcome::Unknown, SETTLED], "the others are settled");
    assert_eq!(t.run("r").await.metadata.failures, BTreeMap::new());
}

pub(super) async fn racing_settlements_of_a_job_have_one_winner(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 20);
    t.running("r", &jobs).await;
    let answers = t
        .race(6, |number, store| {
            let outcome = [JobOutcome::Unchanged, JobOutcome::Closed, JobOutcome::Failed][number % 3];
            let mut settlements: Vec<Settlement> =
                jobs.iter().map(|job| Settlement::new(job.key.clone(), outcome)).collect();
            settlements.rotate_left(number * 3);
            async move {
                let mut won = 0;
                for batch in settlements.chunks(4) {
                    let answers = expect_ok(store.settle("r", batch).await, "settling");
                    won += answers
                        .iter()
                        .filter(|answer| matches!(answer, SettleOutcome::Settled { .. }))
                        .count();
                }
                (outcome, won as u64)
            }
        })
        .await;
    let run = t.run("r").await;
    for outcome in [JobOutcome::Unchanged, JobOutcome::Closed, JobOutcome::Failed] {
        let won: u64 = answers.iter().filter(|answer| answer.0 == outcome).map(|answer| answer.1).sum();
        assert_eq!(run.counts.of(outcome), won, "{outcome}");
    }
    assert_eq!((run.counts.settled(), run.counts.open), (20, 0));
    let failures = run.metadata.failures.get("a").copied().unwrap_or_default();
    assert_eq!(u64::from(failures), run.counts.of(JobOutcome::Failed), "each failure is counted once");
}
