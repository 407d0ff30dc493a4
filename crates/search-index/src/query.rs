//! Compiles the query language to Tantivy queries.

use crate::schema::Fields;
use crawlway_store::pages::{Query, tokenizer};
use std::ops::Bound;
use tantivy::{
    Term,
    query::{
        AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, EmptyQuery, Occur, PhraseQuery,
        Query as Compiled, RangeQuery, TermQuery,
    },
    schema::{Field, IndexRecordOption},
};

/// Weight of the title relative to the text.
const TITLE_BOOST: f32 = 3.0;

pub(crate) fn compile(fields: &Fields, query: &Query) -> Box<dyn Compiled> {
    match query {
        Query::Word(text) | Query::Phrase(text) => {
            let sequence = tokenizer::tokens(text);
            let title = BoostQuery::new(phrase(fields.title, &sequence), TITLE_BOOST);
            Box::new(BooleanQuery::union(vec![Box::new(title), phrase(fields.text, &sequence)]))
        }
        Query::TitleWord(text) | Query::TitlePhrase(text) => {
            Box::new(BoostQuery::new(phrase(fields.title, &tokenizer::tokens(text)), TITLE_BOOST))
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

fn phrase(field: Field, words: &[String]) -> Box<dyn Compiled> {
    let term = |word: &String| Term::from_field_text(field, word);
    match words {
        [] => Box::new(EmptyQuery),
        [word] => Box::new(TermQuery::new(term(word), IndexRecordOption::WithFreqs)),
        words => Box::new(PhraseQuery::new(words.iter().map(term).collect())),
    }
}

/// A filter without influence on the score.
fn filter(query: Box<dyn Compiled>) -> Box<dyn Compiled> {
    Box::new(ConstScoreQuery::new(query, 0.0))
}
