//! Precedence of page versions: the one crawled later counts, in whatever order they arrive.
//!
//! Queues deliver at least once, so that an older message may arrive after a newer one, or after the removal of the page.
//! Every page index applies the rules of this file.

use super::IndexedPage;
use crate::Timestamp;
use std::{sync::Arc, time::Duration};

/// Maximum clock skew of a crawl time. A crawl time further ahead is replaced by the time of receipt, since it would
/// otherwise block every later version until then.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);

/// Retention of tombstones: longer than messages are usually redelivered or replayed.
pub const TOMBSTONE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Whether a page replaces the stored version. At the same crawl time the later arrival counts.
pub fn replaces(crawled_at: Timestamp, stored: Timestamp) -> bool {
    crawled_at >= stored
}

/// Whether a page overrides the tombstone of its URL.
pub fn revives(crawled_at: Timestamp, tombstone: Timestamp) -> bool {
    crawled_at > tombstone
}

/// Time of the tombstone of a page that is removed now. It is at least the crawl time of the page, which clock skew may
/// put into the future, so that its own message does not bring it back.
pub fn tombstone(now: Timestamp, removed: Option<Timestamp>) -> Timestamp {
    removed.map_or(now, |crawled_at| crawled_at.max(now))
}

/// Pages with crawl times that exceed the clock skew replaced by now; copied only if necessary.
pub fn clamp_crawl_times(pages: Arc<[IndexedPage]>, now: Timestamp) -> Arc<[IndexedPage]> {
    let latest = now + MAX_CLOCK_SKEW;
    if pages.iter().all(|page| page.crawled_at <= latest) {
        return pages;
    }
    let clamped = |page: &IndexedPage| {
        let crawled_at = if page.crawled_at > latest { now } else { page.crawled_at };
        IndexedPage { crawled_at, ..page.clone() }
    };
    pages.iter().map(clamped).collect()
}
