//! A query as SQL: which pages to look at, which of them match, and how well each fits.
//!
//! What the index can answer (`Found::candidates`) is kept apart from what it cannot (`Found::exactly`): phrases and
//! negations, which are looked for in the columns of those pages alone.

use super::row::{DOMAIN, TEXT, TITLE, piece};
use crate::{link::Arg, time::millis};
use crawlway_store::pages::{Query, words};
use std::fmt::Write;

/// How much more a word counts in the title than in the text.
const TITLE_BOOST: f64 = 3.0;

/// How soon more of the same word counts less, and how much a long text does; both as usual for BM25.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// What counts as neither long nor short, in words. Fixed, because the mean of all pages would have to be kept with
/// each write.
const USUAL_TITLE: f64 = 8.0;
const USUAL_TEXT: f64 = 400.0;

/// The pieces of a page, as the index has them.
const PIECES: &str = "string_to_array(head || body, ' ')";

/// The parameters of a statement in the making.
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
    let Found { candidates, exact } = candidates(query, parameters);
    match candidates {
        Some(candidates) if exact => candidates,
        Some(candidates) => format!("({candidates}) AND ({})", exactly(query, parameters)),
        None => exactly(query, parameters),
    }
}

/// What the index finds.
struct Found {
    /// All pages that match, and maybe more; none if the index is of no help.
    candidates: Option<String>,
    /// Whether these are no more than those that match.
    exact: bool,
}

fn candidates(query: &Query, parameters: &mut Parameters) -> Found {
    let exact = |candidates: String| Found { candidates: Some(candidates), exact: true };
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            let words = words::list(text);
            let has = words.iter().map(|word| has_word(word, parameters)).collect();
            Found { exact: words.len() < 2, candidates: Some(all_of(has, "false")) }
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => {
            let words = words::list(text);
            let has = words.iter().map(|word| has_piece(TITLE, word, parameters)).collect();
            Found { exact: words.len() < 2, candidates: Some(all_of(has, "false")) }
        }
        Query::Host(host) => exact(has_piece(DOMAIN, host, parameters)),
        Query::Crawled { .. } => exact(exactly(query, parameters)),
        Query::All(parts) => {
            let parts: Vec<Found> = parts.iter().map(|part| candidates(part, parameters)).collect();
            let exact = parts.iter().all(|part| part.exact);
            let known: Vec<String> = parts.into_iter().filter_map(|part| part.candidates).collect();
            Found { candidates: (!known.is_empty()).then(|| all_of(known, "true")), exact }
        }
        Query::Any(parts) => {
            let parts: Vec<Found> = parts.iter().map(|part| candidates(part, parameters)).collect();
            let exact = parts.iter().all(|part| part.exact);
            let known: Option<Vec<String>> = parts.into_iter().map(|part| part.candidates).collect();
            Found { candidates: known.map(any_of), exact }
        }
        Query::Not(_) => Found { candidates: None, exact: false },
    }
}

/// The condition as it can be told from the columns of one page.
fn exactly(query: &Query, parameters: &mut Parameters) -> String {
    let mut stands = |column: &str, sign: char, text: &str| match phrase(sign, &words::list(text)) {
        Some(phrase) => format!("strpos({column}, ${}) > 0", parameters.add(phrase)),
        None => "false".to_owned(),
    };
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            format!("({} OR {})", stands("head", TITLE, text), stands("body", TEXT, text))
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => stands("head", TITLE, text),
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

/// The pages that have this word, in the title or in the text.
pub(super) fn has_word(word: &str, parameters: &mut Parameters) -> String {
    let [title, text] = [TITLE, TEXT].map(|sign| parameters.add(format!("{sign}{word}")));
    format!("{PIECES} && ARRAY[${title}, ${text}]")
}

fn has_piece(sign: char, word: &str, parameters: &mut Parameters) -> String {
    format!("{PIECES} @> ARRAY[${}]", parameters.add(format!("{sign}{word}")))
}

/// These words one after the other, as they stand in a column.
fn phrase(sign: char, words: &[String]) -> Option<String> {
    let mut phrase = String::new();
    words.iter().for_each(|word| piece(sign, word, &mut phrase));
    (!phrase.is_empty()).then_some(phrase)
}

fn all_of(parts: Vec<String>, of_none: &str) -> String {
    if parts.is_empty() { of_none.to_owned() } else { parts.join(" AND ") }
}

fn any_of(parts: Vec<String>) -> String {
    format!("(({}))", parts.join(") OR ("))
}

/// A part of a query by which pages are ranked: words that follow each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scored {
    pub(super) words: Vec<String>,
    only_title: bool,
}

/// What pages are ranked by: all that they may have, and nothing that they must not.
pub(super) fn scored(query: &Query) -> Vec<Scored> {
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            vec![Scored { words: words::list(text), only_title: false }]
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => {
            vec![Scored { words: words::list(text), only_title: true }]
        }
        Query::All(parts) | Query::Any(parts) => parts.iter().flat_map(scored).collect(),
        Query::Host(_) | Query::Crawled { .. } | Query::Not(_) => vec![],
    }
}

/// How well a page fits: BM25, with a weight for each part.
pub(super) fn score<'a>(
    parts: impl IntoIterator<Item = (&'a Scored, f64)>,
    parameters: &mut Parameters,
) -> String {
    let mut score = "0".to_owned();
    for (Scored { words, only_title }, weight) in parts {
        let mut add = |column: &str, sign: char, boost: f64, usual: f64| {
            let Some(phrase) = phrase(sign, words) else { return };
            let length = phrase.len();
            let place = parameters.add(phrase);
            let factor = weight * boost * (SATURATION + 1.0);
            let [fixed, by_length] = [SATURATION * (1.0 - LENGTH), SATURATION * LENGTH / usual];
            let slow = format!("({fixed:?} + {by_length:?} * {column}_words::float8)");
            // f / (f + k) as 1 - k / (f + k), so that the occurrences f are counted once.
            let often = format!(
                "(octet_length({column}) - octet_length(replace({column}, ${place}, '')))::float8 / {length}"
            );
            // Writing to a text cannot fail.
            let _ = write!(score, " + {factor:?} * (1 - {slow} / ({often} + {slow}))");
        };
        add("head", TITLE, TITLE_BOOST, USUAL_TITLE);
        if !only_title {
            add("body", TEXT, 1.0, USUAL_TEXT);
        }
    }
    score
}
