//! A query as SQL: the candidates from the index, the exact condition, and the score.
//!
//! The GIN index finds candidates. Phrases and negations, which it cannot decide, are checked in the columns of the candidates.

use super::row::{DOMAIN, TEXT, TITLE, push_token};
use crate::{connection::Arg, time::millis};
use crawlway_store::pages::{Query, tokenizer};
use std::fmt::Write;

/// Weight of the title relative to the text.
const TITLE_BOOST: f64 = 3.0;

/// The usual parameters of BM25: k1 (term saturation) and b (length normalisation).
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Average lengths in words for BM25. Constants, because real averages would have to be updated with each write.
const AVERAGE_TITLE: f64 = 8.0;
const AVERAGE_TEXT: f64 = 400.0;

/// The tokens of a page, as the index has them.
const TOKENS: &str = "string_to_array(head || body, ' ')";

/// Parameters of a statement that is being built.
#[derive(Debug, Default)]
pub(super) struct Parameters(Vec<String>);

impl Parameters {
    pub(super) fn add(&mut self, text: String) -> usize {
        self.0.push(text);
        self.0.len()
    }

    pub(super) fn args(&self) -> Vec<Arg<'_>> {
        self.0.iter().map(|text| Arg::Text(text)).collect()
    }
}

/// The condition for a page to match.
pub(super) fn condition(query: &Query, parameters: &mut Parameters) -> String {
    let Candidates { condition, exact } = candidates(query, parameters);
    match condition {
        Some(candidates) if exact => candidates,
        Some(candidates) => format!("({candidates}) AND ({})", exactly(query, parameters)),
        None => exactly(query, parameters),
    }
}

/// Pages that the index finds.
struct Candidates {
    /// A condition that all matching pages meet, and maybe others; none if the index cannot be used.
    condition: Option<String>,
    /// Whether only matching pages meet it.
    exact: bool,
}

fn candidates(query: &Query, parameters: &mut Parameters) -> Candidates {
    let exact = |condition: String| Candidates { condition: Some(condition), exact: true };
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            let words = tokenizer::tokens(text);
            let has = words.iter().map(|word| has_word(word, parameters)).collect();
            Candidates { exact: words.len() < 2, condition: Some(all_of(has, "false")) }
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => {
            let words = tokenizer::tokens(text);
            let has = words.iter().map(|word| has_token(TITLE, word, parameters)).collect();
            Candidates { exact: words.len() < 2, condition: Some(all_of(has, "false")) }
        }
        Query::Host(host) => exact(has_token(DOMAIN, host, parameters)),
        Query::Crawled { .. } => exact(exactly(query, parameters)),
        Query::All(parts) => {
            let parts: Vec<Candidates> = parts.iter().map(|part| candidates(part, parameters)).collect();
            let exact = parts.iter().all(|part| part.exact);
            let conditions: Vec<String> = parts.into_iter().filter_map(|part| part.condition).collect();
            Candidates { condition: (!conditions.is_empty()).then(|| all_of(conditions, "true")), exact }
        }
        Query::Any(parts) => {
            let parts: Vec<Candidates> = parts.iter().map(|part| candidates(part, parameters)).collect();
            let exact = parts.iter().all(|part| part.exact);
            let conditions: Option<Vec<String>> = parts.into_iter().map(|part| part.condition).collect();
            Candidates { condition: conditions.map(any_of), exact }
        }
        Query::Not(_) => Candidates { condition: None, exact: false },
    }
}

/// The exact condition on the columns of a page.
fn exactly(query: &Query, parameters: &mut Parameters) -> String {
    let mut has_phrase =
        |column: &str, prefix: char, text: &str| match phrase(prefix, &tokenizer::tokens(text)) {
            Some(phrase) => format!("strpos({column}, ${}) > 0", parameters.add(phrase)),
            None => "false".to_owned(),
        };
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            format!("({} OR {})", has_phrase("head", TITLE, text), has_phrase("body", TEXT, text))
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => has_phrase("head", TITLE, text),
        Query::Host(host) => format!("strpos(head, ${}) > 0", parameters.add(format!("{DOMAIN}{host} "))),
        Query::Crawled { from, to } => {
            let from = from.map(|day| format!("crawled_at >= {}", millis(day.start())));
            let to = to.map(|day| format!("crawled_at <= {}", millis(day.end())));
            all_of(from.into_iter().chain(to).collect(), "true")
        }
        Query::All(parts) => all_of(parts.iter().map(|part| exactly(part, parameters)).collect(), "true"),
        Query::Any(parts) => any_of(parts.iter().map(|part| exactly(part, parameters)).collect()),
        Query::Not(inner) => format!("NOT ({})", exactly(inner, parameters)),
    }
}

/// Condition for a word in the title or in the text.
pub(super) fn has_word(word: &str, parameters: &mut Parameters) -> String {
    let [title, text] = [TITLE, TEXT].map(|prefix| parameters.add(format!("{prefix}{word}")));
    format!("{TOKENS} && ARRAY[${title}, ${text}]")
}

fn has_token(prefix: char, word: &str, parameters: &mut Parameters) -> String {
    format!("{TOKENS} @> ARRAY[${}]", parameters.add(format!("{prefix}{word}")))
}

/// Consecutive words, as they are stored in a column.
fn phrase(prefix: char, words: &[String]) -> Option<String> {
    let mut phrase = String::new();
    words.iter().for_each(|word| push_token(prefix, word, &mut phrase));
    (!phrase.is_empty()).then_some(phrase)
}

fn all_of(parts: Vec<String>, of_none: &str) -> String {
    if parts.is_empty() { of_none.to_owned() } else { parts.join(" AND ") }
}

fn any_of(parts: Vec<String>) -> String {
    format!("(({}))", parts.join(") OR ("))
}

/// Term of a query that counts for the ranking: a word or a phrase.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) words: Vec<String>,
    only_title: bool,
}

/// The terms that pages are ranked by; negated ones are left out.
pub(super) fn scored(query: &Query) -> Vec<Term> {
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            vec![Term { words: tokenizer::tokens(text), only_title: false }]
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => {
            vec![Term { words: tokenizer::tokens(text), only_title: true }]
        }
        Query::All(parts) | Query::Any(parts) => parts.iter().flat_map(scored).collect(),
        Query::Host(_) | Query::Crawled { .. } | Query::Not(_) => vec![],
    }
}

/// The BM25 score of a page, with a weight for each term.
pub(super) fn score<'a>(
    terms: impl IntoIterator<Item = (&'a Term, f64)>,
    parameters: &mut Parameters,
) -> String {
    let mut score = "0".to_owned();
    for (Term { words, only_title }, weight) in terms {
        let mut add = |column: &str, prefix: char, boost: f64, average: f64| {
            let Some(phrase) = phrase(prefix, words) else { return };
            let length = phrase.len();
            let parameter = parameters.add(phrase);
            let factor = weight * boost * (K1 + 1.0);
            let [fixed, by_length] = [K1 * (1.0 - B), K1 * B / average];
            let norm = format!("({fixed:?} + {by_length:?} * {column}_words::float8)");
            // f / (f + k) as 1 - k / (f + k), so that the frequency f is computed once.
            let frequency = format!(
                "(octet_length({column}) - octet_length(replace({column}, ${parameter}, '')))::float8 / {length}"
            );
            // Writing to a `String` cannot fail.
            let _ = write!(score, " + {factor:?} * (1 - {norm} / ({frequency} + {norm}))");
        };
        add("head", TITLE, TITLE_BOOST, AVERAGE_TITLE);
        if !only_title {
            add("body", TEXT, 1.0, AVERAGE_TEXT);
        }
    }
    score
}
