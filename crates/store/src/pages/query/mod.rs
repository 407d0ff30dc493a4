//! The query language: what people type to find pages, the same for every backend.
//!
//! | written | finds pages |
//! |---|---|
//! | `rust crawler` | with both words, in the title or the text; `AND` between them changes nothing |
//! | `"polite crawler"` | with these words in this order, side by side |
//! | `rust OR go` | with one of the two, or both; `a b OR c` is `(a b) OR c` |
//! | `rust -game`, `rust NOT game` | with the first word and without the second |
//! | `(rust OR go) crawler` | parentheses group |
//! | `title:rust`, `title:"polite crawler"` | with the word or the phrase in the title |
//! | `host:example.org` | of this host and of its subdomains, `www.example.org` for one |
//! | `date:2026-01-01..2026-02-01` | crawled on these days, the first and the last included; one end may be left out |
//! | `date:2026-01`, `date:2026` | crawled in this month, in this year |
//! | `after:2026-01-01`, `before:2026-02-01` | crawled on this day or later, on this day or earlier |
//!
//! Days are days in UTC. Where a day may stand a time of ISO 8601 may stand too: `after:2026-01-01T12:00:00Z`. Case and accents do not count. Operators are written in capitals, so that *and*, *or* and
//! *not* can be searched for; `&&` and `||` are `AND` and `OR`. A word that a backend reads as several (`e-mail`,
//! `12:30`, a URL, text in a script without spaces) is a phrase of them. Signs alone say nothing and are passed
//! over. What is in quotes is never an operator or a field.

mod day;
mod lex;
mod parse;
mod print;

#[cfg(test)]
mod tests;

pub use day::{Day, Moment};

use super::SearchError;

/// The longest query that is read, in characters.
pub const MOST_CHARACTERS: usize = 1_000;

/// The most words, phrases and filters in one query.
pub const MOST_PARTS: usize = 100;

/// How deeply parentheses and negations may be nested.
pub const MOST_LEVELS: usize = 20;

/// A query that was read. It always has a part that pages must match, so it never means *all but*.
///
/// `AND` and `OR` have at least two parts, and none of their own kind; a negation never negates a negation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// A word, as it was typed, with at least one letter or digit. A backend may read it as several, which then
    /// have to follow each other.
    Word(String),
    /// Words that follow each other, as they were typed between quotes.
    Phrase(String),
    /// A word of the title.
    TitleWord(String),
    /// Words of the title that follow each other.
    TitlePhrase(String),
    /// A host and its subdomains, spelled as in a normal URL.
    Host(String),
    /// Crawled on these days or between these moments, the first and the last included.
    Crawled {
        /// The first day or moment, if it does not go back without end.
        from: Option<Moment>,
        /// The last day or moment, if it does not go on without end.
        to: Option<Moment>,
    },
    /// All of these.
    All(Vec<Query>),
    /// At least one of these.
    Any(Vec<Query>),
    /// Not this.
    Not(Box<Query>),
}

impl Query {
    /// Reads a query; the error says where it stops making sense and what to write instead.
    pub fn parse(text: &str) -> Result<Self, SearchError> {
        parse::parse(text)
    }

    /// What matches both.
    pub fn and(self, other: Self) -> Self {
        let both = vec![self.clone(), other];
        Self::all(both).unwrap_or(self)
    }

    /// Whether it says what pages must have, rather than only what they must not.
    fn is_positive(&self) -> bool {
        match self {
            Self::Not(_) => false,
            Self::All(parts) => parts.iter().any(Self::is_positive),
            Self::Any(parts) => parts.iter().all(Self::is_positive),
            _ => true,
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// All of the parts, with those of the same kind taken in.
    fn all(parts: Vec<Self>) -> Option<Self> {
        let flat = parts.into_iter().flat_map(|part| match part {
            Self::All(inner) => inner,
            other => vec![other],
        });
        let mut flat: Vec<Self> = flat.collect();
        if flat.len() > 1 { Some(Self::All(flat)) } else { flat.pop() }
    }

    /// Any of the parts, with those of the same kind taken in.
    fn any(parts: Vec<Self>) -> Option<Self> {
        let flat = parts.into_iter().flat_map(|part| match part {
            Self::Any(inner) => inner,
            other => vec![other],
        });
        let mut flat: Vec<Self> = flat.collect();
        if flat.len() > 1 { Some(Self::Any(flat)) } else { flat.pop() }
    }
}
