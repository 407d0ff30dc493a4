//! URLs that the broker has and no worker has begun, as far as this gateway knows: they are shown as queued.

use crawlway_clock::Timestamp;
use crawlway_flows::inventory::Accepted;
use crawlway_store::inventory::{Record, RecordId, Request, Status};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

/// After this long a URL that no record tells of is not spoken of any more: its message was purged, or is dead.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The URLs accepted lately, the oldest forgotten first when there are too many.
#[derive(Debug)]
pub(super) struct AcceptedUrls {
    most: usize,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    waiting: HashMap<RecordId, Accepted>,
    /// In the order they came in, with those among them that are gone.
    order: VecDeque<(RecordId, String)>,
}

impl AcceptedUrls {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), books: Mutex::default() }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    /// Remembers a URL that the broker has.
    pub(super) fn remember(&self, accepted: Accepted) {
        let mut books = self.books();
        books.order.push_back((accepted.id, accepted.message_id.clone()));
        books.waiting.insert(accepted.id, accepted);
        // What is gone takes a place in the order until it comes to the front, so that both are bounded.
        while books.order.len() > self.most {
            let Some((id, message)) = books.order.pop_front() else { break };
            if books.waiting.get(&id).is_some_and(|waiting| waiting.message_id == message) {
                books.waiting.remove(&id);
            }
        }
    }

    /// Notes what the store has of a URL, and returns the later message that still waits, if there is one. A message whose
    /// record is stored as queued is remembered until it is begun, for the time when the store is down.
    pub(super) fn ahead_of(&self, record: &Record) -> Option<Request> {
        let mut books = self.books();
        let waiting = books.waiting.get(&record.id)?;
        let work = record.work.as_ref()?;
        let known = work.message_id == waiting.message_id || work.requested_at >= waiting.requested_at;
        if !known {
            return Some(waiting.request());
        }
        if record.status != Status::Queued {
            books.waiting.remove(&record.id);
        }
        None
    }

    /// Whether a message about this URL waits, as far as is known.
    pub(super) fn is_waiting(&self, id: RecordId) -> bool {
        self.books().waiting.contains_key(&id)
    }

    /// A URL that waits, as the record that it will have.
    pub(super) fn queued(&self, id: RecordId, now: Timestamp) -> Option<Record> {
        let mut books = self.books();
        let waiting = books.waiting.get(&id)?;
        if now.since(waiting.requested_at) > LONGEST {
            books.waiting.remove(&id);
            return None;
        }
        Some(Record::queued(&waiting.request(), waiting.requested_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_store::inventory::Work;

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
    fn a_url_is_queued_until_its_record_is_begun() {
        let urls = AcceptedUrls::new(10);
        let first = accepted("http://a.example/", "m-1", 1000);
        let id = first.id;
        urls.remember(first);
        let now = Timestamp::from_millis(2000);
        let mut record = urls.queued(id, now).unwrap();
        assert_eq!((record.status, record.url.as_str()), (Status::Queued, "http://a.example/"));
        record.work = Some(Work {
            message_id: "m-0".to_owned(),
            requested_at: Timestamp::from_millis(500),
            attempt: 1,
        });
        let ahead = urls.ahead_of(&record).map(|request| request.message_id);
        assert_eq!(ahead.as_deref(), Some("m-1"), "an older message's record");
        record.work.as_mut().unwrap().message_id = "m-1".to_owned();
        assert_eq!(urls.ahead_of(&record), None, "its own, whatever the worker's clock says");
        assert!(urls.is_waiting(id), "stored, and not begun");
        record.status = Status::InProgress;
        assert_eq!(urls.ahead_of(&record), None);
        assert!(!urls.is_waiting(id) && urls.queued(id, now).is_none());
    }

    #[test]
    fn only_so_many_are_remembered_and_none_for_ever() {
        let urls = AcceptedUrls::new(2);
        let all: Vec<Accepted> =
            (0..3).map(|n| accepted(&format!("http://a.example/{n}"), &format!("m-{n}"), 1000)).collect();
        all.iter().cloned().for_each(|one| urls.remember(one));
        let now = Timestamp::from_millis(2000);
        let known: Vec<bool> = all.iter().map(|one| urls.queued(one.id, now).is_some()).collect();
        assert_eq!(known, [false, true, true]);
        // Asked for again, it is the later message that counts.
        urls.remember(Accepted { message_id: "m-9".to_owned(), ..all[2].clone() });
        assert!(urls.queued(all[2].id, now).is_some() && urls.queued(all[1].id, now).is_none());
        assert!(urls.queued(all[2].id, now + LONGEST).is_none());
    }
}
