//! Finding pages: rank, fold near-duplicates, cut out the part that was asked for, and show it.

use crate::{
    compile::{compile, marked},
    near::Seen,
    rank::{Ranked, best},
    schema::{Fields, SIMHASH, to_page},
    snippet::snippet,
};
use crawlway_store::{
    IndexedPage,
    pages::{Duplicate, Hit, Query, Results, Search},
};
use std::{collections::HashMap, sync::Arc};
use tantivy::{
    Searcher, TantivyDocument, TantivyError, columnar::ColumnValues, fieldnorm::FieldNormReader,
    query::Query as Compiled,
};

/// How many of its near-duplicates a hit names.
const MOST_DUPLICATES: usize = 5;

/// How many pages are looked at to fold near-duplicates; hits behind them cannot be reached.
const MOST_FOLDED: usize = 50_000;

pub(crate) fn search(
    searcher: &Searcher,
    fields: &Fields,
    query: &Query,
    search: &Search,
) -> tantivy::Result<Results> {
    let compiled = compile(fields, query);
    // One more than is shown, to know whether there is more.
    let wanted = search.offset + search.limit + 1;
    let (total, groups) = if search.fold {
        folded(searcher, fields, &*compiled, wanted)?
    } else {
        let (total, ranked) = best(searcher, &*compiled, wanted)?;
        (total, ranked.into_iter().map(|lead| Group { lead, duplicates: Vec::new() }).collect())
    };
    let marked = marked(query);
    let shown = groups.iter().skip(search.offset).take(search.limit);
    let hits = shown.map(|group| hit(searcher, group, &marked)).collect::<tantivy::Result<Vec<_>>>()?;
    let next = search.offset + search.limit;
    let next_offset = (groups.len() > next && search.limit > 0 && next < Search::DEEPEST).then_some(next);
    Ok(Results { total, hits, next_offset })
}

/// A hit and what was folded into it.
struct Group {
    lead: Ranked,
    duplicates: Vec<(Ranked, u32)>,
}

/// The first hits, each with its near-duplicates. Going through the ranking from the top makes it the same whichever
/// part is asked for.
fn folded(
    searcher: &Searcher,
    fields: &Fields,
    query: &dyn Compiled,
    wanted: usize,
) -> tantivy::Result<(u64, Vec<Group>)> {
    let mut depth = (2 * wanted + 32).min(MOST_FOLDED);
    loop {
        let (total, ranked) = best(searcher, query, depth)?;
        let groups = fold(searcher, fields, &ranked)?;
        if groups.len() >= wanted || ranked.len() < depth || depth >= MOST_FOLDED {
            return Ok((total, groups));
        }
        depth = (4 * depth).min(MOST_FOLDED);
    }
}

fn fold(searcher: &Searcher, fields: &Fields, ranked: &[Ranked]) -> tantivy::Result<Vec<Group>> {
    let mut hashes = Hashes { searcher, fields, segments: HashMap::new() };
    let mut groups: Vec<Group> = Vec::new();
    let mut seen = Seen::default();
    for &hit in ranked {
        let hash = hashes.of(&hit)?;
        if let Some((group, distance)) = hash.and_then(|hash| seen.first_near(hash)) {
            if groups[group].duplicates.len() < MOST_DUPLICATES {
                groups[group].duplicates.push((hit, distance));
            }
            continue;
        }
        if let Some(hash) = hash {
            seen.add(hash, groups.len());
        }
        groups.push(Group { lead: hit, duplicates: Vec::new() });
    }
    Ok(groups)
}

/// The SimHashes of hits, read from their columns.
struct Hashes<'a> {
    searcher: &'a Searcher,
    fields: &'a Fields,
    segments: HashMap<u32, (Arc<dyn ColumnValues<u64>>, FieldNormReader)>,
}

impl Hashes<'_> {
    /// None if its text has no words: then it says nothing that could be the same.
    fn of(&mut self, hit: &Ranked) -> tantivy::Result<Option<u64>> {
        let (segment, doc) = (hit.address.segment_ord, hit.address.doc_id);
        if !self.segments.contains_key(&segment) {
            let reader = self.searcher.segment_reader(segment);
            let hashes = reader.fast_fields().column_first_or_default::<u64>(SIMHASH)?;
            let lengths = reader.get_fieldnorms_reader(self.fields.text)?;
            self.segments.insert(segment, (hashes, lengths));
        }
        let columns = self.segments.get(&segment);
        Ok(columns.and_then(|(hashes, lengths)| (lengths.fieldnorm(doc) > 0).then(|| hashes.get_val(doc))))
    }
}

fn hit(searcher: &Searcher, group: &Group, marked: &[Vec<String>]) -> tantivy::Result<Hit> {
    let page = page(searcher, &group.lead)?;
    let duplicates = group.duplicates.iter().map(|(ranked, distance)| {
        let IndexedPage { url, title, .. } = self::page(searcher, ranked)?;
        Ok::<_, TantivyError>(Duplicate { url, title, distance: *distance })
    });
    Ok(Hit {
        snippet: snippet(&page.text, marked),
        url: page.url,
        host: page.host,
        title: page.title,
        description: page.description,
        score: group.lead.score,
        crawled_at: page.crawled_at,
        status_code: page.status_code,
        item: page.item,
        simhash: page.simhash.cast_signed(),
        duplicates: duplicates.collect::<Result<_, _>>()?,
    })
}

fn page(searcher: &Searcher, ranked: &Ranked) -> tantivy::Result<IndexedPage> {
    let document: TantivyDocument = searcher.doc(ranked.address)?;
    Ok(to_page(searcher.schema(), &document))
}
