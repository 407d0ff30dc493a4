//! SimHash: a 64-bit fingerprint with a small Hamming distance between similar texts.
//!
//! Values are persisted, so that they must not depend on a library or the Unicode version. Definition:
//!
//! 1. **Tokens.** Runs of word characters, folded to lower case by fixed rules (see `fold`). In
//!    scripts written without spaces (Han, kana, Thai, Lao, Khmer, Burmese) every character is a
//!    token of its own. Other characters separate tokens.
//! 2. **Token hash.** It starts at 0 and takes the UTF-8 bytes of the folded token eight at a time, as
//!    little-endian words `w`: `h = mix(h ^ w)`. What is left, filled up with zeros to a word `r`, and
//!    the number of bytes `n` end it: `h = mix(h ^ r ^ n * K)`. `mix` is the finaliser of SplitMix64 and
//!    `K` its increment.
//! 3. **Shingles.** Each run of [`SHINGLE`] consecutive tokens; a text with fewer tokens is one
//!    shingle. Its hash is `mix` of the token hashes, the *i*-th rotated left by 21 *i* bits, joined by
//!    exclusive or.
//! 4. **Vote.** Bit *i* is set when more than half of the shingles have bit *i* set. Repeated shingles
//!    count each time. A text without tokens gives 0.

mod votes;

use votes::Votes;

/// Tokens per shingle.
///
/// Chosen by measurement. The first columns are the share of edits after which the value is still [near](is_near_duplicate), on the texts of
/// the extraction benchmark (100 texts of 152 to 1,060 tokens, and 19 *short* ones of 60 to 151): one word, one word near the
/// end (a view counter), three in a row (a date), eight in a row. *Least* is the minimum distance of two of the 119 texts. The
/// last two columns are false positives on generated pages of 120 to 520 tokens: the share of pairs of one template that are
/// near although a tenth of the page differs, or a fifth of it with only twelve different values (a timetable).
///
/// | what votes | word | counter | date | eight | short: word | date | least | a tenth | twelve values |
/// |---|---|---|---|---|---|---|---|---|---|
/// | single words | 0.99 | 0.99 | 0.91 | 0.72 | 0.86 | 0.56 | 5 | 0.201 | 0.223 |
/// | **pairs** | 0.81 | 0.81 | 0.58 | 0.25 | 0.50 | 0.19 | 16 | 0.015 | 0.000 |
/// | threes | 0.69 | 0.68 | 0.50 | 0.23 | 0.30 | 0.15 | 17 | 0.005 | 0.000 |
/// | words and pairs | 0.95 | 0.92 | 0.84 | 0.58 | 0.77 | 0.46 | 8 | 0.085 | 0.032 |
/// | words, and pairs three times | 0.84 | 0.78 | 0.64 | 0.34 | 0.53 | 0.25 | 13 | 0.011 | 0.000 |
/// | words, each once | 0.87 | 0.89 | 0.59 | 0.22 | 0.70 | 0.28 | 14 | 0.030 | 0.964 |
/// | pairs, each once | 0.78 | 0.74 | 0.53 | 0.20 | 0.51 | 0.18 | 18 | 0.011 | 0.000 |
/// | words up to twice, and pairs | 0.84 | 0.84 | 0.62 | 0.29 | 0.63 | 0.31 | 14 | 0.017 | 0.004 |
/// | words up to twice, doubled, and pairs | 0.91 | 0.90 | 0.69 | 0.36 | 0.78 | 0.45 | 14 | 0.039 | 0.121 |
/// | words and pairs, each by 1 + log2 of how often | 0.87 | 0.86 | 0.65 | 0.34 | 0.70 | 0.35 | 14 | 0.023 | 0.014 |
///
/// No variant is better at both. Variants that tolerate more edits weigh the words more than their order, and take different
/// pages of few words for near-duplicates. That is the worse error: a page taken for another is hidden in search results, an
/// undetected near-duplicate is only listed twice. Single words also reduce the distance between all texts of a language: 31.6 bits on
/// average between English texts with pairs, 29.0 with words up to twice, 22.5 with all words. A gain of
/// some points on short texts would need a sort or a table of words, at 0.6 of the speed. Threes only lose tolerance.
pub const SHINGLE: usize = 2;

/// Maximum Hamming distance of near-duplicates. Searches have the same value as `MAX_DISTANCE` in `crates/store/src/pages/near_duplicates.rs`,
/// since that crate does not depend on this one: change both.
pub const MAX_NEAR_DISTANCE: u32 = 3;

/// SimHash of `text`.
#[must_use]
pub fn simhash(text: &str) -> u64 {
    let mut votes = Votes::default();
    let mut window = [0_u64; SHINGLE];
    let mut tokens = 0_usize;
    for_each_token(text, |token| {
        window.rotate_left(1);
        window[SHINGLE - 1] = token;
        tokens += 1;
        if tokens >= SHINGLE {
            votes.add(shingle_hash(&window));
        }
    });
    if (1..SHINGLE).contains(&tokens) {
        votes.add(shingle_hash(&window[SHINGLE - tokens..]));
    }
    votes.majority()
}

/// Stored form: the same 64 bits as two's complement.
#[must_use]
pub fn to_signed(hash: u64) -> i64 {
    hash.cast_signed()
}

/// Inverse of [`to_signed`].
#[must_use]
pub fn from_signed(stored: i64) -> u64 {
    stored.cast_unsigned()
}

/// Hamming distance.
#[must_use]
pub fn distance(a: u64, b: u64) -> u32 {
    (a ^ b).count_ones()
}

/// Whether two values differ in at most [`MAX_NEAR_DISTANCE`] bits.
#[must_use]
pub fn is_near_duplicate(a: u64, b: u64) -> bool {
    distance(a, b) <= MAX_NEAR_DISTANCE
}

fn shingle_hash(tokens: &[u64]) -> u64 {
    mix(tokens.iter().rev().fold(0, |hash: u64, token| hash.rotate_left(21) ^ token))
}

/// Bit of lower case, in each byte of a word.
const LOWERCASE_BITS: u64 = 0x2020_2020_2020_2020;

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(INCREMENT);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Incremental hash of a token.
#[derive(Default)]
struct TokenHash {
    hash: u64,
    word: u64,
    length: u64,
}

impl TokenHash {
    #[inline]
    fn push(&mut self, byte: u8) {
        self.word |= u64::from(byte) << (self.length % 8 * 8);
        self.length += 1;
        if self.length.is_multiple_of(8) {
            self.hash = mix(self.hash ^ self.word);
            self.word = 0;
        }
    }

    /// Hashes the ASCII letters and digits at the start of `bytes`, and returns their number.
    #[inline]
    fn push_run(&mut self, bytes: &[u8]) -> usize {
        let end = bytes.iter().position(|&byte| ASCII_FOLD[usize::from(byte)] == 0).unwrap_or(bytes.len());
        let mut at = 0;
        // Eight bytes at a time where aligned. Setting the bit turns letters into lower case and keeps digits.
        while self.length.is_multiple_of(8)
            && at < end
            && let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk())
        {
            let count = (end - at).min(8);
            let word = (u64::from_le_bytes(*eight) | LOWERCASE_BITS) & (u64::MAX >> (64 - count * 8));
            at += count;
            self.length += count as u64;
            if count == 8 {
                self.hash = mix(self.hash ^ word);
            } else {
                self.word = word;
            }
        }
        for &byte in &bytes[at..end] {
            self.push(ASCII_FOLD[usize::from(byte)]);
        }
        end
    }

    fn push_char(&mut self, c: char) {
        let mut buffer = [0; 4];
        for byte in c.encode_utf8(&mut buffer).bytes() {
            self.push(byte);
        }
    }

    /// Finishes the token and starts the next one; `None` without a token.
    #[inline]
    fn take(&mut self) -> Option<u64> {
        if self.length == 0 {
            return None;
        }
        let Self { hash, word, length } = *self;
        *self = Self::default();
        Some(mix(hash ^ word ^ length.wrapping_mul(INCREMENT)))
    }
}

/// Fast path: hash and length of a token of less than eight ASCII letters and digits, followed by ASCII. All eight bytes are
/// tested together (SWAR).
#[inline]
fn short_token(bytes: &[u8]) -> Option<(u64, usize)> {
    const LAST: u64 = 0x8080_8080_8080_8080;
    /// Sets the highest bit of each byte that is at least `min`; all bytes must be less than 128.
    const fn at_least(word: u64, min: u8) -> u64 {
        word + u64::from_le_bytes([0x80 - min; 8])
    }
    let eight = u64::from_le_bytes(*bytes.first_chunk()?);
    let (low, lower) = (eight & !LAST, eight | LOWERCASE_BITS);
    let is_letter = at_least(lower & !LAST, b'a') & !at_least(lower & !LAST, b'z' + 1);
    let is_digit = at_least(low, b'0') & !at_least(low, b'9' + 1);
    let others = (!(is_letter | is_digit) | eight) & LAST;
    let length = others.trailing_zeros() / 8;
    let next = eight.checked_shr(length * 8)?.to_le_bytes()[0];
    if length == 0 || !next.is_ascii() {
        return None;
    }
    let word = lower & (u64::MAX >> (64 - length * 8));
    Some((mix(word ^ u64::from(length).wrapping_mul(INCREMENT)), length as usize))
}

/// Calls `visit` with the hash of each token, in order.
fn for_each_token(text: &str, mut visit: impl FnMut(u64)) {
    let bytes = text.as_bytes();
    let mut token = TokenHash::default();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if ASCII_FOLD[usize::from(byte)] != 0 {
            if token.length == 0
                && let Some((hash, length)) = short_token(&bytes[at..])
            {
                visit(hash);
                at += length;
                continue;
            }
            at += token.push_run(&bytes[at..]);
            continue;
        }
        if byte < 0x80 {
            token.take().into_iter().for_each(&mut visit);
            at += 1;
            continue;
        }
        let Some(c) = text[at..].chars().next() else { break };
        at += c.len_utf8();
        match class(c) {
            Class::Word => token.push_char(fold(c)),
            Class::Ignored => {}
            Class::Separator => token.take().into_iter().for_each(&mut visit),
            Class::Single => {
                token.take().into_iter().for_each(&mut visit);
                token.push_char(c);
                token.take().into_iter().for_each(&mut visit);
            }
        }
    }
    token.take().into_iter().for_each(&mut visit);
}

/// ASCII letters and digits in lower case; 0 for every other byte.
static ASCII_FOLD: [u8; 256] = {
    let mut fold = [0; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        if byte.is_ascii_alphanumeric() {
            fold[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    fold
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Part of a word.
    Word,
    /// Token of its own.
    Single,
    /// Between tokens.
    Separator,
    /// Skipped: soft hyphens and other invisible characters.
    Ignored,
}

/// Class of a character beyond ASCII. Code points without a rule are word characters, so that later Unicode versions change
/// nothing.
fn class(c: char) -> Class {
    match u32::from(c) {
        0xaa | 0xb5 | 0xba => Class::Word,
        0xad
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x2064
        | 0x2066..=0x2069
        | 0xfe00..=0xfe0f
        | 0xfeff => Class::Ignored,
        0x80..=0xbf | 0xd7 | 0xf7 => Class::Separator,
        // Arabic punctuation; Indic danda; Ethiopic, Khmer and Tibetan marks.
        0x60c | 0x61b | 0x61f | 0x6d4 | 0x964 | 0x965 | 0x1361..=0x1368 | 0x17d4..=0x17da | 0xf0b..=0xf14 => {
            Class::Separator
        }
        0x2000..=0x2bff | 0x2e00..=0x2e7f | 0x3000..=0x3004 | 0x3008..=0x3020 | 0x3030 | 0x30fb => {
            Class::Separator
        }
        0xe000..=0xf8ff
        | 0xfe10..=0xfe6f
        | 0xff01..=0xff0f
        | 0xff1a..=0xff20
        | 0xff3b..=0xff40
        | 0xff5b..=0xff65
        | 0xfffd => Class::Separator,
        0xe00..=0xeff
        | 0x1000..=0x109f
        | 0x1780..=0x17ff
        | 0x3005..=0x3007
        | 0x3021..=0x30ff
        | 0x31f0..=0x31ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xf900..=0xfaff
        | 0xff66..=0xff9f
        | 0x2_0000..=0x3_ffff => Class::Single,
        _ => Class::Word,
    }
}

/// Lower case for the scripts that have it in everyday use, frozen: Latin (Latin-1 and Extended-A,
/// Vietnamese and others of Extended Additional), Greek, Cyrillic, Armenian and full-width Latin.
fn fold(c: char) -> char {
    let code = u32::from(c);
    let folded = match code {
        0xc0..=0xde if code != 0xd7 => code + 32,
        0x100..=0x137
        | 0x14a..=0x177
        | 0x1e00..=0x1e95
        | 0x1ea0..=0x1eff
        | 0x460..=0x481
        | 0x48a..=0x4bf
        | 0x4d0..=0x52f
            if code != 0x130 && code != 0x131 =>
        {
            code | 1
        }
        0x139..=0x148 | 0x179..=0x17e | 0x4c1..=0x4ce if code % 2 == 1 => code + 1,
        0x386 => 0x3ac,
        0x388..=0x38a => code + 37,
        0x391..=0x3ab => code + 32,
        0x3c2 => 0x3c3,
        0x400..=0x40f => code + 80,
        0x410..=0x42f => code + 32,
        0x531..=0x556 => code + 48,
        0xff21..=0xff3a => code + 32,
        _ => code,
    };
    char::from_u32(folded).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> usize {
        let mut count = 0;
        for_each_token(text, |_| count += 1);
        count
    }

    #[test]
    fn tokens_by_script() {
        assert_eq!(tokens("It's 3 o'clock\u{a0}now"), 6);
        assert_eq!(tokens("東京タワー"), 5);
        assert_eq!(tokens("한국어 문장"), 2);
        assert_eq!(tokens("co\u{ad}operate zero\u{200b}width"), 2);
        assert_eq!(tokens("سلام، دنیا"), 2);
        assert_eq!(tokens("…—“”"), 0);
    }

    #[test]
    fn case_does_not_count() {
        for (upper, lower) in
            [("ÉCOLE ŽIŽKA", "école žižka"), ("ΑΘΗΝΑ", "αθηνα"), ("МОСКВА ЁЛКА", "москва ёлка")]
        {
            assert_eq!(simhash(upper), simhash(lower), "{upper}");
        }
    }

    /// Reference implementation, character by character.
    fn reference_tokens(text: &str) -> Vec<u64> {
        let mut hashes = Vec::new();
        let mut token = TokenHash::default();
        for c in text.chars() {
            let class = if c.is_ascii_alphanumeric() {
                Class::Word
            } else if c.is_ascii() {
                Class::Separator
            } else {
                class(c)
            };
            match class {
                Class::Word => token.push_char(fold(c.to_ascii_lowercase())),
                Class::Ignored => {}
                Class::Separator => hashes.extend(token.take()),
                Class::Single => {
                    hashes.extend(token.take());
                    token.push_char(c);
                    hashes.extend(token.take());
                }
            }
        }
        hashes.extend(token.take());
        hashes
    }

    #[test]
    fn tokens_equal_the_reference() {
        let others = ('\0'..='\u{17f}').chain(['\u{200b}', '東', '…']);
        for (other, length) in others.flat_map(|other| (0..18).map(move |length| (other, length))) {
            let word: String = "aZ09yBmPx7QwErTyUi".chars().take(length).collect();
            for text in
                [format!("{word}{other}{word} {other}"), format!("{other}{word}, {word}{other}tail of it")]
            {
                let mut hashes = Vec::new();
                for_each_token(&text, |hash| hashes.push(hash));
                assert_eq!(hashes, reference_tokens(&text), "{text:?}");
            }
        }
    }
}
