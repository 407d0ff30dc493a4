//! From text to the words it is found by: the same for titles, texts and queries.
//!
//! A word is a run of letters and digits, in lower case and without accents; there is no stemming, since nobody says
//! in which language a page is. Where a script has no spaces between words (and in Hangul, whose words carry their
//! endings) every character is a word, and what is searched for is a phrase of them: so any part of a text is found.

mod fold;

use fold::{ASCII, Class, alone, class, fold_into, joined};
use std::ops::Range;

/// Longer words are cut into pieces of about this many bytes, which follow each other like words: so whoever
/// searches for a long one finds it, and no word is too long for the index.
const LONGEST: usize = 120;

/// The words of a text, in order.
pub fn words(text: &str) -> Words<'_> {
    Words { text, at: 0 }
}

/// The words of a text, as a list.
pub fn list(text: &str) -> Vec<String> {
    let mut words = words(text);
    let mut word = String::new();
    std::iter::from_fn(|| words.next_into(&mut word).map(|_| word.clone())).collect()
}

/// Goes through a text word by word.
#[derive(Debug, Clone)]
pub struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl Words<'_> {
    /// Writes the next word in place of what is there, and says where in the text it stands.
    pub fn next_into(&mut self, word: &mut String) -> Option<Range<usize>> {
        word.clear();
        while let Some(start) = self.start() {
            let from = self.at;
            let to = match start {
                Start::Word => self.word(word),
                Start::Alone(c) => self.alone(c, word),
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

    /// Passes over what is between words, and says what comes next.
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
                Class::Alone => return Some(Start::Alone(c)),
                Class::Mark | Class::Separator | Class::Ignored => self.at += c.len_utf8(),
            }
        }
    }

    /// Takes the word that begins here, and says where it ends.
    fn word(&mut self, word: &mut String) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = self.at;
        while word.len() < LONGEST {
            let Some(&byte) = bytes.get(self.at) else { break };
            if ASCII[usize::from(byte)] != 0 {
                // As one piece, which is what nearly all words are.
                let room = &bytes[self.at..bytes.len().min(self.at + LONGEST - word.len())];
                let many = room.iter().position(|&byte| ASCII[usize::from(byte)] == 0).unwrap_or(room.len());
                let start = word.len();
                word.push_str(&self.text[self.at..self.at + many]);
                word[start..].make_ascii_lowercase();
                self.at += many;
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
                Class::Alone | Class::Separator => break,
            }
            self.at += c.len_utf8();
            end = self.at;
        }
        end
    }

    fn alone(&mut self, c: char, word: &mut String) -> usize {
        let mut form = alone(c);
        self.at += c.len_utf8();
        while let Some(next) = self.char_at(self.at) {
            let Some(whole) = joined(form, next) else { break };
            form = whole;
            self.at += next.len_utf8();
        }
        word.push(form);
        self.at
    }
}

enum Start {
    Word,
    Alone(char),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accents_and_case_do_not_count() {
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
            assert_eq!(list(one), list(other));
        }
        assert_eq!(list("が"), ["が"], "a sound mark is no accent");
        assert_eq!(list("हिन्दी भाषा"), ["हिन्दी", "भाषा"], "marks that are letters stay");
    }

    #[test]
    fn words_by_script() {
        assert_eq!(
            list("It's C++, e-mail@x.org at 12:30!"),
            ["it", "s", "c", "e", "mail", "x", "org", "at", "12", "30"]
        );
        assert_eq!(list("東京タワーへ"), ["東", "京", "タ", "ワ", "ー", "へ"]);
        assert_eq!(list("iPhone手机15"), ["iphone", "手", "机", "15"]);
        assert_eq!(list("한국어를"), ["한", "국", "어", "를"]);
        assert_eq!(list("ภาษาไทย").concat(), "ภาษาไทย");
        assert_eq!(list("… — \u{301}"), [""; 0]);
    }

    #[test]
    fn a_very_long_word_is_cut_into_pieces() {
        let pieces = list(&"x".repeat(100_000));
        assert!(pieces.iter().all(|piece| piece.len() <= LONGEST));
        assert_eq!(pieces.concat().len(), 100_000);
    }

    proptest! {
        #[test]
        fn offsets_lie_on_characters_and_go_forward(text in "(\\PC|[a-zé東한ﾊﾟ\u{301}\u{ad} ]){0,60}") {
            let mut stream = words(&text);
            let (mut end, mut word) = (0, String::new());
            while let Some(place) = stream.next_into(&mut word) {
                prop_assert!(place.start >= end && place.end > place.start);
                prop_assert!(text.get(place.clone()).is_some());
                prop_assert!(!word.is_empty() && word.len() <= LONGEST + 80);
                end = place.end;
            }
        }

        #[test]
        fn folding_is_done_once(text in r"[\p{Latin}\p{Greek}\p{Cyrillic}\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}0-9 ]{0,40}") {
            let once = list(&text).join(" ");
            prop_assert_eq!(list(&once).join(" "), once);
        }
    }
}
