//! Faults of the trails.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{Timestamp, Trails, trails::*};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    LatestFirst,
    TerminalFirst,
    DropsErrors,
    ExpiresOneMore,
    OpenInReverse,
    OneTrailPerSubject,
    DeadIsOpen,
}
use Fault::*;

faulty! { Trails {}

    async fn append(&self, entries: &[TrailEntry]) -> Answer<()> {
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            match (self.fault, entry.end) {
                (DropsErrors, _) => entry.error = None,
                (DeadIsOpen, AttemptEnd::Dead) => entry.end = AttemptEnd::Retried,
                _ => {}
            }
        }
        self.store.append(&entries).await
    }

    async fn of_item(&self, item: &str) -> Answer<Vec<TrailEntry>> {
        let mut trail = self.store.of_item(item).await?;
        if self.fault == LatestFirst {
            trail.reverse();
        }
        if self.fault == TerminalFirst {
            trail.sort_by_key(|entry| (entry.at, !entry.end.is_terminal()));
        }
        Ok(trail)
    }

    async fn of_subject(&self, subject: &str, most: usize) -> Answer<Vec<Vec<TrailEntry>>> {
        self.store.of_subject(subject, if self.fault == OneTrailPerSubject { most.min(1) } else { most }).await
    }

    async fn open_items(&self, most: usize) -> Answer<Vec<String>> {
        let mut open = self.store.open_items(most).await?;
        if self.fault == OpenInReverse {
            open.reverse();
        }
        Ok(open)
    }

    async fn expire(&self, before: Timestamp, most: usize) -> Answer<u64> {
        self.store.expire(before, most + usize::from(self.fault == ExpiresOneMore)).await
    }
}

finds! { trails on dyn Trails, Sqlite::new();
    LatestFirst: entries::a_trail_is_in_order_of_time;
    TerminalFirst: entries::terminal_entries_are_the_last_of_their_time;
    DropsErrors: entries::every_field_comes_back;
    ExpiresOneMore: expiry::retention_removes_no_more_than_asked_oldest_first;
    OpenInReverse: open::open_items_are_in_order_of_their_octets;
    OneTrailPerSubject: entries::the_item_with_the_latest_entry_comes_first;
    DeadIsOpen: open::a_trail_is_open_until_its_latest_entry_closes_it;
}
