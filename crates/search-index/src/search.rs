//! Searching: ranking, folding of near-duplicates, pagination and snippets.

use crate::{
    query::compile,
    rank::{Ranked, best},
    schema::{Fields, SIMHASH},
    urls,
};
use crawlway_store::{
    IndexedPage,
    pages::{
        Duplicate, Hit, Query, SearchRequest, SearchResults,
        near_duplicates::{HitGroup, collapse, initial_depth, next_depth},
        snippet::highlighted_terms,
    },
};
use std::{collections::HashMap, sync::Arc};
use tantivy::{
    Searcher, TantivyError, columnar::ColumnValues, fieldnorm::FieldNormReader, query::Query as Compiled,
};

pub(crate) fn search(
    searcher: &Searcher,
    fields: &Fields,
    query: &Query,
    search: &SearchRequest,
) -> tantivy::Result<SearchResults> {
    let compiled = compile(fields, query);
    let wanted = search.needed_hits();
    let (total, groups) = if search.collapse_duplicates {
        folded(searcher, fields, &*compiled, wanted)?
    } else {
        let (total, ranked) = best(searcher, &*compiled, wanted)?;
        (total, ranked.into_iter().map(HitGroup::single).collect())
    };
    let marked = highlighted_terms(query);
    let shown = groups.iter().skip(search.offset).take(search.limit);
    let hits = shown.map(|group| hit(searcher, group, &marked)).collect::<tantivy::Result<Vec<_>>>()?;
    Ok(SearchResults { total, hits, next_offset: search.next_offset(groups.len()) })
}

/// The best hits, each with its near-duplicates.
fn folded(
    searcher: &Searcher,
    fields: &Fields,
    query: &dyn Compiled,
    wanted: usize,
) -> tantivy::Result<(u64, Vec<HitGroup<Ranked>>)> {
    let mut hashes = Hashes { searcher, fields, segments: HashMap::new() };
    let mut depth = initial_depth(wanted);
    loop {
        let (total, ranked) = best(searcher, query, depth)?;
        let all = ranked.len() < depth;
        let hashed = ranked.into_iter().map(|hit| Ok((hit, hashes.of(&hit)?)));
        let groups = collapse(hashed.collect::<tantivy::Result<Vec<_>>>()?);
        match next_depth(depth) {
            Some(next) if groups.len() < wanted && !all => depth = next,
            _ => return Ok((total, groups)),
        }
    }
}

/// SimHashes of hits, from the columns of their segments.
struct Hashes<'a> {
    searcher: &'a Searcher,
    fields: &'a Fields,
    segments: HashMap<u32, (Arc<dyn ColumnValues<u64>>, FieldNormReader)>,
}

impl Hashes<'_> {
    /// None for a text without words, which is no duplicate of another.
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

fn hit(searcher: &Searcher, group: &HitGroup<Ranked>, marked: &[Vec<String>]) -> tantivy::Result<Hit> {
    let page = urls::read(searcher, group.lead.address)?;
    let duplicates = group.duplicates.iter().map(|(ranked, distance)| {
        let IndexedPage { url, title, .. } = urls::read(searcher, ranked.address)?;
        Ok::<_, TantivyError>(Duplicate { url, title, distance: *distance })
    });
    Ok(Hit::new(page, group.lead.score, marked, duplicates.collect::<Result<_, _>>()?))
}
