//! Multi-phrase search with a prefilter: nearly all texts have no phrase, and are rejected fast.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Bytes of a block of the prefilter.
const BLOCK: usize = 4;

/// Distance of the tested blocks. Any [`MIN_PART_BYTES`] bytes contain a tested block.
const STRIDE: usize = 2;

const MIN_PART_BYTES: usize = BLOCK + STRIDE - 1;

/// Bitmap with one bit for each value of [`block_hash`].
const WORDS: usize = (1 << 16) / 64;

/// Most frequent letters, and the space.
const FREQUENT: &[u8] = b" etaoinshrdl";

/// Matcher of at most 128 phrases in lower case: a prefilter over hashed blocks, then Aho-Corasick.
pub(super) struct PhraseMatcher {
    phrases: AhoCorasick,
    /// Bitmap of blocks, at least one from each ASCII phrase; `None` if a phrase is too short.
    blocks: Option<Box<[u64; WORDS]>>,
    max_phrase_bytes: usize,
}

impl PhraseMatcher {
    /// `None` for too many or too long phrases.
    pub(super) fn new(phrases: &[&str]) -> Option<Self> {
        if phrases.len() > 128 {
            return None;
        }
        let found = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(phrases).ok()?;
        let max_phrase_bytes = phrases.iter().map(|phrase| phrase.len()).max().unwrap_or(0);
        Some(Self { phrases: found, blocks: blocks_of(phrases), max_phrase_bytes })
    }

    /// Whether the text contains any of the phrases.
    pub(super) fn contains_any(&self, text: &str) -> bool {
        let Some(blocks) = self.blocks.as_ref().filter(|_| text.is_ascii()) else {
            return self.phrases.is_match(text);
        };
        let text = text.as_bytes();
        let is_hit = |at: &usize| {
            text.get(*at..).and_then(|rest| rest.first_chunk()).is_some_and(|block| {
                let hash = block_hash(block);
                blocks[hash / 64] >> (hash % 64) & 1 == 1
            })
        };
        (0..text.len()).step_by(STRIDE).filter(is_hit).any(|at| {
            let around = at.saturating_sub(self.max_phrase_bytes)..text.len().min(at + self.max_phrase_bytes);
            self.phrases.is_match(&text[around])
        })
    }

    /// Number of different phrases in the text.
    pub(super) fn count(&self, text: &str) -> u32 {
        if !self.contains_any(text) {
            return 0;
        }
        let found = self.phrases.find_overlapping_iter(text);
        found.fold(0_u128, |bits, phrase| bits | 1 << phrase.pattern().as_usize()).count_ones()
    }
}

fn blocks_of(phrases: &[&str]) -> Option<Box<[u64; WORDS]>> {
    let mut blocks = Box::new([0; WORDS]);
    for phrase in phrases.iter().filter(|phrase| phrase.is_ascii()) {
        // The rarest part gives the fewest false positives.
        let frequent = |part: &&[u8]| part.iter().filter(|byte| FREQUENT.contains(byte)).count();
        let part = phrase.as_bytes().windows(MIN_PART_BYTES).min_by_key(frequent)?;
        for block in part.windows(BLOCK).filter_map(|block| block.first_chunk()) {
            let hash = block_hash(block);
            blocks[hash / 64] |= 1 << (hash % 64);
        }
    }
    Some(blocks)
}

fn block_hash(block: &[u8; BLOCK]) -> usize {
    // The upper half of the product depends on all bytes.
    (u32::from_le_bytes(*block).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::super::phrases::{LEGAL, SUBSCRIBE_PHRASES};
    use super::*;
    use proptest::prelude::*;

    fn reference_count(phrases: &[&str], text: &str) -> u32 {
        phrases.iter().map(|phrase| u32::from(text.contains(phrase))).sum()
    }

    #[test]
    fn every_phrase_is_found_at_every_position() {
        for phrases in [LEGAL, SUBSCRIBE_PHRASES] {
            let matcher = PhraseMatcher::new(phrases).unwrap();
            assert!(matcher.blocks.is_some(), "a phrase is too short");
            for phrase in phrases {
                for text in [
                    phrase.to_string(),
                    format!("so {phrase}."),
                    format!("so, {phrase}"),
                    format!("{phrase}!"),
                ] {
                    assert!(matcher.count(&text) > 0, "{text}");
                }
            }
        }
    }

    #[test]
    fn short_phrases_are_found() {
        let matcher = PhraseMatcher::new(&["no", "nothing"]).unwrap();
        assert_eq!((matcher.count("so nothing"), matcher.count("so now"), matcher.count("so")), (2, 1, 0));
        assert!(PhraseMatcher::new(&["many"; 129]).is_none());
    }

    proptest! {
        #[test]
        fn equals_the_reference(
            places in prop::collection::vec((0usize..200, 0usize..3, 0usize..40), 0..6),
        ) {
            let all = [LEGAL, SUBSCRIBE_PHRASES, &["cookies", "we", "the "]].concat();
            let text: String = places
                .iter()
                .map(|(place, gap, cut)| {
                    let phrase: String = all[place % all.len()].chars().skip(cut / 8).collect();
                    format!("{phrase}{}", ["", " ", ", and "][*gap])
                })
                .collect();
            for phrases in [LEGAL, SUBSCRIBE_PHRASES] {
                let matcher = PhraseMatcher::new(phrases).unwrap();
                prop_assert_eq!(matcher.count(&text), reference_count(phrases, &text));
                prop_assert_eq!(matcher.contains_any(&text), reference_count(phrases, &text) > 0);
            }
        }
    }
}
