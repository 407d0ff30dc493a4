//! Cases: beginning an attempt.

use super::fixture::*;

pub(super) async fn a_new_url_makes_a_record_in_progress(t: Fixture<'_>) {
    let id = RecordId::of_url(URL);
    assert_eq!(expect_ok(t.store.get(id).await, "reading"), None, "nothing is known yet");
    let (attempt, retries) = yours(t.begin(&message("m-1", 3), 5).await);
    assert_eq!((attempt.id, attempt.message_id.as_str(), retries), (id, "m-1", 0), "the first attempt");
    let expected = InventoryRecord {
        id,
        url: URL.to_owned(),
        status: RecordStatus::InProgress,
        metadata: Metadata::default(),
        processing: Processing { retry_count: 0, error_message: None, last_attempt_at: Some(at(5)) },
        additional_details: None,
        latest_attempt: Some(LatestAttempt {
            message_id: "m-1".to_owned(),
            requested_at: at(3),
            attempt: attempt.number,
        }),
        created_at: at(5),
        updated_at: at(5),
    };
    assert_eq!(t.record().await, expected, "the record after its first beginning");
}

pub(super) async fn a_redelivery_begins_a_further_attempt_and_counts_nothing(t: Fixture<'_>) {
    let mut last = t.attempt(&message("m-1", 0), 1).await.number;
    for second in 2..6 {
        let (attempt, retries) = yours(t.begin(&message("m-1", 0), second).await);
        assert!(attempt.number > last, "attempt {} comes after {last}", attempt.number);
        assert_eq!(retries, 0, "a worker that died has not failed");
        last = attempt.number;
        let record = t.record().await;
        assert_eq!(
            (record.status, record.processing.retry_count),
            (RecordStatus::InProgress, 0),
            "still at it"
        );
        assert_eq!(record.processing.last_attempt_at, Some(at(second)), "when the latest attempt began");
        assert_eq!((record.created_at, record.updated_at), (at(1), at(second)), "made once, changed now");
    }
}

pub(super) async fn a_redelivery_after_a_failure_keeps_the_count(t: Fixture<'_>) {
    let attempt = t.attempt(&message("m-1", 0), 1).await;
    t.fail(&attempt, "timed out", 2).await;
    let (again, retries) = yours(t.begin(&message("m-1", 0), 3).await);
    assert_eq!(retries, 1, "one try has failed");
    assert!(again.number > attempt.number, "a further attempt");
    let record = t.record().await;
    assert_eq!(
        (record.status, record.processing.retry_count),
        (RecordStatus::InProgress, 1),
        "the count stays"
    );
    assert_eq!(record.processing.error_message.as_deref(), Some("timed out"), "why it is tried again");
    let record = t.completed(&message("m-1", 0), &page("hello"), 4).await;
    assert_eq!(record.processing.error_message, None, "a completion clears the error");
    assert_eq!(record.processing.retry_count, 1, "but one try has failed");
}

pub(super) async fn a_message_that_has_ended_is_finished(t: Fixture<'_>) {
    for (id, failures, status) in
        [("m-1", 1, RecordStatus::Completed), ("m-2", 3, RecordStatus::FailedPermanent)]
    {
        for second in 1..=failures {
            let attempt = t.attempt(&message(id, 0), second).await;
            t.fail(&attempt, "timed out", second).await;
        }
        if status == RecordStatus::Completed {
            t.completed(&message(id, 0), &page("hello"), 5).await;
        }
        let before = t.record().await;
        for second in 6..8 {
            let told = t.begin(&message(id, 0), second).await;
            let retry_count = u32::try_from(failures).unwrap_or(0);
            assert_eq!(
                told,
                BeginOutcome::AlreadyFinished { status, retry_count },
                "{id} has ended as {status}"
            );
        }
        assert_eq!(t.record().await, before, "nothing has changed after {status}");
    }
}

pub(super) async fn a_newer_message_is_counted_anew(t: Fixture<'_>) {
    let before = t.completed(&message("m-1", 0), &page("hello"), 1).await;
    // After a completion, after a failure, and after the last failure.
    for (round, failures) in [(1, 1), (2, 3), (3, 0)] {
        let (id, second) = (format!("m-2{round}"), round * 10);
        let last = t.record().await.latest_attempt.map_or(0, |work| work.attempt);
        let (mut attempt, retries) = yours(t.begin(&message(&id, second), second).await);
        assert_eq!(retries, 0, "round {round}: the tries of a new message are counted from zero");
        assert!(attempt.number > last, "round {round}: a further attempt");
        let record = t.record().await;
        let Processing { retry_count, error_message, .. } = record.processing;
        assert_eq!(
            (record.status, retry_count, error_message),
            (RecordStatus::InProgress, 0, None),
            "round {round}"
        );
        assert_eq!((record.id, record.created_at), (before.id, before.created_at), "the same record");
        assert_eq!(record.metadata, before.metadata, "what was fetched stays until it is replaced");
        assert_eq!(record.additional_details, before.additional_details, "and so do its details");
        for failure in 0..failures {
            t.fail(&attempt, "timed out", second + failure).await;
            if failure + 1 < failures {
                attempt = t.attempt(&message(&id, second), second + failure).await;
            }
        }
    }
}

pub(super) async fn a_newer_message_takes_over_a_record_in_progress(t: Fixture<'_>) {
    t.attempt(&message("m-1", 0), 1).await;
    let attempt = t.attempt(&message("m-2", 2), 3).await;
    let work = LatestAttempt { message_id: "m-2".to_owned(), requested_at: at(2), attempt: attempt.number };
    let record = t.record().await;
    assert_eq!(record.latest_attempt, Some(work), "the record is the newer message's");
    assert_eq!((record.created_at, record.updated_at), (at(1), at(3)), "and the same one");
}

pub(super) async fn records_of_urls_are_apart(t: Fixture<'_>) {
    let [a, b] = ["https://a.example/", "https://b.example/"];
    // One message id for both: it is the record that it counts for.
    let [of_a, of_b] = [t.attempt(&about(a, "m", 0), 1).await, t.attempt(&about(b, "m", 0), 1).await];
    t.fail(&of_a, "timed out", 2).await;
    t.complete(&of_b, &page("b"), 3).await;
    assert_eq!(t.record_of(a).await.status, RecordStatus::FailedRetryable, "the one failed");
    assert_eq!(t.record_of(b).await.status, RecordStatus::Completed, "the other did not");
    assert_eq!(t.record_of(b).await.processing.retry_count, 0, "nor was it counted there");
}

pub(super) async fn odd_urls_and_messages_are_kept_apart(t: Fixture<'_>) {
    let urls = odd_urls();
    let texts: Vec<String> = odd_texts().into_iter().filter(|text| !text.is_empty()).collect();
    for (number, url) in urls.iter().enumerate() {
        let id = &texts[number % texts.len()];
        let attempt = t.attempt(&about(url, id, 0), 1).await;
        assert_eq!(attempt.message_id, *id, "the message that it is made for");
        t.complete(&attempt, &page(&number.to_string()), 2).await;
        let told = t.begin(&about(url, id, 0), 3).await;
        assert!(matches!(told, BeginOutcome::AlreadyFinished { .. }), "{id:?} is known again: {told:?}");
    }
    for (number, url) in urls.iter().enumerate() {
        let record = t.record_of(url).await;
        assert_eq!(record.url, *url, "the URL as it was");
        let source = format!("<p>{number}</p>");
        assert_eq!(record.metadata.page_source.text(), Some(source.as_str()), "the page of {url}");
    }
}

pub(super) async fn a_message_without_an_id_is_refused(t: Fixture<'_>) {
    refused(t.store.begin(&message("", 0), at(1)).await, "a message without an id");
    assert_eq!(expect_ok(t.store.get(RecordId::of_url(URL)).await, "reading"), None, "no record was made");
}

pub(super) async fn a_url_too_long_is_refused(t: Fixture<'_>) {
    let room = MAX_REQUEST_BYTES - URL.len() - 1;
    let longest = format!("{URL}{}", "x".repeat(room));
    t.attempt(&about(&longest, "m", 0), 1).await;
    assert_eq!(t.record_of(&longest).await.url, longest, "the longest is kept as it is");
    refused(t.store.begin(&about(&format!("{longest}x"), "m", 0), at(1)).await, "a longer one");
}
