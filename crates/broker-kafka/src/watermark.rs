//! Progress in one assigned partition: the commit watermark, and what is settled above it.
//!
//! ```text
//!  offsets  … 41 42 43 44 45 46 47 …
//!           ✓  ✓  ·  ✓  ✓  ·  ✓  ?         ✓ settled  · received, not settled  ? not received
//!                 └ watermark      └ next
//! ```
//!
//! The watermark is the lowest offset that was received and is not settled. An offset between two received ones that never came
//! (removed, or a transaction's marker) counts as settled. A commit is the watermark, with the settled offsets above it as a bitmap
//! in its metadata, so that the next owner of the partition skips them.

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use std::collections::BTreeSet;

/// Version of the metadata, its first character.
const VERSION: char = '1';

/// Maximum number of offsets above the watermark that fit into the metadata: the server's limit is 4,096 characters, each
/// of which has six bits.
pub(crate) const MAX_GAP: u32 = (4096 - 1) / 4 * 4 * 6;

/// What an offset is when it is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// It has to be settled.
    New,
    /// It was settled by an earlier owner of the partition.
    Settled,
    /// It was received before, although offsets only grow: the topic was made anew.
    Backwards,
}

/// Progress in an assigned partition.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Highest received offset + 1, or where the partition is read from.
    next: Option<i64>,
    /// Received and not settled.
    pending: BTreeSet<i64>,
    /// Settled by earlier owners of the partition.
    inherited: Settled,
}

/// Settled offsets: a bitmap from a first offset.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    first: i64,
    bits: Vec<u8>,
}

impl Settled {
    /// Settled offsets of a commit. Metadata of other programs is no bitmap.
    pub(crate) fn decode(first: i64, metadata: &str) -> Self {
        // Some clients append a NUL.
        let metadata = metadata.split('\0').next().unwrap_or_default();
        let bits = metadata.strip_prefix(VERSION).and_then(|text| BASE64_STANDARD_NO_PAD.decode(text).ok());
        Self { first, bits: bits.unwrap_or_default() }
    }

    fn contains(&self, offset: i64) -> bool {
        let Ok(index) = usize::try_from(offset - self.first) else { return false };
        self.bits.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
    }

    /// Upper bound of the settled offsets.
    fn end(&self) -> i64 {
        self.first + i64::try_from(self.bits.len() * 8).unwrap_or(0)
    }

    /// Number of settled offsets from this one on.
    pub(crate) fn count_from(&self, offset: i64) -> u64 {
        (offset.max(self.first)..self.end()).filter(|offset| self.contains(*offset)).count() as u64
    }
}

impl Progress {
    /// Progress of a partition with this commit; `None` if it has none, and is read from its beginning.
    pub(crate) fn resume(commit: Option<(i64, &str)>) -> Self {
        match commit {
            Some((offset, metadata)) => Self {
                next: Some(offset),
                pending: BTreeSet::new(),
                inherited: Settled::decode(offset, metadata),
            },
            None => Self::default(),
        }
    }

    pub(crate) fn receive(&mut self, offset: i64) -> Received {
        if self.next.is_some_and(|next| offset < next) {
            return Received::Backwards;
        }
        self.next = Some(offset + 1);
        if self.inherited.contains(offset) {
            return Received::Settled;
        }
        self.pending.insert(offset);
        Received::New
    }

    /// Settles an offset; `false` if it was not pending.
    pub(crate) fn settle(&mut self, offset: i64) -> bool {
        self.pending.remove(&offset)
    }

    /// Offset to commit; `None` before anything is known.
    pub(crate) fn watermark(&self) -> Option<i64> {
        self.pending.first().copied().or(self.next)
    }

    /// Number of offsets between the watermark and the highest received one.
    pub(crate) fn gap(&self) -> u64 {
        let gap = self.next.zip(self.watermark()).map_or(0, |(next, watermark)| next - watermark);
        u64::try_from(gap).unwrap_or(0)
    }

    /// Number of messages before this end of the partition that are not settled.
    pub(crate) fn backlog(&self, low: i64, end: i64) -> u64 {
        let next = self.next.unwrap_or(low).max(low);
        let unread = u64::try_from(end - next).unwrap_or(0);
        self.pending.len() as u64 + unread.saturating_sub(self.inherited.count_from(next))
    }

    /// Metadata of a commit at the watermark. Empty if nothing above it is settled.
    pub(crate) fn metadata(&self) -> String {
        let Some((watermark, next)) = self.watermark().zip(self.next) else { return String::new() };
        let mut bits = vec![0_u8; usize::try_from(next - watermark).unwrap_or(0).div_ceil(8)];
        let mut set = |offset: i64| {
            let index = usize::try_from(offset - watermark).unwrap_or(0);
            if index / 8 >= bits.len() {
                bits.resize(index / 8 + 1, 0);
            }
            bits[index / 8] |= 1 << (index % 8);
        };
        (watermark..next).filter(|offset| !self.pending.contains(offset)).for_each(&mut set);
        (next..self.inherited.end()).filter(|offset| self.inherited.contains(*offset)).for_each(&mut set);
        let used = bits.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used == 0 {
            return String::new();
        }
        format!("{VERSION}{}", BASE64_STANDARD_NO_PAD.encode(&bits[..used]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_follows_the_lowest_pending_offset() {
        let mut progress = Progress::resume(Some((10, "")));
        for offset in [10, 11, 12, 20] {
            assert_eq!(progress.receive(offset), Received::New);
        }
        assert_eq!(
            (progress.watermark(), progress.gap(), progress.metadata().as_str()),
            (Some(10), 11, "1+AM")
        );
        assert!(progress.settle(11) && !progress.settle(11) && !progress.settle(99));
        assert_eq!(progress.watermark(), Some(10), "ten is pending");
        assert!(progress.settle(10));
        assert_eq!(progress.watermark(), Some(12));
        assert!(progress.settle(12));
        assert_eq!(progress.watermark(), Some(20), "what never came between two that did is settled");
        assert!(progress.settle(20));
        assert_eq!((progress.watermark(), progress.gap(), progress.metadata().as_str()), (Some(21), 0, ""));
        assert_eq!(progress.receive(5), Received::Backwards);
    }

    #[test]
    fn the_next_owner_skips_what_is_settled() {
        let mut first = Progress::resume(None);
        assert_eq!(first.watermark(), None);
        for offset in 0..1000 {
            first.receive(offset);
        }
        for offset in (0..1000).filter(|offset| offset % 10 != 0) {
            first.settle(offset);
        }
        let watermark = first.watermark().unwrap();
        let mut second = Progress::resume(Some((watermark, &first.metadata())));
        // Another hand-over before all is read again must lose nothing.
        assert_eq!(second.receive(0), Received::New);
        assert!(second.settle(0));
        assert_eq!(second.backlog(0, 1000), 99);
        let mut third = Progress::resume(Some((second.watermark().unwrap(), &second.metadata())));
        let new = (1..1000).filter(|offset| third.receive(*offset) == Received::New).count();
        assert_eq!(new, 99, "every tenth but the first");
    }

    #[test]
    fn the_largest_gap_fits_into_the_metadata() {
        let mut progress = Progress::resume(Some((0, "")));
        for offset in 0..i64::from(MAX_GAP) {
            progress.receive(offset);
        }
        for offset in (1..i64::from(MAX_GAP)).step_by(2) {
            progress.settle(offset);
        }
        assert!(progress.metadata().len() <= 4096, "{}", progress.metadata().len());
    }

    #[test]
    fn foreign_metadata_is_ignored() {
        for metadata in ["", "hello", "1%%%", "2AAAA", "\0"] {
            assert_eq!(Settled::decode(0, metadata).count_from(0), 0, "{metadata:?}");
        }
        assert_eq!(Settled::decode(0, "1Ag\0").count_from(0), 1, "a NUL at the end");
    }
}
