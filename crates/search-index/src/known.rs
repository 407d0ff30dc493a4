//! Says of most URLs that are not in the index that they are not, without looking into each of its segments.

use crate::{schema::Fields, urls};
use crawlway_store::Filter;
use std::hash::{DefaultHasher, Hash, Hasher};
use tantivy::Searcher;

/// Bits for each URL there is room for.
const BITS: usize = 16;

/// Room for at least so many.
const FEW: usize = 1 << 17;

/// The URLs of an index, of which it does not forget those that are removed.
pub(crate) struct KnownUrls {
    filter: Filter,
    /// For how many more there is room.
    room: usize,
}

impl KnownUrls {
    /// Those that are in the index now, with room for as many more.
    pub(crate) fn of(searcher: &Searcher, fields: &Fields) -> tantivy::Result<Self> {
        let many: usize = searcher.segment_readers().iter().map(|segment| segment.max_doc() as usize).sum();
        let room = many.saturating_mul(2).max(FEW);
        let mut known = Self { filter: Filter::new(room.saturating_mul(BITS)), room };
        urls::each_url(searcher, fields, |url| known.add(url))?;
        Ok(known)
    }

    /// Whether it is time to make it anew, larger.
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    pub(crate) fn add(&mut self, url: &[u8]) {
        self.room = self.room.saturating_sub(1);
        self.filter.add(hash(url));
    }

    pub(crate) fn may_have(&self, url: &[u8]) -> bool {
        self.filter.may_have(hash(url))
    }
}

fn hash(url: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    url.hash(&mut hasher);
    hasher.finish()
}
