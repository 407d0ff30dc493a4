//! Cases: ending attempts, each of them once.

use super::fixture::*;

pub(super) async fn a_fetched_page_comes_back(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    let before = t.record().await;
    let fetched = page("hello");
    assert_eq!(t.complete(&attempt, &fetched, 4).await, ended(RecordStatus::Completed, 0), "its end");
    let record = t.record().await;
    has(&record, &fetched, "what came back");
    let processing = Processing { retry_count: 0, error_message: None, last_attempt_at: Some(at(1)) };
    assert_eq!((record.status, record.processing), (RecordStatus::Completed, processing), "how it went");
    assert_eq!((record.created_at, record.updated_at), (at(1), at(4)), "its times");
    assert_eq!((record.url, record.latest_attempt), (before.url, before.latest_attempt), "what it is about");
}

pub(super) async fn nothing_fetched_is_nothing_kept(t: Fixture<'_>) {
    let record = t.completed(&message("m-1", 0), &FetchedContent::default(), 1).await;
    assert_eq!(record.metadata, Metadata::default(), "nothing came back");
    assert_eq!(record.additional_details, None, "nothing more is known");
    let empty = FetchedContent {
        headers: Some(object(json!({}))),
        cookies: Some(object(json!({}))),
        page_source: Some(String::new()),
        additional_details: object(json!({})),
    };
    let record = t.completed(&message("m-2", 2), &empty, 3).await;
    has(&record, &empty, "what is empty is not missing");
}

pub(super) async fn completing_twice_is_answered_alike(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    t.fail(&attempt, "timed out", 2).await;
    let attempt = t.attempt(&message("m-1", 0), 3).await;
    t.complete(&attempt, &page("first"), 4).await;
    let before = t.record().await;
    for second in 5..7 {
        let told = t.complete(&attempt, &page("second"), second).await;
        assert_eq!(told, ended(RecordStatus::Completed, 1), "as it was told first");
    }
    assert_eq!(t.record().await, before, "nothing has changed");
}

pub(super) async fn failures_are_counted_once_each_up_to_the_last(t: Fixture<'_>) {
    for (count, status) in [
        (1, RecordStatus::FailedRetryable),
        (2, RecordStatus::FailedRetryable),
        (3, RecordStatus::FailedPermanent),
    ] {
        let second = u64::from(count) * 10;
        let (attempt, retries) = yours(t.begin(&message("m-1", 0), second).await);
        assert_eq!(retries, count - 1, "those that have failed before");
        let error = format!("failure {count}");
        assert_eq!(
            t.fail(&attempt, &error, second + 1).await,
            ended(status, count),
            "the end of try {count}"
        );
        let record = t.record().await;
        let processing =
            Processing { retry_count: count, error_message: Some(error), last_attempt_at: Some(at(second)) };
        assert_eq!((record.status, record.processing), (status, processing), "after try {count}");
        assert_eq!(record.updated_at, at(second + 1), "when it failed");
        let before = t.record().await;
        for late in 2..5 {
            let told = t.fail(&attempt, "again", second + late).await;
            assert_eq!(told, ended(status, count), "try {count} is told again what it was told first");
        }
        assert_eq!(t.record().await, before, "failing twice counts once");
    }
}

pub(super) async fn the_first_end_counts(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    t.fail(&attempt, "timed out", 2).await;
    let before = t.record().await;
    let told = t.complete(&attempt, &page("late"), 3).await;
    assert_eq!(told, ended(RecordStatus::FailedRetryable, 1), "it has failed before");
    assert_eq!(t.record().await, before, "nothing has changed");
    let attempt = t.attempt(&message("m-1", 0), 4).await;
    t.complete(&attempt, &page("in time"), 5).await;
    let before = t.record().await;
    assert_eq!(
        t.fail(&attempt, "late", 6).await,
        ended(RecordStatus::Completed, 1),
        "it was completed before"
    );
    assert_eq!(t.record().await, before, "nothing has changed");
}

/// An attempt that is not the latest can end in no way.
async fn is_overtaken(t: &Fixture<'_>, attempt: &Attempt, second: u64) {
    let before = t.record().await;
    assert_eq!(t.complete(attempt, &page("late"), second).await, EndOutcome::Fenced, "completing too late");
    assert_eq!(t.fail(attempt, "late", second).await, EndOutcome::Fenced, "failing too late");
    assert_eq!(t.record().await, before, "nothing has changed");
}

pub(super) async fn an_attempt_overtaken_by_its_own_message_changes_nothing(t: Fixture<'_>) {
    let first = t.attempt(&message("m-1", 0), 1).await;
    let second = t.attempt(&message("m-1", 0), 2).await;
    is_overtaken(&t, &first, 3).await;
    assert_eq!(
        t.fail(&second, "timed out", 4).await,
        ended(RecordStatus::FailedRetryable, 1),
        "the latest counts"
    );
    is_overtaken(&t, &first, 5).await;
    let third = t.attempt(&message("m-1", 0), 6).await;
    is_overtaken(&t, &second, 7).await;
    assert_eq!(
        t.complete(&third, &page("hello"), 8).await,
        ended(RecordStatus::Completed, 1),
        "the latest counts"
    );
    is_overtaken(&t, &second, 9).await;
}

pub(super) async fn an_attempt_overtaken_by_a_newer_message_changes_nothing(t: Fixture<'_>) {
    let older = t.attempt(&message("m-1", 0), 1).await;
    let newer = t.attempt(&message("m-2", 2), 3).await;
    is_overtaken(&t, &older, 4).await;
    // Not even with the newer one's number.
    is_overtaken(&t, &Attempt { number: newer.number, ..older.clone() }, 5).await;
    assert_eq!(
        t.complete(&newer, &page("hello"), 6).await,
        ended(RecordStatus::Completed, 0),
        "the newer counts"
    );
    is_overtaken(&t, &older, 7).await;
}

pub(super) async fn a_record_that_is_not_there_is_lost(t: Fixture<'_>) {
    let id = RecordId::of_url(URL);
    let attempt = Attempt { id, message_id: "m-1".to_owned(), number: 1 };
    assert_eq!(
        t.complete(&attempt, &page("hello"), 1).await,
        EndOutcome::NotFound,
        "there is nothing to complete"
    );
    assert_eq!(t.fail(&attempt, "timed out", 1).await, EndOutcome::NotFound, "there is nothing that failed");
    assert_eq!(expect_ok(t.store.get(id).await, "reading"), None, "and nothing was made");
}

pub(super) async fn the_tries_allowed_are_the_callers(t: Fixture<'_>) {
    let fail = async |id: &str, second, most| {
        let attempt = t.attempt(&message(id, second), second).await;
        expect_ok(t.store.fail(&attempt, "no", most, at(second)).await, "failing")
    };
    assert_eq!(
        fail("m-1", 1, 1).await,
        ended(RecordStatus::FailedPermanent, 1),
        "of one try the first is the last"
    );
    assert_eq!(fail("m-2", 2, 0).await, ended(RecordStatus::FailedPermanent, 1), "it cannot be tried again");
    assert_eq!(fail("m-3", 3, 5).await, ended(RecordStatus::FailedRetryable, 1), "four are left");
    assert_eq!(fail("m-3", 3, 2).await, ended(RecordStatus::FailedPermanent, 2), "none is left by now");
}

pub(super) async fn a_failure_keeps_the_page_fetched_before(t: Fixture<'_>) {
    let before = t.completed(&message("m-1", 0), &page("hello"), 1).await;
    for second in 2..5 {
        let attempt = t.attempt(&message("m-2", 2), second).await;
        t.fail(&attempt, "timed out", second).await;
    }
    let record = t.record().await;
    assert_eq!(record.status, RecordStatus::FailedPermanent, "it failed for good");
    assert_eq!(record.metadata, before.metadata, "what was fetched when it went well");
    assert_eq!(record.additional_details, before.additional_details, "and its details");
    assert_eq!(
        t.begin(&message("m-1", 0), 9).await,
        BeginOutcome::Superseded { by: "m-2".to_owned() },
        "as before"
    );
}

pub(super) async fn a_completion_replaces_all_of_the_page_before(t: Fixture<'_>) {
    t.completed(&message("m-1", 0), &page("hello"), 1).await;
    let other = FetchedContent {
        headers: Some(object(json!({ "etag": "x" }))),
        additional_details: object(json!({ "status_code": 204 })),
        ..FetchedContent::default()
    };
    let record = t.completed(&message("m-2", 2), &other, 3).await;
    has(&record, &other, "nothing of the page before is left");
}
