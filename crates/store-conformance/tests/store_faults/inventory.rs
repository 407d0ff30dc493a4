//! Faults of the inventory records.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{Timestamp, UrlRecords, inventory::*};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    LastDeliveredIsNewest,
    FirstFailureIsLast,
    DropsCookies,
    OvertakenIsCounted,
    ListsOneMore,
    StatusIsIgnored,
    QueueingDoesNothing,
}
use Fault::*;

faulty! { UrlRecords {
        get(id: RecordId) -> Answer<Option<InventoryRecord>>;
        counts() -> Answer<StatusCounts>;
        ready() -> Answer<()>;
    }

    async fn mark_queued(&self, requests: &[RecordRequest], now: Timestamp) -> Answer<()> {
        if self.fault == QueueingDoesNothing { Ok(()) } else { self.store.mark_queued(requests, now).await }
    }

    async fn begin(&self, request: &RecordRequest, now: Timestamp) -> Answer<BeginOutcome> {
        let mut request = request.clone();
        if self.fault == LastDeliveredIsNewest {
            request.requested_at = now;
        }
        self.store.begin(&request, now).await
    }

    async fn complete(&self, attempt: &Attempt, fetched: &FetchedContent, now: Timestamp) -> Answer<EndOutcome> {
        let mut fetched = fetched.clone();
        if self.fault == DropsCookies {
            fetched.cookies = None;
        }
        let ended = self.store.complete(attempt, &fetched, now).await?;
        let counted = EndOutcome::Recorded { status: RecordStatus::Completed, retry_count: 0 };
        Ok(if self.fault == OvertakenIsCounted && ended == EndOutcome::Fenced { counted } else { ended })
    }

    async fn fail(&self, attempt: &Attempt, error: &str, most: u32, now: Timestamp) -> Answer<EndOutcome> {
        self.store.fail(attempt, error, if self.fault == FirstFailureIsLast { 1 } else { most }, now).await
    }

    async fn list(&self, wanted: &RecordQuery) -> Answer<RecordPage> {
        let mut wanted = wanted.clone();
        match self.fault {
            ListsOneMore => wanted.limit += 1,
            StatusIsIgnored => wanted.status = None,
            _ => {}
        }
        self.store.list(&wanted).await
    }
}

finds! { inventory on dyn UrlRecords, Sqlite::new();
    LastDeliveredIsNewest: order::an_older_message_is_superseded, schedule::any_schedule_agrees_with_the_model;
    FirstFailureIsLast: ending::failures_are_counted_once_each_up_to_the_last, load::racing_failures_of_one_attempt_count_once;
    DropsCookies: ending::a_fetched_page_comes_back;
    OvertakenIsCounted: ending::an_attempt_overtaken_by_a_newer_message_changes_nothing;
    ListsOneMore: listing::pages_have_every_record_once;
    StatusIsIgnored: listing::a_status_is_picked;
    QueueingDoesNothing: queueing::an_accepted_message_makes_a_queued_record;
}
