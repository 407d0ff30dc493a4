//! Looks for many phrases at once, and tells soon that a text has none of them, which is so for nearly all texts.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Bytes that are looked at together.
const BLOCK: usize = 4;

/// How far apart blocks begin. What is [`LEAST`] long has one of them inside, wherever it stands.
const STRIDE: usize = 2;

const LEAST: usize = BLOCK + STRIDE - 1;

/// One bit for each value that [`place`] gives.
const WORDS: usize = (1 << 16) / 64;

/// The space and the letters that most words are made of, in English and its neighbours.
const FREQUENT: &[u8] = b" etaoinshrdl";

/// At most 128 phrases, in lower case.
pub(super) struct Sieve {
    /// Walks through a text byte by byte.
    phrases: AhoCorasick,
    /// Blocks of which every phrase of ASCII has one inside; none if a phrase is too short for that.
    blocks: Option<Box<[u64; WORDS]>>,
    longest: usize,
}

impl Sieve {
    /// Nothing if there are too many phrases, or too long ones.
    pub(super) fn new(phrases: &[&str]) -> Option<Self> {
        if phrases.len() > 128 {
            return None;
        }
        let found = AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(phrases).ok()?;
        let longest = phrases.iter().map(|phrase| phrase.len()).max().unwrap_or(0);
        Some(Self { phrases: found, blocks: blocks_of(phrases), longest })
    }

    /// Whether the text has any of the phrases.
    pub(super) fn finds_any(&self, text: &str) -> bool {
        let Some(blocks) = self.blocks.as_ref().filter(|_| text.is_ascii()) else {
            return self.phrases.is_match(text);
        };
        let text = text.as_bytes();
        let is_hit = |at: &usize| {
            text.get(*at..).and_then(|rest| rest.first_chunk()).is_some_and(|block| {
                let place = place(block);
                blocks[place / 64] >> (place % 64) & 1 == 1
            })
        };
        (0..text.len()).step_by(STRIDE).filter(is_hit).any(|at| {
            let around = at.saturating_sub(self.longest)..text.len().min(at + self.longest);
            self.phrases.is_match(&text[around])
        })
    }

    /// How many of the phrases a text has.
    pub(super) fn count(&self, text: &str) -> u32 {
        if !self.finds_any(text) {
            return 0;
        }
        let found = self.phrases.find_overlapping_iter(text);
        found.fold(0_u128, |bits, phrase| bits | 1 << phrase.pattern().as_usize()).count_ones()
    }
}

fn blocks_of(phrases: &[&str]) -> Option<Box<[u64; WORDS]>> {
    let mut blocks = Box::new([0; WORDS]);
    for phrase in phrases.iter().filter(|phrase| phrase.is_ascii()) {
        // Any part of it will do; the rarer it is, the fewer texts are looked at twice.
        let frequent = |part: &&[u8]| part.iter().filter(|byte| FREQUENT.contains(byte)).count();
        let part = phrase.as_bytes().windows(LEAST).min_by_key(frequent)?;
        for block in part.windows(BLOCK).filter_map(|block| block.first_chunk()) {
            let place = place(block);
            blocks[place / 64] |= 1 << (place % 64);
        }
    }
    Some(blocks)
}

fn place(block: &[u8; BLOCK]) -> usize {
    // The upper half of a product depends on all bytes.
    (u32::from_le_bytes(*block).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

#[cfg(test)]
mod tests {
    use super::super::phrases::{APPEALS, LEGAL};
    use super::*;
    use proptest::prelude::*;

    fn one_by_one(phrases: &[&str], text: &str) -> u32 {
        phrases.iter().map(|phrase| u32::from(text.contains(phrase))).sum()
    }

    #[test]
    fn every_phrase_is_found_wherever_it_stands() {
        for phrases in [LEGAL, APPEALS] {
            let sieve = Sieve::new(phrases).unwrap();
            assert!(sieve.blocks.is_some(), "a phrase is too short");
            for phrase in phrases {
                for text in [
                    phrase.to_string(),
                    format!("so {phrase}."),
                    format!("so, {phrase}"),
                    format!("{phrase}!"),
                ] {
                    assert!(sieve.count(&text) > 0, "{text}");
                }
            }
        }
    }

    #[test]
    fn short_phrases_are_found_as_well() {
        let sieve = Sieve::new(&["no", "nothing"]).unwrap();
        assert_eq!((sieve.count("so nothing"), sieve.count("so now"), sieve.count("so")), (2, 1, 0));
        assert!(Sieve::new(&["many"; 129]).is_none());
    }

    proptest! {
        #[test]
        fn one_pass_finds_what_each_search_finds(
            places in prop::collection::vec((0usize..200, 0usize..3, 0usize..40), 0..6),
        ) {
            let all = [LEGAL, APPEALS, &["cookies", "we", "the "]].concat();
            let text: String = places
                .iter()
                .map(|(place, gap, cut)| {
                    let phrase: String = all[place % all.len()].chars().skip(cut / 8).collect();
                    format!("{phrase}{}", ["", " ", ", and "][*gap])
                })
                .collect();
            for phrases in [LEGAL, APPEALS] {
                let sieve = Sieve::new(phrases).unwrap();
                prop_assert_eq!(sieve.count(&text), one_by_one(phrases, &text));
                prop_assert_eq!(sieve.finds_any(&text), one_by_one(phrases, &text) > 0);
            }
        }
    }
}
