//! Cases: failures of a company, and its circuit breaker.

use super::fixture::*;

pub(super) async fn the_last_failure_opens_the_breaker(t: Fixture<'_>) {
    let jobs = jobs_of("a", 8);
    t.running("r", &jobs).await;
    for (number, job) in (1..).zip(&jobs[..6]) {
        assert_eq!(t.check("r", &jobs[7]).await.breaker_open, number > MAX_FAILURES);
        let settled = t.settle("r", job, JobOutcome::Failed).await;
        assert_eq!(
            settled,
            SettleOutcome::Settled { opened_breaker: number == MAX_FAILURES },
            "failure {number}"
        );
    }
    assert_eq!(t.check("r", &jobs[7]).await.next_step(), NextStep::Settle(JobOutcome::Skipped));
    let metadata = t.run("r").await.metadata;
    assert_eq!(
        metadata.failures,
        BTreeMap::from([("a".to_owned(), 6)]),
        "one that was in flight counts, too"
    );
    let opened = metadata.breakers.get("a").and_then(|at| Timestamp::from_iso(at));
    t.about(opened.unwrap_or_else(|| panic!("the time of opening: {metadata:?}")), t.now(), "the opening");
    t.store_version("r", &jobs[6], None, 7).await;
    assert_eq!(t.check("r", &jobs[6]).await.next_step(), NextStep::Extract, "a stored page is extracted");
}

pub(super) async fn breakers_are_per_company_and_run(t: Fixture<'_>) {
    let odd = ["a", "A", "a\"b", "$.a", "\u{1f577}\u{fe0f}/.."];
    let jobs: Vec<NewJob> = odd.iter().flat_map(|company| jobs_of(company, 6)).collect();
    let jobs: Vec<NewJob> = (1..).zip(jobs).map(|(position, job)| NewJob { position, ..job }).collect();
    t.running("r-1", &jobs).await;
    t.running("r-2", &jobs).await;
    for (number, company) in jobs.chunks(6).enumerate() {
        for job in &company[..5] {
            t.settle("r-1", job, JobOutcome::Failed).await;
        }
        for (other, jobs) in jobs.chunks(6).enumerate() {
            assert_eq!(t.check("r-1", &jobs[5]).await.breaker_open, other <= number, "{}", jobs[5].key);
            assert!(!t.check("r-2", &jobs[5]).await.breaker_open, "{} in the other run", jobs[5].key);
        }
    }
    assert_eq!(t.run("r-1").await.metadata.breakers.len(), odd.len());
}

pub(super) async fn without_a_limit_no_breaker_opens(t: Fixture<'_>) {
    let jobs = jobs_of("a", 10);
    expect_ok(t.store.start(&NewRun { max_failures: 0, ..new_run("r") }).await, "starting");
    t.add("r", &jobs).await;
    for job in &jobs[..9] {
        assert_eq!(t.settle("r", job, JobOutcome::Failed).await, SETTLED);
    }
    assert!(!t.check("r", &jobs[9]).await.breaker_open);
    assert_eq!(t.run("r").await.metadata.failures["a"], 9, "they are counted");
}

pub(super) async fn racing_failures_are_all_counted(mut t: Fixture<'_>) {
    let jobs: Vec<NewJob> = (0..48).map(|n| new_job(["a", "b"][n % 2], &n.to_string(), n as u64)).collect();
    t.running("r", &jobs).await;
    let opened = t
        .race(8, |number, store| {
            let mine: Vec<JobKey> = jobs.iter().skip(number).step_by(8).map(|job| job.key.clone()).collect();
            async move {
                let mut opened = 0;
                for key in mine {
                    let failed = Settlement::new(key, JobOutcome::Failed);
                    let answer = expect_ok(store.settle("r", &[failed]).await, "settling")[0];
                    opened += usize::from(answer == SettleOutcome::Settled { opened_breaker: true });
                }
                opened
            }
        })
        .await;
    assert_eq!(opened.iter().sum::<usize>(), 2, "each breaker is opened by one");
    let metadata = t.run("r").await.metadata;
    assert_eq!(metadata.failures, BTreeMap::from([("a".to_owned(), 24), ("b".to_owned(), 24)]));
}

pub(super) async fn a_redelivered_failure_counts_once(t: Fixture<'_>) {
    let jobs = jobs_of("a", 2);
    t.running("r", &jobs).await;
    for _ in 0..3 {
        t.settle("r", &jobs[0], JobOutcome::Failed).await;
    }
    t.settle("r", &jobs[1], JobOutcome::Dead).await;
    for _ in 0..3 {
        t.settle("r", &jobs[1], JobOutcome::Failed).await;
    }
    assert_eq!(t.run("r").await.metadata.failures["a"], 2, "a failed replay counts, too");
}
