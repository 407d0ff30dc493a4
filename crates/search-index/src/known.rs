//! Says of most URLs that are not in the index that they are not, without looking into each of its segments.

use crate::{schema::Fields, urls};
use std::hash::{DefaultHasher, Hash, Hasher};
use tantivy::Searcher;

/// Bits for each URL there is room for, of which so many are set: one in four hundred is then taken for known that is not.
const BITS: usize = 16;
const PROBES: u64 = 4;

/// Room for so many at first.
const FEW: usize = 1 << 16;

/// The URLs of an index, of which it does not forget those that are removed.
pub(crate) struct KnownUrls {
    words: Vec<u64>,
    room: usize,
}

impl KnownUrls {
    /// Those that are in the index now, with room for as many more.
    pub(crate) fn of(searcher: &Searcher, fields: &Fields) -> tantivy::Result<Self> {
        let many = usize::try_from(searcher.num_docs()).unwrap_or(usize::MAX / 2);
        let size = many.max(FEW).saturating_mul(2).next_power_of_two();
        let mut known = Self { words: vec![0; size * BITS / 64], room: size };
        urls::each_url(searcher, fields, |url| known.add(url))?;
        Ok(known)
    }

    /// Whether it is time to make it anew, larger.
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    pub(crate) fn add(&mut self, url: &[u8]) {
        self.room = self.room.saturating_sub(1);
        for (word, bit) in self.places(url) {
            self.words[word] |= bit;
        }
    }

    pub(crate) fn may_have(&self, url: &[u8]) -> bool {
        self.places(url).all(|(word, bit)| self.words[word] & bit != 0)
    }

    fn places(&self, url: &[u8]) -> impl Iterator<Item = (usize, u64)> + use<> {
        let mut hasher = DefaultHasher::new();
        url.hash(&mut hasher);
        let hash = hasher.finish();
        let (words, step) = (self.words.len(), hash >> 32 | 1);
        (0..PROBES).map(move |probe| {
            let place = hash.wrapping_add(probe.wrapping_mul(step));
            // A number of words is a power of two far below what a place may be.
            ((place / 64) as usize % words, 1 << (place % 64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_may_be_there_and_little_else() {
        let mut known = KnownUrls { words: vec![0; 10_000 * BITS / 64], room: 10_000 };
        let url = |number: u32| format!("https://example.org/{number}").into_bytes();
        for number in 0..10_000 {
            assert!(!known.is_full());
            known.add(&url(number));
        }
        assert!(known.is_full());
        assert!((0..10_000).all(|number| known.may_have(&url(number))));
        let wrong = (10_000..20_000).filter(|number| known.may_have(&url(*number))).count();
        assert!(wrong < 100, "{wrong} of 10,000");
    }
}
