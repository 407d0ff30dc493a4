//! Searching: ranking, folding of near-duplicates, pagination and snippets.

use super::{
    query::{Parameters, Term, condition, has_word, score, scored},
    row,
};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
};
use crawlway_store::{
    IndexedPage,
    pages::{
        Duplicate, Hit, Query, SearchRequest, SearchResults,
        near_duplicates::{HitGroup, collapse, initial_depth, next_depth},
        snippet::highlighted_terms,
    },
};
use std::collections::HashMap;

/// Document frequencies of words are counted up to this.
const MAX_FREQUENCY: u64 = 10_000;

/// The number of pages is counted up to this.
const MAX_PAGES: u64 = 50_000;

/// Number of words in a query whose document frequency is looked up.
const MAX_WEIGHED_WORDS: usize = 32;

pub(super) async fn search(
    tx: &mut Tx,
    query: &Query,
    search: &SearchRequest,
) -> Result<SearchResults, Fault> {
    let statement = statement(tx, query).await?;
    let wanted = search.needed_hits();
    let (total, groups) = if search.collapse_duplicates {
        folded(tx, &statement, wanted).await?
    } else {
        let (total, ranked) = best(tx, &statement, wanted).await?;
        (total, ranked.into_iter().map(HitGroup::single).collect())
    };
    let shown: Vec<&HitGroup<Ranked>> = groups.iter().skip(search.offset).take(search.limit).collect();
    let hits = hits(tx, &shown, &highlighted_terms(query)).await?;
    Ok(SearchResults { total, hits, next_offset: search.next_offset(groups.len()) })
}

/// Matching pages in order of URL, after this one.
pub(super) async fn matching(
    tx: &mut Tx,
    query: &Query,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<IndexedPage>, Fault> {
    let mut parameters = Parameters::default();
    let condition = condition(query, &mut parameters);
    let after = after.map_or(String::new(), |after| {
        let after = parameters.add(after.to_owned());
        format!("AND substr(url, 1, 200) >= substr(${after}, 1, 200) AND url > ${after}")
    });
    let text = format!(
        "SELECT {} FROM pages WHERE ({condition}) AND removed = 0 {after}
         ORDER BY substr(url, 1, 200), url LIMIT {limit}",
        row::columns!()
    );
    let rows = tx.run_once(text, parameters.args()).await?;
    rows.iter().map(row::page).collect()
}

/// The ranking statement without its `LIMIT`.
struct Statement {
    text: String,
    parameters: Parameters,
}

async fn statement(tx: &mut Tx, query: &Query) -> Result<Statement, Fault> {
    let terms = scored(query);
    let weights = weights(tx, &terms).await?;
    let mut parameters = Parameters::default();
    let condition = condition(query, &mut parameters);
    let score = score(terms.iter().zip(weights), &mut parameters);
    // `|| ''` and `OFFSET 0` make PostgreSQL read the tokens of a page once for all terms.
    let text = format!(
        "WITH found AS MATERIALIZED (
           SELECT num, url, simhash, body_words, ({score})::float4 AS score
           FROM (SELECT num, url, simhash, head_words, body_words, head || '' AS head, body || '' AS body
                 FROM pages WHERE ({condition}) AND removed = 0 OFFSET 0) p
         )
         SELECT num, score, simhash, body_words, (SELECT count(*) FROM found) FROM found
         ORDER BY score DESC, url"
    );
    Ok(Statement { text, parameters })
}

/// Inverse document frequency of each term. A single term needs no weight.
async fn weights(tx: &mut Tx, terms: &[Term]) -> Result<Vec<f64>, Fault> {
    if terms.len() < 2 {
        return Ok(vec![1.0; terms.len()]);
    }
    let mut words: Vec<&str> = terms.iter().flat_map(|term| &term.words).map(String::as_str).collect();
    words.sort_unstable();
    words.dedup();
    words.truncate(MAX_WEIGHED_WORDS);
    let mut parameters = Parameters::default();
    let counts = words.iter().map(|word| {
        let has = has_word(word, &mut parameters);
        format!("(SELECT count(*) FROM (SELECT 1 FROM pages WHERE {has} LIMIT {MAX_FREQUENCY}) l)")
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let text = format!("SELECT (SELECT count(*) FROM (SELECT 1 FROM pages LIMIT {MAX_PAGES}) l), {counts}");
    let rows = tx.run_once(text, parameters.args()).await?;
    let mut idf: HashMap<&str, f64> = HashMap::new();
    if let Some(row) = rows.first() {
        let all = row.count(0)?;
        for (place, word) in (1..).zip(words) {
            let with = row.count(place)?.min(all);
            let without = (all - with) as f64;
            idf.insert(word, (1.0 + (without + 0.5) / (with as f64 + 0.5)).ln());
        }
    }
    let weight =
        |term: &Term| term.words.iter().map(|word| idf.get(word.as_str()).copied().unwrap_or(1.0)).sum();
    Ok(terms.iter().map(weight).collect())
}

/// A hit without its page.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    num: i64,
    score: f32,
    /// None if the text has no words.
    simhash: Option<u64>,
}

/// The total number of hits and the best of them.
async fn best(tx: &mut Tx, statement: &Statement, limit: usize) -> Result<(u64, Vec<Ranked>), Fault> {
    let Statement { text, parameters } = statement;
    let rows = tx.run_once(format!("{text} LIMIT {limit}"), parameters.args()).await?;
    let total = rows.first().map_or(Ok(0), |row| row.count(4))?;
    let ranked = rows.iter().map(|row| {
        let simhash = (row.int(3)? > 0).then_some(row.int(2)?.cast_unsigned());
        Ok(Ranked { num: row.int(0)?, score: row.real(1)?, simhash })
    });
    Ok((total, ranked.collect::<Result<_, Fault>>()?))
}

/// The best hits, each with its near-duplicates.
async fn folded(
    tx: &mut Tx,
    statement: &Statement,
    wanted: usize,
) -> Result<(u64, Vec<HitGroup<Ranked>>), Fault> {
    let mut depth = initial_depth(wanted);
    loop {
        let (total, ranked) = best(tx, statement, depth).await?;
        let all = ranked.len() < depth;
        let groups = collapse(ranked.into_iter().map(|hit| (hit, hit.simhash)));
        match next_depth(depth) {
            Some(next) if groups.len() < wanted && !all => depth = next,
            _ => return Ok((total, groups)),
        }
    }
}

/// The pages of these hits, without those that were just removed.
async fn hits(tx: &mut Tx, groups: &[&HitGroup<Ranked>], marked: &[Vec<String>]) -> Result<Vec<Hit>, Fault> {
    static READ: Sql = Sql::new(
        "SELECT p.item, p.url, p.host, p.title, p.description, CASE WHEN r.whole = 1 THEN p.text ELSE '' END,
                p.crawled_at, p.status_code, p.simhash, p.num
         FROM {rows num int, whole int} r JOIN pages p ON p.num = r.num",
    );
    let mut rows = Rows::new();
    for group in groups {
        rows.row().int(group.lead.num).int(1);
        for (duplicate, _) in &group.duplicates {
            rows.row().int(duplicate.num).int(0);
        }
    }
    if rows.is_empty() {
        return Ok(vec![]);
    }
    let mut pages: HashMap<i64, IndexedPage> = HashMap::new();
    for row in tx.run(&READ, vec![Arg::Rows(rows)]).await? {
        pages.insert(row.int(9)?, row::page(&row)?);
    }
    let mut hits = Vec::with_capacity(groups.len());
    for group in groups {
        let duplicates = group.duplicates.iter().filter_map(|(duplicate, distance)| {
            let IndexedPage { url, title, .. } = pages.remove(&duplicate.num)?;
            Some(Duplicate { url, title, distance: *distance })
        });
        let duplicates = duplicates.collect();
        if let Some(page) = pages.remove(&group.lead.num) {
            hits.push(Hit::new(page, group.lead.score, marked, duplicates));
        }
    }
    Ok(hits)
}
