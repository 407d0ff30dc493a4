//! Cases: runs that are finalised or aborted.

use super::fixture::*;

fn is_finished(outcome: &FinaliseOutcome) -> bool {
    matches!(outcome, FinaliseOutcome::Finished(_))
}

pub(super) async fn a_sealed_run_is_finalised_when_none_is_open(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    t.running("r", &jobs).await;
    let started_at = t.run("r").await.started_at;
    t.settle("r", &jobs[0], JobOutcome::Closed).await;
    assert_eq!(t.finalise("r").await, FinaliseOutcome::Open, "not sealed");
    t.store_version("r", &jobs[1], None, 7).await;
    let sealed = expect_ok(t.store.seal("r").await, "sealing").unwrap_or_else(|| panic!("the run"));
    assert_eq!((sealed.state, sealed.jobs), (RunState::Sealed, 2));
    t.pass(Duration::from_secs(90)).await;
    assert_eq!(t.finalise("r").await, FinaliseOutcome::Open, "a job waits for the extractor");
    t.settle("r", &jobs[1], JobOutcome::Stored).await;
    let FinaliseOutcome::Finished(run) = t.finalise("r").await else { panic!("none is open") };
    assert_eq!(counts(&run), (vec![(JobOutcome::Stored, 1), (JobOutcome::Closed, 1)], 0));
    assert_eq!((run.state, run.started_at), (RunState::Finalised, started_at));
    let duration = run.duration().unwrap_or_else(|| panic!("a duration"));
    assert!(duration >= Duration::from_secs(90) && duration <= Duration::from_secs(95), "{duration:?}");
    assert_eq!(
        run.metadata.counts.as_ref().map(|counts| counts["stored"]),
        Some(1),
        "other programs read it"
    );
    assert_eq!(t.finalise("r").await, FinaliseOutcome::AlreadyFinished);
    assert_eq!(t.finalise("unknown").await, FinaliseOutcome::Unknown);
    assert_eq!(t.run("r").await, *run);
}

pub(super) async fn an_empty_run_is_finalised(t: Fixture<'_>) {
    expect_ok(t.store.start(&new_run("r")).await, "starting");
    assert_eq!(t.finalise("r").await, FinaliseOutcome::Open, "its jobs may come");
    expect_ok(t.store.seal("r").await, "sealing");
    assert!(is_finished(&t.finalise("r").await));
    assert_eq!(counts(&t.run("r").await), (vec![], 0));
}

pub(super) async fn a_run_is_finalised_exactly_once(mut t: Fixture<'_>) {
    for round in 0..10 {
        let run = format!("r-{round}");
        let jobs = jobs_of("a", 8);
        t.sealed(&run, &jobs).await;
        let winners = t
            .race(8, |number, store| {
                let (run, key) = (run.clone(), jobs[number].key.clone());
                async move {
                    expect_ok(
                        store.settle(&run, &[Settlement::new(key, JobOutcome::Closed)]).await,
                        "settling",
                    );
                    is_finished(&expect_ok(store.finalise(&run).await, "finalising"))
                }
            })
            .await;
        assert_eq!(winners.iter().filter(|won| **won).count(), 1, "{run}");
        assert_eq!(t.finalise(&run).await, FinaliseOutcome::AlreadyFinished, "{run}");
        assert_eq!(counts(&t.run(&run).await), (vec![(JobOutcome::Closed, 8)], 0));
    }
}

pub(super) async fn a_replay_amends_the_counts_of_a_finalised_run(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 3);
    t.sealed("r", &jobs).await;
    for job in &jobs {
        t.settle("r", job, JobOutcome::Dead).await;
    }
    assert!(is_finished(&t.finalise("r").await));
    let before = t.run("r").await;
    t.pass(Duration::from_secs(60)).await;
    t.settle("r", &jobs[0], JobOutcome::Stored).await;
    t.settle("r", &jobs[1], JobOutcome::Failed).await;
    t.settle("r", &jobs[0], JobOutcome::Stored).await;
    let run = t.run("r").await;
    assert_eq!(
        counts(&run),
        ([JobOutcome::Stored, JobOutcome::Failed, JobOutcome::Dead].map(|outcome| (outcome, 1)).to_vec(), 0)
    );
    assert_eq!((run.state, run.finished_at), (RunState::Finalised, before.finished_at), "it stays finalised");
    assert_eq!(run.metadata.failures["a"], 1);
    assert_eq!(t.finalise("r").await, FinaliseOutcome::AlreadyFinished);
}

pub(super) async fn an_aborted_run_is_finished_with_its_counts(t: Fixture<'_>) {
    let jobs = jobs_of("a", 2500);
    t.running("r", &jobs).await;
    t.settle("r", &jobs[0], JobOutcome::Closed).await;
    assert_eq!(expect_ok(t.store.abort("r").await, "aborting"), AbortOutcome::Aborted);
    let run = t.run("r").await;
    assert_eq!(counts(&run), (vec![(JobOutcome::Closed, 1), (JobOutcome::Aborted, 2499)], 0));
    assert_eq!((run.state, run.finished_at.is_some()), (RunState::Aborted, true));
    assert_eq!(t.job(&jobs[1]).await.status, JobStatus::Settled(JobOutcome::Aborted));
    assert_eq!(t.check("r", &jobs[1]).await.next_step(), NextStep::Nothing(JobOutcome::Aborted));
    let late = t.settle("r", &jobs[1], JobOutcome::Stored).await;
    assert_eq!(late, SettleOutcome::AlreadySettled(JobOutcome::Aborted), "one that was in flight");
}

pub(super) async fn an_abort_is_repeated_or_too_late(t: Fixture<'_>) {
    t.running("r", &jobs_of("a", 2)).await;
    expect_ok(t.store.abort("r").await, "aborting");
    let before = t.run("r").await;
    assert_eq!(expect_ok(t.store.abort("r").await, "aborting"), AbortOutcome::AlreadyAborted);
    assert_eq!(t.run("r").await, before);
    t.sealed("finalised", &[]).await;
    t.finalise("finalised").await;
    let finished_at = t.run("finalised").await.finished_at.unwrap_or_else(|| panic!("an end"));
    let late = expect_ok(t.store.abort("finalised").await, "aborting");
    assert_eq!(late, AbortOutcome::Finalised(finished_at));
    assert_eq!(t.run("finalised").await.state, RunState::Finalised);
    assert_eq!(expect_ok(t.store.abort("unknown").await, "aborting"), AbortOutcome::Unknown);
}

pub(super) async fn an_abort_among_settlements_loses_no_job(mut t: Fixture<'_>) {
    let jobs = jobs_of("a", 60);
    t.sealed("r", &jobs).await;
    let answers = t
        .race(6, |number, store| {
            let mine: Vec<JobKey> = jobs.iter().skip(number).step_by(6).map(|job| job.key.clone()).collect();
            async move {
                let mut won = [0, 0];
                for (place, key) in mine.into_iter().enumerate() {
                    if number == 0 && place == 3 {
                        expect_ok(store.abort("r").await, "aborting");
                    }
                    let outcome = [JobOutcome::Closed, JobOutcome::Failed][place % 2];
                    let answer =
                        expect_ok(store.settle("r", &[Settlement::new(key, outcome)]).await, "settling");
                    won[place % 2] += u64::from(matches!(answer[0], SettleOutcome::Settled { .. }));
                    expect_ok(store.finalise("r").await, "finalising");
                }
                won
            }
        })
        .await;
    let run = t.run("r").await;
    let [closed, failed] = [0, 1].map(|kind| answers.iter().map(|won| won[kind]).sum::<u64>());
    assert_eq!((run.counts.of(JobOutcome::Closed), run.counts.of(JobOutcome::Failed)), (closed, failed));
    assert_eq!(run.counts.of(JobOutcome::Aborted), 60 - closed - failed, "the rest");
    assert_eq!((run.state, run.counts.open, run.finished_at.is_some()), (RunState::Aborted, 0, true));
}

pub(super) async fn runs_survive_a_reopening(t: Fixture<'_>) {
    let jobs = jobs_of("a", 3);
    t.sealed("r", &jobs).await;
    t.store_version("r", &jobs[0], None, 7).await;
    t.settle("r", &jobs[1], JobOutcome::Failed).await;
    let (run, job) = (t.run("r").await, t.job(&jobs[0]).await);
    let t = t.reopened().await;
    assert_eq!((t.run("r").await, t.job(&jobs[0]).await), (run, job));
    assert_eq!(t.check("r", &jobs[0]).await.next_step(), NextStep::Extract);
}
