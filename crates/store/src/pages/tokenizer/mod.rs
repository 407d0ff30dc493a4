//! Tokenizer for titles, texts and queries.
//!
//! A token is a run of letters and digits, in lower case and without accents. There is no stemming, since the language of
//! a page is unknown. In scripts without spaces between words (and in Hangul, whose words carry endings) every character
//! is a token (unigrams), and a search for several is a phrase, so that any substring is found.

mod fold;

use fold::{ASCII, Class, class, compose_with, fold_into, normalize_unigram};
use std::ops::Range;

/// Maximum length of a token, about. A longer word becomes a sequence of tokens, so that it is found as a phrase and no
/// token is too long for the index.
const MAX_TOKEN_BYTES: usize = 120;

/// Tokenizer of a text.
pub fn tokenize(text: &str) -> TextTokenizer<'_> {
    TextTokenizer { text, at: 0 }
}

/// Tokens of a text.
pub fn tokens(text: &str) -> Vec<String> {
    let mut words = tokenize(text);
    let mut word = String::new();
    std::iter::from_fn(|| words.next_into(&mut word).map(|_| word.clone())).collect()
}

/// Tokenizer of a text, which reuses the buffer of the caller.
#[derive(Debug, Clone)]
pub struct TextTokenizer<'a> {
    text: &'a str,
    at: usize,
}

impl TextTokenizer<'_> {
    /// Replaces `word` by the next token. Returns its byte range in the text; `None` at the end.
    pub fn next_into(&mut self, word: &mut String) -> Option<Range<usize>> {
        word.clear();
        while let Some(start) = self.start() {
            let from = self.at;
            let to = match start {
                Start::Word => self.word(word),
                Start::Unigram(c) => self.unigram(c, word),
            };
            if !word.is_empty() {
                return Some(from..to);
            }
        }
        None
    }

    fn char_at(&self, at: usize) -> Option<char> {
        self.text.get(at..).and_then(|rest| rest.chars().next())
    }

    /// Skips separators and returns the kind of the next token.
    fn start(&mut self) -> Option<Start> {
        let bytes = self.text.as_bytes();
        loop {
            let byte = *bytes.get(self.at)?;
            if ASCII[usize::from(byte)] != 0 {
                return Some(Start::Word);
            }
            if byte < 0x80 {
                self.at += 1;
                continue;
            }
            let c = self.char_at(self.at)?;
            match class(c) {
                Class::Word => return Some(Start::Word),
                Class::Unigram => return Some(Start::Unigram(c)),
                Class::Mark | Class::Separator | Class::Ignored => self.at += c.len_utf8(),
            }
        }
    }

    /// Reads the word that begins here and returns its end.
    fn word(&mut self, word: &mut String) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = self.at;
        while word.len() < MAX_TOKEN_BYTES {
            let Some(&byte) = bytes.get(self.at) else { break };
            if ASCII[usize::from(byte)] != 0 {
                // Fast path for runs of ASCII.
                let room = &bytes[self.at..bytes.len().min(self.at + MAX_TOKEN_BYTES - word.len())];
                let length =
                    room.iter().position(|&byte| ASCII[usize::from(byte)] == 0).unwrap_or(room.len());
                let start = word.len();
                word.push_str(&self.text[self.at..self.at + length]);
                word[start..].make_ascii_lowercase();
                self.at += length;
                end = self.at;
                continue;
            }
            if byte < 0x80 {
                break;
            }
            let Some(c) = self.char_at(self.at) else { break };
            match class(c) {
                Class::Word | Class::Mark => fold_into(c, word),
                Class::Ignored => {
                    self.at += c.len_utf8();
                    continue;
                }
                Class::Unigram | Class::Separator => break,
            }
            self.at += c.len_utf8();
            end = self.at;
        }
        end
    }

    /// Reads one character with the marks composed into it and returns its end.
    fn unigram(&mut self, c: char, word: &mut String) -> usize {
        let mut form = normalize_unigram(c);
        self.at += c.len_utf8();
        while let Some(next) = self.char_at(self.at) {
            let Some(composed) = compose_with(form, next) else { break };
            form = composed;
            self.at += next.len_utf8();
        }
        word.push(form);
        self.at
    }
}

enum Start {
    Word,
    Unigram(char),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accents_and_case_are_folded() {
        for (one, other) in [
            ("Élan CAFÉ", "elan cafe"),
            ("cafe\u{301}", "café"),
            ("Straße STRASSE", "strasse straße"),
            ("Ørsted Łódź Đorđe", "orsted lodz dorde"),
            ("Æsir œuvre þing", "aesir oeuvre thing"),
            ("İstanbul ISTANBUL ışık", "istanbul istanbul isik"),
            ("Ёлка", "елка"),
            ("ΟΔΟΣ", "οδος"),
            ("Ｆｕｌｌ１２", "full12"),
            ("ﬁne", "fine"),
            ("co\u{ad}operate", "cooperate"),
            ("سَلَام", "سلام"),
            ("ﾊﾟｿｺﾝ", "パソコン"),
            ("カ\u{3099}", "ガ"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
        ] {
            assert_eq!(tokens(one), tokens(other));
        }
        assert_eq!(tokens("が"), ["が"], "a sound mark is no accent");
        assert_eq!(tokens("हिन्दी भाषा"), ["हिन्दी", "भाषा"], "marks that are letters stay");
    }

    #[test]
    fn tokens_by_script() {
        assert_eq!(
            tokens("It's C++, e-mail@x.org at 12:30!"),
            ["it", "s", "c", "e", "mail", "x", "org", "at", "12", "30"]
        );
        assert_eq!(tokens("東京タワーへ"), ["東", "京", "タ", "ワ", "ー", "へ"]);
        assert_eq!(tokens("iPhone手机15"), ["iphone", "手", "机", "15"]);
        assert_eq!(tokens("한국어를"), ["한", "국", "어", "를"]);
        assert_eq!(tokens("ภาษาไทย").concat(), "ภาษาไทย");
        assert_eq!(tokens("… — \u{301}"), [""; 0]);
    }

    #[test]
    fn a_very_long_word_is_split() {
        let pieces = tokens(&"x".repeat(100_000));
        assert!(pieces.iter().all(|piece| piece.len() <= MAX_TOKEN_BYTES));
        assert_eq!(pieces.concat().len(), 100_000);
    }

    proptest! {
        #[test]
        fn ranges_are_character_boundaries_in_order(text in "(\\PC|[a-zé東한ﾊﾟ\u{301}\u{ad} ]){0,60}") {
            let mut stream = tokenize(&text);
            let (mut end, mut word) = (0, String::new());
            while let Some(range) = stream.next_into(&mut word) {
                prop_assert!(range.start >= end && range.end > range.start);
                prop_assert!(text.get(range.clone()).is_some());
                prop_assert!(!word.is_empty() && word.len() <= MAX_TOKEN_BYTES + 80);
                end = range.end;
            }
        }

        #[test]
        fn folding_is_idempotent(text in r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}0-9 ]{0,40}") {
            let once = tokens(&text).join(" ");
            prop_assert_eq!(tokens(&once).join(" "), once);
        }
    }
}
