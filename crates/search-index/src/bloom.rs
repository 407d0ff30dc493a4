//! Bloom filter over the URLs of the index, so that a new URL costs no look-up in each segment.

use crate::{schema::Fields, urls};
use crawlway_store::BloomFilter;
use std::hash::{DefaultHasher, Hash, Hasher};
use tantivy::Searcher;

const BITS_PER_URL: usize = 16;

/// Minimum capacity in URLs.
const MIN_CAPACITY: usize = 1 << 17;

/// Bloom filter over the URLs of the index. Removed URLs stay in it.
pub(crate) struct UrlFilter {
    filter: BloomFilter,
    /// URLs that can be added before it has to be built anew, larger.
    room: usize,
}

impl UrlFilter {
    /// The filter of an index, with room for as many URLs again.
    pub(crate) fn of(searcher: &Searcher, fields: &Fields) -> tantivy::Result<Self> {
        let urls: usize = searcher.segment_readers().iter().map(|segment| segment.max_doc() as usize).sum();
        let room = urls.saturating_mul(2).max(MIN_CAPACITY);
        let mut filter = Self { filter: BloomFilter::new(room.saturating_mul(BITS_PER_URL)), room };
        urls::each_url(searcher, fields, |url| filter.insert(url))?;
        Ok(filter)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    pub(crate) fn insert(&mut self, url: &[u8]) {
        self.room = self.room.saturating_sub(1);
        self.filter.insert(hash(url));
    }

    pub(crate) fn may_contain(&self, url: &[u8]) -> bool {
        self.filter.may_contain(hash(url))
    }
}

fn hash(url: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    url.hash(&mut hasher);
    hasher.finish()
}
