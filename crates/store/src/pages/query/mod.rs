//! The query language, the same for every backend.
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
//! Days are in UTC. An ISO 8601 time may replace a day: `after:2026-01-01T12:00:00Z`. Case and accents are ignored.
//! Operators are in capitals, so that *and*, *or* and *not* can be searched for; `&&` and `||` are `AND` and `OR`. A word
//! that the tokenizer splits (`e-mail`, `12:30`, a URL, text in a script without spaces) is a phrase. Punctuation alone is
//! skipped. Quoted text is never an operator or a field.

mod day;
mod lex;
mod parse;
mod print;

#[cfg(test)]
mod tests;

pub use day::{Day, Moment};

use super::SearchError;

/// Maximum length of a query, in characters.
pub const MAX_CHARACTERS: usize = 1_000;

/// Maximum number of words, phrases and filters in a query.
pub const MAX_CLAUSES: usize = 100;

/// Maximum nesting of parentheses and negations.
pub const MAX_DEPTH: usize = 20;

/// Parsed query. It always has a positive part, so that it never means *all pages except*.
///
/// `AND` and `OR` have at least two parts, none of them of the same kind; a negation is never negated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// A word as typed, with at least one letter or digit. If the tokenizer splits it, it is a phrase.
    Word(String),
    /// A phrase, as typed between quotes.
    Phrase(String),
    /// A word in the title.
    TitleWord(String),
    /// A phrase in the title.
    TitlePhrase(String),
    /// A host with its subdomains, in the form of a normalised URL.
    Host(String),
    /// Range of crawl times, both ends included.
    Crawled {
        /// First day or time; `None` for no lower bound.
        from: Option<Moment>,
        /// Last day or time; `None` for no upper bound.
        to: Option<Moment>,
    },
    /// Conjunction.
    All(Vec<Query>),
    /// Disjunction.
    Any(Vec<Query>),
    /// Negation.
    Not(Box<Query>),
}

impl Query {
    /// Parses a query. The error has the position of the problem and what to write instead.
    pub fn parse(text: &str) -> Result<Self, SearchError> {
        parse::parse(text)
    }

    /// Conjunction with another query.
    pub fn and(self, other: Self) -> Self {
        let both = vec![self.clone(), other];
        Self::all(both).unwrap_or(self)
    }

    /// Whether it requires something, instead of only excluding something.
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

    /// Conjunction of the parts, with nested conjunctions flattened.
    fn all(parts: Vec<Self>) -> Option<Self> {
        let flat = parts.into_iter().flat_map(|part| match part {
            Self::All(inner) => inner,
            other => vec![other],
        });
        one_or(flat.collect(), Self::All)
    }

    /// Disjunction of the parts, with nested disjunctions flattened.
    fn any(parts: Vec<Self>) -> Option<Self> {
        let flat = parts.into_iter().flat_map(|part| match part {
            Self::Any(inner) => inner,
            other => vec![other],
        });
        one_or(flat.collect(), Self::Any)
    }
}

/// The only part, or the combination of several.
fn one_or(mut parts: Vec<Query>, combine: fn(Vec<Query>) -> Query) -> Option<Query> {
    if parts.len() > 1 { Some(combine(parts)) } else { parts.pop() }
}
