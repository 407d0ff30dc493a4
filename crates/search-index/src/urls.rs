//! Pages by URL, through the sorted term dictionary of the field `url`.

use crate::schema::{CRAWLED_AT, Fields, to_page};
use crawlway_store::{IndexedPage, Timestamp};
use std::{
    collections::{HashMap, hash_map::Entry},
    ops::ControlFlow,
    sync::Arc,
};
use tantivy::{
    DocAddress, Searcher, TERMINATED, TantivyDocument, Term, columnar::ColumnValues, postings::Postings,
    schema::IndexRecordOption,
};

/// Address of the page of this URL.
pub(crate) fn find(searcher: &Searcher, fields: &Fields, url: &str) -> tantivy::Result<Option<DocAddress>> {
    let term = Term::from_field_text(fields.url, url);
    for (number, segment) in (0..).zip(searcher.segment_readers()) {
        let Some(mut postings) =
            segment.inverted_index(fields.url)?.read_postings(&term, IndexRecordOption::Basic)?
        else {
            continue;
        };
        if let Some(doc) = alive(segment, &mut postings) {
            return Ok(Some(DocAddress::new(number, doc)));
        }
    }
    Ok(None)
}

/// Crawl times of pages, from the columns of their segments.
pub(crate) struct CrawlTimes<'a> {
    searcher: &'a Searcher,
    segments: HashMap<u32, Arc<dyn ColumnValues<u64>>>,
}

impl<'a> CrawlTimes<'a> {
    pub(crate) fn of(searcher: &'a Searcher) -> Self {
        Self { searcher, segments: HashMap::new() }
    }

    pub(crate) fn at(&mut self, address: DocAddress) -> tantivy::Result<Timestamp> {
        let times = match self.segments.entry(address.segment_ord) {
            Entry::Occupied(times) => times.into_mut(),
            Entry::Vacant(entry) => {
                let columns = self.searcher.segment_reader(address.segment_ord).fast_fields();
                entry.insert(columns.column_first_or_default::<u64>(CRAWLED_AT)?)
            }
        };
        Ok(Timestamp::from_millis(times.get_val(address.doc_id)))
    }
}

pub(crate) fn read(searcher: &Searcher, address: DocAddress) -> tantivy::Result<IndexedPage> {
    let document: TantivyDocument = searcher.doc(address)?;
    Ok(to_page(searcher.schema(), &document))
}

/// The pages after this URL, in order of URL.
pub(crate) fn scan(
    searcher: &Searcher,
    fields: &Fields,
    after: Option<&str>,
    most: usize,
) -> tantivy::Result<Vec<IndexedPage>> {
    let mut found: Vec<(Vec<u8>, DocAddress)> = Vec::new();
    for (number, segment) in (0..).zip(searcher.segment_readers()) {
        let index = segment.inverted_index(fields.url)?;
        let range = index.terms().range();
        let mut terms = after.map_or(index.terms().range(), |after| range.gt(after)).into_stream()?;
        let mut taken = 0;
        while taken < most && terms.advance() {
            let mut postings = index.read_postings_from_terminfo(terms.value(), IndexRecordOption::Basic)?;
            if let Some(doc) = alive(segment, &mut postings) {
                found.push((terms.key().to_vec(), DocAddress::new(number, doc)));
                taken += 1;
            }
        }
    }
    found.sort_unstable();
    found.truncate(most);
    found.into_iter().map(|(_, address)| read(searcher, address)).collect()
}

/// Calls `visit` with every URL, those of removed pages included, in no order.
pub(crate) fn each_url(
    searcher: &Searcher,
    fields: &Fields,
    mut visit: impl FnMut(&[u8]),
) -> tantivy::Result<()> {
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(fields.url)?;
        let mut terms = index.terms().stream()?;
        while terms.advance() {
            visit(terms.key());
        }
    }
    Ok(())
}

/// Calls `visit` with every page, in no order, until it breaks off.
pub(crate) fn each<B>(
    searcher: &Searcher,
    mut visit: impl FnMut(IndexedPage) -> ControlFlow<B>,
) -> tantivy::Result<Option<B>> {
    for (number, segment) in (0..).zip(searcher.segment_readers()) {
        for doc in segment.doc_ids_alive() {
            if let ControlFlow::Break(end) = visit(read(searcher, DocAddress::new(number, doc))?) {
                return Ok(Some(end));
            }
        }
    }
    Ok(None)
}

fn alive(segment: &tantivy::SegmentReader, postings: &mut impl Postings) -> Option<u32> {
    let mut doc = postings.doc();
    while doc != TERMINATED {
        if !segment.is_deleted(doc) {
            return Some(doc);
        }
        doc = postings.advance();
    }
    None
}
