//! Cases: handles share their state, it survives a reopening, and concurrent calls on one record agree.

use super::fixture::*;

const WORKERS: usize = 8;

pub(super) async fn handles_share_their_state(mut t: Fixture<'_>) {
    let (first, second) = (t.store.clone(), t.another_handle().await);
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    t.store = second;
    t.fail(&attempt, "timed out", 2).await;
    t.store = first;
    assert_eq!(t.record().await.status, RecordStatus::FailedRetryable, "it failed elsewhere");
    let (attempt, retries) = yours(t.begin(&message("m-1", 0), 3).await);
    assert_eq!(retries, 1, "what failed elsewhere is counted here");
    t.complete(&attempt, &page("hello"), 4).await;
    assert_eq!(
        expect_ok(t.store.counts().await, "counting").of(RecordStatus::Completed),
        1,
        "there is one record"
    );
}

pub(super) async fn records_survive_a_reopening(mut t: Fixture<'_>) {
    let [a, b] = ["https://a.example/", "https://b.example/"];
    let completed = t.completed(&about(a, "m", 0), &page("hello"), 1).await;
    let open = t.attempt(&about(b, "m", 0), 2).await;
    t = t.reopened().await;
    assert_eq!(t.record_of(a).await, completed, "what was completed");
    let again = t.attempt(&about(b, "m", 0), 3).await;
    assert!(again.number > open.number, "the numbers of attempts go on");
    assert_eq!(t.complete(&open, &page("late"), 4).await, EndOutcome::Fenced, "so the earlier one is told");
    assert_eq!(
        t.complete(&again, &page("hello"), 5).await,
        ended(RecordStatus::Completed, 0),
        "and this one counts"
    );
}

pub(super) async fn an_open_store_is_ready(t: Fixture<'_>) {
    expect_ok(t.store.ready().await, "asking whether it is ready");
}

pub(super) async fn racing_deliveries_have_attempts_of_their_own(mut t: Fixture<'_>) {
    for round in 0..5 {
        let url = format!("https://{round}.example/");
        let attempts = t
            .race(WORKERS, |_, records| {
                let request = about(&url, "m", 0);
                async move { yours(expect_ok(records.begin(&request, at(1)).await, "beginning")).0 }
            })
            .await;
        let mut numbers: Vec<u64> = attempts.iter().map(|attempt| attempt.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), WORKERS, "each has a number of its own");
        let latest = numbers[WORKERS - 1];
        for attempt in &attempts {
            let told = t.fail(attempt, "timed out", 2).await;
            let expected = if attempt.number == latest {
                ended(RecordStatus::FailedRetryable, 1)
            } else {
                EndOutcome::Fenced
            };
            assert_eq!(told, expected, "attempt {} of {latest}", attempt.number);
        }
    }
}

pub(super) async fn racing_first_messages_make_one_record(mut t: Fixture<'_>) {
    for round in 0..5 {
        let url = format!("https://{round}.example/");
        let told = t
            .race(WORKERS, |number, records| {
                // The newest first, so that a store which takes the last to come ends up with the oldest.
                let place = WORKERS - 1 - number;
                let request = about(&url, &format!("m-{place}"), place as u64);
                async move { expect_ok(records.begin(&request, at(20)).await, "beginning") }
            })
            .await;
        let newest = format!("m-{}", WORKERS - 1);
        let BeginOutcome::Started { attempt, .. } = &told[0] else {
            panic!("nothing is newer than {newest}: {:?}", told[0])
        };
        for (number, told) in told.iter().rev().enumerate() {
            // A message before a newer one has begun; one after it was superseded.
            if let BeginOutcome::Superseded { by } = told {
                assert!(*by > format!("m-{number}"), "m-{number} gave way to {by}");
            }
        }
        let work = t
            .record_of(&url)
            .await
            .latest_attempt
            .unwrap_or_else(|| panic!("an attempt at {url} is under way"));
        assert_eq!((work.message_id, work.attempt), (newest, attempt.number), "the newest has it in the end");
    }
    assert_eq!(expect_ok(t.store.counts().await, "counting").total(), 5, "one record for each URL");
}

pub(super) async fn racing_failures_of_one_attempt_count_once(mut t: Fixture<'_>) {
    for count in 1..=2 {
        let attempt = t.attempt(&message("m-1", 0), 1).await;
        let told = t
            .race(WORKERS, |_, records| {
                let attempt = attempt.clone();
                async move { expect_ok(records.fail(&attempt, "timed out", MAX_ATTEMPTS, at(2)).await, "failing") }
            })
            .await;
        for told in told {
            assert_eq!(
                told,
                ended(RecordStatus::FailedRetryable, count),
                "one failure, however often it is told"
            );
        }
    }
}

pub(super) async fn racing_ends_agree(mut t: Fixture<'_>) {
    for round in 0..6 {
        let url = format!("https://{round}.example/");
        let attempt = t.attempt(&about(&url, "m", 0), 1).await;
        let told = t
            .race(WORKERS, |number, records| {
                let attempt = attempt.clone();
                async move {
                    let ended = if number % 2 == 0 {
                        records.complete(&attempt, &page(&number.to_string()), at(2)).await
                    } else {
                        records.fail(&attempt, "timed out", MAX_ATTEMPTS, at(2)).await
                    };
                    expect_ok(ended, "ending")
                }
            })
            .await;
        assert!(told.iter().all(|one| *one == told[0]), "all are told the same end: {told:?}");
        let record = t.record_of(&url).await;
        assert_eq!(told[0], ended(record.status, record.processing.retry_count), "and it is the record's");
        if record.status == RecordStatus::Completed {
            let says = record.additional_details.unwrap_or_default()["says"].as_str().map(str::to_owned);
            let says = says.unwrap_or_default();
            let source = format!("<p>{says}</p>");
            assert_eq!(
                record.metadata.page_source.text(),
                Some(source.as_str()),
                "all of it from one caller"
            );
        }
    }
}

/// Processes the message until it is finished, like a worker whose leases are always lost.
async fn insist(number: usize, records: Arc<dyn UrlRecords>) -> (Vec<(Attempt, EndOutcome)>, RecordStatus) {
    let mut ends = Vec::new();
    loop {
        match expect_ok(records.begin(&message("m-1", 0), at(1)).await, "beginning") {
            BeginOutcome::AlreadyFinished { status, .. } => return (ends, status),
            BeginOutcome::Superseded { by } => panic!("there is no other message, and yet {by} is newer"),
            BeginOutcome::Started { attempt, .. } => {
                tokio::task::yield_now().await;
                let ended = if number == 0 {
                    records.complete(&attempt, &page("hello"), at(2)).await
                } else {
                    records.fail(&attempt, "timed out", MAX_ATTEMPTS, at(2)).await
                };
                ends.push((attempt, expect_ok(ended, "ending")));
            }
        }
    }
}

pub(super) async fn workers_on_one_record_finish_it_once(mut t: Fixture<'_>) {
    let told = t.race(WORKERS, insist).await;
    let record = t.record().await;
    let mut counted: Vec<u32> = Vec::new();
    let mut finished = 0;
    for (ends, status) in &told {
        assert_eq!(*status, record.status, "all are told the same end");
        for (_, end) in ends {
            match end {
                EndOutcome::Recorded { status: RecordStatus::FailedRetryable, retry_count } => {
                    counted.push(*retry_count);
                }
                EndOutcome::Recorded { status, .. } => {
                    assert_eq!(*status, record.status, "the only end");
                    finished += 1;
                }
                EndOutcome::Fenced => {}
                EndOutcome::NotFound => panic!("the record is lost"),
            }
        }
    }
    counted.sort_unstable();
    let expected: Vec<u32> = (1..=u32::try_from(counted.len()).unwrap_or(0)).collect();
    assert_eq!(counted, expected, "each failure is counted, and counted once");
    assert_eq!(finished, 1, "one attempt finishes it");
    assert!(counted.len() < MAX_ATTEMPTS as usize, "no more tries than allowed");
}
