//! Character classes of the tokenizer, and case and accent folding.

use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Part of a word.
    Word,
    /// Part of a word that has begun: an accent, or a combining mark that is a letter of its script.
    Mark,
    /// A token by itself, since its script has no spaces between words, or words with endings.
    Unigram,
    /// Between words.
    Separator,
    /// Skipped within a word: soft hyphens and other invisible characters.
    Ignored,
}

/// ASCII letters and digits in lower case; 0 for every other byte.
pub(super) static ASCII: [u8; 256] = {
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

pub(super) fn class(c: char) -> Class {
    let code = u32::from(c);
    match code {
        // Fast path for Latin, Greek and Cyrillic letters.
        0xc0..=0x24f | 0x370..=0x481 if c.is_alphabetic() => Class::Word,
        0xad
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x2064
        | 0x2066..=0x2069
        | 0xfe00..=0xfe0f
        | 0xfeff => Class::Ignored,
        _ if is_unigram_script(code) => {
            if c.is_alphanumeric() || is_combining_mark(c) {
                Class::Unigram
            } else {
                Class::Separator
            }
        }
        _ if is_combining_mark(c) => Class::Mark,
        _ if c.is_alphanumeric() => Class::Word,
        _ => Class::Separator,
    }
}

/// Thai, Lao, Burmese, Hangul, Khmer, kana and Han.
fn is_unigram_script(code: u32) -> bool {
    matches!(
        code,
        0xe00..=0xeff
            | 0x1000..=0x11ff
            | 0x1780..=0x17ff
            | 0x3005..=0x3007
            | 0x3021..=0x318f
            | 0x31f0..=0x31ff
            | 0x3400..=0x4dbf
            | 0x4e00..=0x9fff
            | 0xac00..=0xd7af
            | 0xf900..=0xfaff
            | 0xff66..=0xffdc
            | 0x2_0000..=0x3_ffff
    ) && !matches!(code, 0x10a0..=0x10ff)
}

/// Appends the folded form of a character; nothing for an accent.
pub(super) fn fold_into(c: char, folded: &mut String) {
    decompose_compatible(c, |part| {
        if is_accent(part) {
            return;
        }
        for lower in part.to_lowercase() {
            match lower {
                'ß' => folded.push_str("ss"),
                'æ' => folded.push_str("ae"),
                'œ' => folded.push_str("oe"),
                'þ' => folded.push_str("th"),
                'ø' => folded.push('o'),
                'đ' | 'ð' => folded.push('d'),
                'ł' => folded.push('l'),
                'ħ' => folded.push('h'),
                'ŧ' => folded.push('t'),
                'ŋ' => folded.push('n'),
                'ı' => folded.push('i'),
                'ĸ' => folded.push('k'),
                'ς' => folded.push('σ'),
                other if is_accent(other) => {}
                // A mark without a base letter is not a word.
                other if is_combining_mark(other) && folded.is_empty() => {}
                other if other.is_alphanumeric() || is_combining_mark(other) => folded.push(other),
                _ => {}
            }
        }
    });
}

/// Marks that are usually not typed: accents, and the vowel points of Hebrew and Arabic. Marks of other scripts are
/// letters.
fn is_accent(c: char) -> bool {
    matches!(
        u32::from(c),
        0x300..=0x36f
            | 0x483..=0x487
            | 0x591..=0x5bd
            | 0x5bf
            | 0x5c1..=0x5c2
            | 0x5c4..=0x5c5
            | 0x5c7
            | 0x610..=0x61a
            | 0x64b..=0x65f
            | 0x670
            | 0x1ab0..=0x1aff
            | 0x1dc0..=0x1dff
            | 0x20d0..=0x20ff
            | 0xfe20..=0xfe2f
    )
}

/// Normal form of a unigram: full-width, and without compatibility variants.
pub(super) fn normalize_unigram(c: char) -> char {
    let mut form = c;
    if matches!(u32::from(c), 0xff66..=0xffdc | 0xf900..=0xfaff | 0x2_f800..=0x2_fa1f) {
        decompose_compatible(c, |part| form = part);
    }
    form
}

/// Composition of a character with the next one: kana with its sound mark, Hangul from its letters.
pub(super) fn compose_with(c: char, next: char) -> Option<char> {
    let mark = match next {
        '\u{3099}' | 'ﾞ' => '\u{3099}',
        '\u{309a}' | 'ﾟ' => '\u{309a}',
        '\u{1160}'..='\u{11ff}' => next,
        _ => return None,
    };
    compose(c, mark)
}
