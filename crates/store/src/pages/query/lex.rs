//! Lexer: words, phrases, parentheses, operators and fields, each with its position.

use super::super::SearchError;

/// Token with its position, in characters from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Word(String),
    Phrase(String),
    /// A field with its value, and whether the value was quoted.
    Field(Field, String, bool),
    Open,
    Close,
    And,
    Or,
    Not,
    /// `-` right before a negated clause.
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

const FIELDS: &str = "host:, title:, date:, after: and before:";

impl Field {
    fn named(name: &str) -> Option<Self> {
        let fields = [Self::Host, Self::Title, Self::Date, Self::After, Self::Before];
        fields.into_iter().find(|field| field.name().eq_ignore_ascii_case(name))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Title => "title",
            Self::Date => "date",
            Self::After => "after",
            Self::Before => "before",
        }
    }

    fn example(self) -> &'static str {
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

/// Whether the text has anything that can be searched for.
fn is_searchable(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// Straight quotes, and the typographic ones that phones insert.
fn is_quote(c: char) -> bool {
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
                    if !is_searchable(&phrase) {
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

    /// Whether a dash here is a negation instead of a dash between words.
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
                None if is_searchable(&word) => Kind::Word(word),
                None if self
                    .tokens
                    .last()
                    .is_some_and(|last| matches!(last.kind, Kind::Not | Kind::Minus)) =>
                {
                    // If it were skipped, the next word would be negated.
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

    /// `name:value`, where the value may be quoted. Other text with a colon is a word: a time, a URL, a path, a colon at
    /// the end.
    fn field(&mut self, at: usize, word: &str) -> Result<Option<Kind>, SearchError> {
        let Some((name, value)) = word.split_once(':') else { return Ok(None) };
        let is_field_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == '-');
        if !is_field_name || value.starts_with([':', '/']) {
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
        if value.is_empty() || field == Field::Title && !is_searchable(&value) {
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
    let hint = match name.to_ascii_lowercase().as_str() {
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
        "`{name}:` is not a field{hint}; the fields are {FIELDS}; to search for the text itself, put all of it \
         in quotes{quoted}"
    )
}
