//! Accepted URLs that no worker has started, as far as this gateway knows; their records are shown as queued.

use crawlway_clock::Timestamp;
use crawlway_flows::inventory::Accepted;
use crawlway_store::inventory::{InventoryRecord, RecordId, RecordRequest, RecordStatus};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// Age from which a URL without a record is dropped: its message was purged or is a dead letter.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Recently accepted URLs, the oldest evicted first.
#[derive(Debug)]
pub(super) struct PendingUrls {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pending: HashMap<RecordId, Accepted>,
    /// Order of arrival, including removed URLs.
    order: VecDeque<(RecordId, String)>,
}

impl PendingUrls {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Adds a URL that the broker has confirmed.
    pub(super) fn insert(&self, accepted: Accepted) {
        let mut state = self.state();
        state.order.push_back((accepted.id, accepted.message_id.clone()));
        state.pending.insert(accepted.id, accepted);
        // A removed URL counts until it is the oldest, so that both collections are bounded.
        while state.order.len() > self.capacity {
            let Some((id, message)) = state.order.pop_front() else { break };
            if state.pending.get(&id).is_some_and(|pending| pending.message_id == message) {
                state.pending.remove(&id);
            }
        }
    }

    /// Compares with the stored record, and returns the pending message if it is newer. A message stored as queued is kept until
    /// a worker starts it, for an outage of the store.
    pub(super) fn newer_than(&self, record: &InventoryRecord) -> Option<RecordRequest> {
        let mut state = self.state();
        let pending = state.pending.get(&record.id)?;
        let work = record.latest_attempt.as_ref()?;
        let is_stored = work.message_id == pending.message_id || work.requested_at >= pending.requested_at;
        if !is_stored {
            return Some(pending.request());
        }
        if record.status != RecordStatus::Queued {
            state.pending.remove(&record.id);
        }
        None
    }

    /// Whether a message for this URL is pending.
    pub(super) fn is_pending(&self, id: RecordId) -> bool {
        self.state().pending.contains_key(&id)
    }

    /// Record of a pending URL.
    pub(super) fn record(&self, id: RecordId, now: Timestamp) -> Option<InventoryRecord> {
        let mut state = self.state();
        let pending = state.pending.get(&id)?;
        if now.since(pending.requested_at) > MAX_AGE {
            state.pending.remove(&id);
            return None;
        }
        Some(InventoryRecord::queued(&pending.request(), pending.requested_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_store::inventory::LatestAttempt;

    fn accepted(url: &str, message: &str, millis: u64) -> Accepted {
        let url: crawlway_content::NormalUrl = url.parse().unwrap();
        Accepted {
            id: RecordId::of_url(url.as_str()),
            url,
            message_id: message.to_owned(),
            requested_at: Timestamp::from_millis(millis),
        }
    }

    #[test]
    fn a_url_is_pending_until_a_worker_starts_it() {
        let urls = PendingUrls::new(10);
        let first = accepted("http://a.example/", "m-1", 1000);
        let id = first.id;
        urls.insert(first);
        let now = Timestamp::from_millis(2000);
        let mut record = urls.record(id, now).unwrap();
        assert_eq!((record.status, record.url.as_str()), (RecordStatus::Queued, "http://a.example/"));
        record.latest_attempt = Some(LatestAttempt {
            message_id: "m-0".to_owned(),
            requested_at: Timestamp::from_millis(500),
            attempt: 1,
        });
        let newer = urls.newer_than(&record).map(|request| request.message_id);
        assert_eq!(newer.as_deref(), Some("m-1"), "the record is of an older message");
        record.latest_attempt.as_mut().unwrap().message_id = "m-1".to_owned();
        assert_eq!(urls.newer_than(&record), None, "the message id counts, not the clock of the worker");
        assert!(urls.is_pending(id), "stored and not started");
        record.status = RecordStatus::InProgress;
        assert_eq!(urls.newer_than(&record), None);
        assert!(!urls.is_pending(id) && urls.record(id, now).is_none());
    }

    #[test]
    fn capacity_and_age_are_bounded() {
        let urls = PendingUrls::new(2);
        let all: Vec<Accepted> =
            (0..3).map(|n| accepted(&format!("http://a.example/{n}"), &format!("m-{n}"), 1000)).collect();
        all.iter().cloned().for_each(|one| urls.insert(one));
        let now = Timestamp::from_millis(2000);
        let kept: Vec<bool> = all.iter().map(|one| urls.record(one.id, now).is_some()).collect();
        assert_eq!(kept, [false, true, true]);
        // After a second request the later message counts.
        urls.insert(Accepted { message_id: "m-9".to_owned(), ..all[2].clone() });
        assert!(urls.record(all[2].id, now).is_some() && urls.record(all[1].id, now).is_none());
        assert!(urls.record(all[2].id, now + MAX_AGE).is_none());
    }
}
