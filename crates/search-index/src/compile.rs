//! From the query language to what the index understands, and to what is marked in snippets.

use crate::{schema::Fields, tokenize::words};
use crawlway_store::pages::Query;
use std::ops::Bound;
use tantivy::{
    Term,
    query::{
        AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, EmptyQuery, Occur, PhraseQuery,
        Query as Compiled, RangeQuery, TermQuery,
    },
    schema::{Field, IndexRecordOption},
    tokenizer::TokenStream,
};

/// How much more a word counts in the title than in the text.
const TITLE_BOOST: f32 = 3.0;

pub(crate) fn compile(fields: &Fields, query: &Query) -> Box<dyn Compiled> {
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            let words = words_of(text);
            let title = BoostQuery::new(side_by_side(fields.title, &words), TITLE_BOOST);
            Box::new(BooleanQuery::union(vec![Box::new(title), side_by_side(fields.text, &words)]))
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => {
            Box::new(BoostQuery::new(side_by_side(fields.title, &words_of(text)), TITLE_BOOST))
        }
        Query::Host(host) => {
            let term = Term::from_field_text(fields.domains, host);
            filter(Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
        }
        Query::Crawled { from, to } => {
            let term =
                |time: crawlway_store::Timestamp| Term::from_field_u64(fields.crawled_at, time.as_millis());
            let from = from.map_or(Bound::Unbounded, |day| Bound::Included(term(day.start())));
            let to = to.map_or(Bound::Unbounded, |day| Bound::Included(term(day.end())));
            match (&from, &to) {
                (Bound::Unbounded, Bound::Unbounded) => filter(Box::new(AllQuery)),
                _ => filter(Box::new(RangeQuery::new(from, to))),
            }
        }
        Query::All(parts) => {
            let mut clauses: Vec<(Occur, Box<dyn Compiled>)> = parts
                .iter()
                .map(|part| match part {
                    Query::Not(inner) => (Occur::MustNot, compile(fields, inner)),
                    other => (Occur::Must, compile(fields, other)),
                })
                .collect();
            if clauses.iter().all(|(occur, _)| *occur == Occur::MustNot) {
                clauses.push((Occur::Must, filter(Box::new(AllQuery))));
            }
            Box::new(BooleanQuery::new(clauses))
        }
        Query::Any(parts) => {
            Box::new(BooleanQuery::union(parts.iter().map(|part| compile(fields, part)).collect()))
        }
        Query::Not(inner) => Box::new(BooleanQuery::new(vec![
            (Occur::Must, filter(Box::new(AllQuery))),
            (Occur::MustNot, compile(fields, inner)),
        ])),
    }
}

/// What a snippet marks: each a sequence of words that the text may contain. What must not be there is not looked
/// for, and neither is what was asked of the title.
pub(crate) fn marked(query: &Query) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    collect_marked(query, &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect_marked(query: &Query, found: &mut Vec<Vec<String>>) {
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            let words = words_of(text);
            if !words.is_empty() {
                found.push(words);
            }
        }
        Query::All(parts) | Query::Any(parts) => parts.iter().for_each(|part| collect_marked(part, found)),
        Query::Not(_)
        | Query::TitleWord(_)
        | Query::TitlePhrase(_)
        | Query::Host(_)
        | Query::Crawled { .. } => {}
    }
}

fn words_of(text: &str) -> Vec<String> {
    let mut stream = words(text);
    std::iter::from_fn(|| stream.next().map(|token| token.text.clone())).collect()
}

fn side_by_side(field: Field, words: &[String]) -> Box<dyn Compiled> {
    let term = |word: &String| Term::from_field_text(field, word);
    match words {
        [] => Box::new(EmptyQuery),
        [word] => Box::new(TermQuery::new(term(word), IndexRecordOption::WithFreqs)),
        words => Box::new(PhraseQuery::new(words.iter().map(term).collect())),
    }
}

/// Says which pages, and nothing of how well they fit.
fn filter(query: Box<dyn Compiled>) -> Box<dyn Compiled> {
    Box::new(ConstScoreQuery::new(query, 0.0))
}
