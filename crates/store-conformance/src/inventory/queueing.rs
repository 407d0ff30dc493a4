//! Cases: records of accepted messages, however late these are written.

use super::fixture::*;

impl Fixture<'_> {
    async fn mark_queued(&self, requests: &[RecordRequest], second: u64) {
        expect_ok(self.store.mark_queued(requests, at(second)).await, "queueing");
    }

    /// Notes a message, and expects that nothing changes.
    async fn leaves_alone(&self, request: &RecordRequest, second: u64, when: &str) {
        let before = self.record().await;
        self.mark_queued(from_ref(request), second).await;
        assert_eq!(self.record().await, before, "{when}, queueing changes nothing");
    }

    /// A record that this message has failed for good.
    async fn failed(&self, request: &RecordRequest, second: u64) -> InventoryRecord {
        for _ in 0..3 {
            let attempt = self.attempt(request, second).await;
            self.fail(&attempt, "timed out", second).await;
        }
        self.record_of(&request.url).await
    }
}

pub(super) async fn an_accepted_message_makes_a_queued_record(t: Fixture<'_>) {
    let other = "https://b.example/";
    t.mark_queued(&[], 1).await;
    t.mark_queued(&[message("m-1", 3), about(other, "m-2", 4)], 5).await;
    let expected = InventoryRecord {
        id: RecordId::of_url(URL),
        url: URL.to_owned(),
        status: RecordStatus::Queued,
        metadata: Metadata::default(),
        processing: Processing::default(),
        additional_details: None,
        latest_attempt: Some(LatestAttempt { message_id: "m-1".to_owned(), requested_at: at(3), attempt: 0 }),
        created_at: at(3),
        updated_at: at(5),
    };
    assert_eq!(t.record().await, expected, "the record of an accepted message");
    assert_eq!(t.record_of(other).await.status, RecordStatus::Queued, "and so is the other of the batch");
    let queued = RecordQuery { status: Some(RecordStatus::Queued), limit: 10, ..RecordQuery::default() };
    let urls: Vec<String> = t.list(queued).await.records.into_iter().map(|record| record.url).collect();
    assert_eq!(urls, [other, URL], "both are listed");
    let (attempt, retries) = yours(t.begin(&message("m-1", 3), 6).await);
    assert_eq!((attempt.number, retries), (1, 0), "its first attempt");
    let record = t.record().await;
    assert_eq!(
        (record.status, record.created_at),
        (RecordStatus::InProgress, at(3)),
        "the same record, begun"
    );
    assert_eq!(
        t.complete(&attempt, &page("hello"), 7).await,
        ended(RecordStatus::Completed, 0),
        "and it ends"
    );
}

pub(super) async fn a_finished_record_is_queued_by_a_newer_message_and_keeps_its_page(t: Fixture<'_>) {
    let before = t.completed(&message("m-1", 0), &page("hello"), 1).await;
    t.mark_queued(&[message("m-2", 2)], 3).await;
    let mut expected = before.clone();
    expected.queue_again(&message("m-2", 2), at(3));
    assert_eq!(t.record().await, expected, "only whose it is, its status and when it changed");
    assert_eq!(
        t.begin(&message("m-1", 0), 4).await,
        BeginOutcome::Superseded { by: "m-2".to_owned() },
        "the finished message comes once more and is not fetched again"
    );
    let attempt = t.attempt(&message("m-2", 2), 5).await;
    assert_eq!(Some(attempt.number), before.latest_attempt.map(|work| work.attempt + 1), "the next attempt");
    assert_eq!(t.record().await.metadata, before.metadata, "the page stays until it is replaced");
}

pub(super) async fn the_tries_of_a_queued_message_are_counted_anew(t: Fixture<'_>) {
    let before = t.failed(&message("m-1", 0), 1).await;
    assert_eq!(before.status, RecordStatus::FailedPermanent, "it failed for good");
    t.mark_queued(&[message("m-2", 2)], 3).await;
    let record = t.record().await;
    let processing =
        Processing { last_attempt_at: before.processing.last_attempt_at, ..Processing::default() };
    assert_eq!(
        (record.status, record.processing),
        (RecordStatus::Queued, processing),
        "nothing has failed yet"
    );
    let (attempt, retries) = yours(t.begin(&message("m-2", 2), 4).await);
    assert_eq!(retries, 0, "no try of this message has failed");
    assert_eq!(
        t.fail(&attempt, "refused", 5).await,
        ended(RecordStatus::FailedRetryable, 1),
        "its first failure"
    );
}

pub(super) async fn queueing_changes_nothing_but_what_is_finished_and_older(t: Fixture<'_>) {
    t.mark_queued(&[message("m-1", 1)], 2).await;
    t.leaves_alone(&message("m-1", 1), 3, "when it is queued").await;
    t.leaves_alone(&message("m-2", 3), 4, "when an earlier message is queued").await;
    let attempt = t.attempt(&message("m-1", 1), 5).await;
    for id in ["m-1", "m-2"] {
        t.leaves_alone(&message(id, 5), 6, "while it is in progress").await;
    }
    t.fail(&attempt, "timed out", 7).await;
    for id in ["m-1", "m-2"] {
        t.leaves_alone(&message(id, 8), 9, "while it waits to be tried again").await;
    }
    t.completed(&message("m-1", 1), &page("hello"), 10).await;
    t.leaves_alone(&message("m-1", 1), 11, "after it was completed").await;
    t.leaves_alone(&message("m-9", 0), 11, "by a message requested before").await;
    t.leaves_alone(&message("m-0", 1), 11, "by a smaller id of the same time").await;
    t.mark_queued(&[message("m-6", 1)], 12).await;
    assert_eq!(t.record().await.status, RecordStatus::Queued, "of one time the greater id is newer");
    // The clock of the worker is behind that of the gateway: it notes an earlier time.
    t.failed(&message("m-7", 20), 13).await;
    t.leaves_alone(&message("m-7", 20), 21, "after it failed for good").await;
}

pub(super) async fn a_queued_message_is_refused_as_one_that_begins(t: Fixture<'_>) {
    refused(t.store.mark_queued(&[message("", 0)], at(1)).await, "a message without an id");
    t.mark_queued(&[message("m-1", 1_000_000)], 2).await;
    let record = t.record().await;
    assert_eq!(
        record.latest_attempt.map(|work| work.requested_at),
        Some(at(2)),
        "no message is of the future"
    );
    assert_eq!(record.created_at, at(2), "nor is its record");
}
