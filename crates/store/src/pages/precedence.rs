//! Which of two versions of a page counts: the one that was crawled later, in whatever order they arrive.
//!
//! Queues deliver at least once, so an older message may come after a newer one, and after the page was removed. Every
//! page index decides by the rules of this file.

use super::IndexedPage;
use crate::Timestamp;
use std::{sync::Arc, time::Duration};

/// How far ahead of the receiver's clock a page may claim to have been crawled. One that claims more was crawled at the
/// time of receipt, since it would otherwise keep out every later version until that time.
pub const MAX_AHEAD: Duration = Duration::from_secs(5 * 60);

/// How long the tombstone of a removed page is kept: longer than a message is usually redelivered or replayed.
pub const TOMBSTONE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Whether a page replaces the stored page of its URL. Of two that were crawled at the same time the later arrival counts.
pub fn replaces(crawled_at: Timestamp, stored: Timestamp) -> bool {
    crawled_at >= stored
}

/// Whether a page brings back a URL whose tombstone has this time.
pub fn revives(crawled_at: Timestamp, tombstone: Timestamp) -> bool {
    crawled_at > tombstone
}

/// The time of the tombstone of a page that is removed now. A page that was crawled in the future, by this clock, must not
/// come back by its own message either.
pub fn tombstone(now: Timestamp, removed: Option<Timestamp>) -> Timestamp {
    removed.map_or(now, |crawled_at| crawled_at.max(now))
}

/// Pages as they count when they are received now; copied only if one of them is too far ahead.
pub fn received(pages: Arc<[IndexedPage]>, now: Timestamp) -> Arc<[IndexedPage]> {
    let latest = now + MAX_AHEAD;
    if pages.iter().all(|page| page.crawled_at <= latest) {
        return pages;
    }
    let counted = |page: &IndexedPage| {
        let crawled_at = if page.crawled_at > latest { now } else { page.crawled_at };
        IndexedPage { crawled_at, ..page.clone() }
    };
    pages.iter().map(counted).collect()
}
