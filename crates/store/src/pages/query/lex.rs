//! From characters to tokens: words, quotes, parentheses, operators and fields, each with its place.

use super::super::SearchError;

/// A token, and where it starts, in characters from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Word(String),
    Phrase(String),
    /// A known field with its value, and whether that was in quotes.
    Field(Field, String, bool),
    Open,
    Close,
    And,
    Or,
    Not,
    /// `-` right before what it negates.
    Minus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Host,
    Title,
    Date,
    After,
    Before,
}

pub(super) const KNOWN_FIELDS: &str = "host:, title:, date:, after: and before:";

impl Field {
    fn named(name: &str) -> Option<Self> {
        let known = [
            ("host", Self::Host),
            ("title", Self::Title),
            ("date", Self::Date),
            ("after", Self::After),
            ("before", Self::Before),
        ];
        known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, field)| field)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Title => "title",
            Self::Date => "date",
            Self::After => "after",
            Self::Before => "before",
        }
    }

    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Host => "host:example.org",
            Self::Title => "title:word or title:\"some words\"",
            Self::Date => "date:2026-01-01..2026-02-01",
            Self::After => "after:2026-01-01",
            Self::Before => "before:2026-02-01",
        }
    }
}

pub(super) fn lex(text: &str) -> Result<Vec<Token>, SearchError> {
    let characters: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { characters: &characters, next: 0, tokens: Vec::new() };
    lexer.run()?;
    Ok(lexer.tokens)
}

pub(super) fn problem(at: usize, problem: impl Into<String>) -> SearchError {
    SearchError::Query { at, problem: problem.into() }
}

/// Whether there is anything in it that can be searched for.
pub(super) fn says_something(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// The quotes of keyboards and of phones, which make them round by themselves.
pub(super) fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '‟' | '＂')
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || is_quote(c) || matches!(c, '(' | ')')
}

struct Lexer<'a> {
    characters: &'a [char],
    next: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), SearchError> {
        while let Some(&c) = self.characters.get(self.next) {
            let at = self.next + 1;
            match c {
                c if c.is_whitespace() => self.next += 1,
                '(' => self.push_one(Kind::Open),
                ')' => self.push_one(Kind::Close),
                c if is_quote(c) => {
                    let phrase = self.quoted()?;
                    if !says_something(&phrase) {
                        let fault = "there is no letter and no digit between these quotes; leave them out";
                        return Err(problem(at, fault));
                    }
                    self.tokens.push(Token { at, kind: Kind::Phrase(phrase) });
                }
                '-' if self.negates() => self.push_one(Kind::Minus),
                _ => self.word()?,
            }
        }
        Ok(())
    }

    fn push_one(&mut self, kind: Kind) {
        self.next += 1;
        self.tokens.push(Token { at: self.next, kind });
    }

    /// Whether a dash here negates what follows, rather than being a dash between words.
    fn negates(&self) -> bool {
        let follows = self.characters.get(self.next + 1);
        follows.is_some_and(|&c| c == '(' || is_quote(c) || !ends_word(c) && c != '-')
    }

    fn quoted(&mut self) -> Result<String, SearchError> {
        let start = self.next + 1;
        let rest = &self.characters[start..];
        let Some(length) = rest.iter().position(|&c| is_quote(c)) else {
            return Err(problem(start, "this quote is never closed; add a \" at the end of the phrase"));
        };
        self.next = start + length + 1;
        Ok(rest[..length].iter().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn word(&mut self) -> Result<(), SearchError> {
        let start = self.next;
        let at = start + 1;
        let rest = &self.characters[start..];
        let length = rest.iter().position(|&c| ends_word(c)).unwrap_or(rest.len());
        let word: String = rest[..length].iter().collect();
        self.next = start + length;
        let kind = match word.as_str() {
            "AND" | "&&" => Kind::And,
            "OR" | "||" => Kind::Or,
            "NOT" => Kind::Not,
            _ => match self.field(at, &word)? {
                Some(kind) => kind,
                None if says_something(&word) => Kind::Word(word),
                None if self
                    .tokens
                    .last()
                    .is_some_and(|last| matches!(last.kind, Kind::Not | Kind::Minus)) =>
                {
                    // Passed over, it would have the next word negated.
                    let fault = format!(
                        "`{word}` has no letter and no digit to search for; write a word after `NOT` or `-`"
                    );
                    return Err(problem(at, fault));
                }
                None => return Ok(()),
            },
        };
        self.tokens.push(Token { at, kind });
        Ok(())
    }

    /// `name:value`, where the value may be in quotes. Whatever else has a colon is a word: a time of the day, a
    /// URL, a path of a program, a colon at the end.
    fn field(&mut self, at: usize, word: &str) -> Result<Option<Kind>, SearchError> {
        let Some((name, value)) = word.split_once(':') else { return Ok(None) };
        let like_a_field =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == '-');
        if !like_a_field || value.starts_with([':', '/']) {
            return Ok(None);
        }
        let follows = self.characters.get(self.next).copied();
        let quote_follows = value.is_empty() && follows.is_some_and(is_quote);
        let Some(field) = Field::named(name) else {
            if value.is_empty() && !quote_follows {
                return Ok(None);
            }
            return Err(problem(at, unknown_field(name, value)));
        };
        let (value, quoted) = if quote_follows { (self.quoted()?, true) } else { (value.to_owned(), false) };
        if value.is_empty() || field == Field::Title && !says_something(&value) {
            let name = field.name();
            let hint = if follows == Some('(') { ", once for each word, without parentheses" } else { "" };
            return Err(problem(
                at,
                format!(
                    "nothing to search for stands right after `{name}:`; write {}{hint}, or \"{name}\" in quotes \
                     for the word itself",
                    field.example()
                ),
            ));
        }
        Ok(Some(Kind::Field(field, value, quoted)))
    }
}

fn unknown_field(name: &str, value: &str) -> String {
    let meant = match name.to_ascii_lowercase().as_str() {
        "site" | "domain" | "hostname" | "url" | "inurl" => {
            " (for pages of one site, write host:example.org)"
        }
        "intitle" | "allintitle" => " (for words of the title, write title:word)",
        "since" | "from" => " (for newer pages, write after:2026-01-01)",
        "until" | "to" => " (for older pages, write before:2026-01-01)",
        _ => "",
    };
    let quoted = if value.is_empty() { String::new() } else { format!(": \"{name}:{value}\"") };
    format!(
        "`{name}:` is not a field{meant}; the fields are {KNOWN_FIELDS}; to search for the text itself, put all of it \
         in quotes{quoted}"
    )
}
