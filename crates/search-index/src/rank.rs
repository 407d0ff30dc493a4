//! Ranking: by score, and by URL among equal scores, so that the order is stable.

use crate::schema::URL;
use tantivy::{
    DocAddress, DocId, Score, Searcher, SegmentOrdinal, SegmentReader, TantivyError,
    collector::{Collector, SegmentCollector},
    columnar::{StrColumn, TermOrdHit},
    query::Query,
};

/// A hit without its page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranked {
    pub(crate) score: Score,
    pub(crate) address: DocAddress,
    /// Ordinal of its URL in its segment.
    url: u64,
}

/// The total number of hits and the best of them.
pub(crate) fn best(
    searcher: &Searcher,
    query: &dyn Query,
    most: usize,
) -> tantivy::Result<(u64, Vec<Ranked>)> {
    let (total, mut hits) = searcher.search(query, &Best { most })?;
    hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score));
    let mut ordered = Vec::with_capacity(most.min(hits.len()));
    let mut columns: Vec<Option<StrColumn>> = vec![None; searcher.segment_readers().len()];
    for same in hits.chunk_by(|a, b| a.score.to_bits() == b.score.to_bits()) {
        if ordered.len() >= most {
            break;
        }
        if let [one] = same {
            ordered.push(*one);
            continue;
        }
        // Only ties need their URLs read.
        let mut named = Vec::with_capacity(same.len());
        for hit in same {
            let segment = hit.address.segment_ord as usize;
            if columns[segment].is_none() {
                columns[segment] = Some(url_column(&searcher.segment_readers()[segment])?);
            }
            let mut url = Vec::new();
            if let Some(column) = &columns[segment] {
                column.dictionary().ord_to_term(hit.url, &mut url)?;
            }
            named.push((url, *hit));
        }
        named.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        ordered.extend(named.into_iter().map(|(_, hit)| hit));
    }
    ordered.truncate(most);
    Ok((total, ordered))
}

/// The first matching pages after this URL, in order of URL.
pub(crate) fn first_by_url(
    searcher: &Searcher,
    query: &dyn Query,
    after: Option<&str>,
    most: usize,
) -> tantivy::Result<Vec<DocAddress>> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let found = searcher.search(query, &FirstByUrl { after: after.map(str::to_owned), most })?;
    let mut named = Vec::with_capacity(found.len());
    for (column, hits) in found {
        for (ord, address) in hits {
            let mut url = Vec::new();
            column.dictionary().ord_to_term(ord, &mut url)?;
            named.push((url, address));
        }
    }
    named.sort_unstable();
    named.truncate(most);
    Ok(named.into_iter().map(|(_, address)| address).collect())
}

struct FirstByUrl {
    after: Option<String>,
    most: usize,
}

/// Pages of a segment with the ordinals of their URLs, in no order.
type ByUrl = (StrColumn, Vec<(u64, DocAddress)>);

impl Collector for FirstByUrl {
    type Fruit = Vec<ByUrl>;
    type Child = FirstOfSegment;

    fn for_segment(
        &self,
        segment: SegmentOrdinal,
        reader: &SegmentReader,
    ) -> tantivy::Result<FirstOfSegment> {
        let urls = url_column(reader)?;
        // Ordinal of the first URL after it; ordinals are in order of URL.
        let from = match &self.after {
            None => 0,
            Some(after) => match urls.dictionary().term_ord_or_next(after.as_bytes())? {
                TermOrdHit::Exact(ord) => ord.saturating_add(1),
                TermOrdHit::Next(ord) => ord,
            },
        };
        Ok(FirstOfSegment { segment, urls, from, most: self.most, hits: Vec::new() })
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, parts: Vec<Option<ByUrl>>) -> tantivy::Result<Self::Fruit> {
        Ok(parts.into_iter().flatten().collect())
    }
}

struct FirstOfSegment {
    segment: SegmentOrdinal,
    urls: StrColumn,
    from: u64,
    most: usize,
    hits: Vec<(u64, DocAddress)>,
}

impl FirstOfSegment {
    fn cut(&mut self) {
        if self.hits.len() > self.most {
            self.hits.select_nth_unstable(self.most - 1);
            self.hits.truncate(self.most);
        }
    }
}

impl SegmentCollector for FirstOfSegment {
    type Fruit = Option<ByUrl>;

    fn collect(&mut self, doc: DocId, _: Score) {
        let Some(ord) = self.urls.ords().first(doc).filter(|ord| *ord >= self.from) else { return };
        self.hits.push((ord, DocAddress::new(self.segment, doc)));
        if self.hits.len() >= (2 * self.most).max(1024) {
            self.cut();
        }
    }

    fn harvest(mut self) -> Self::Fruit {
        self.cut();
        (!self.hits.is_empty()).then_some((self.urls, self.hits))
    }
}

fn url_column(segment: &SegmentReader) -> tantivy::Result<StrColumn> {
    let missing = || TantivyError::InternalError("the column of URLs is missing".into());
    segment.fast_fields().str(URL)?.ok_or_else(missing)
}

struct Best {
    most: usize,
}

impl Collector for Best {
    type Fruit = (u64, Vec<Ranked>);
    type Child = BestOfSegment;

    fn for_segment(&self, segment: SegmentOrdinal, reader: &SegmentReader) -> tantivy::Result<BestOfSegment> {
        let urls = url_column(reader)?;
        Ok(BestOfSegment { segment, urls, most: self.most, total: 0, worst: None, hits: Vec::new() })
    }

    fn requires_scoring(&self) -> bool {
        true
    }

    fn merge_fruits(&self, parts: Vec<(u64, Vec<Ranked>)>) -> tantivy::Result<Self::Fruit> {
        let total = parts.iter().map(|(total, _)| total).sum();
        Ok((total, parts.into_iter().flat_map(|(_, hits)| hits).collect()))
    }
}

struct BestOfSegment {
    segment: SegmentOrdinal,
    urls: StrColumn,
    most: usize,
    total: u64,
    /// Score and URL that a hit has to beat.
    worst: Option<(Score, u64)>,
    hits: Vec<Ranked>,
}

impl BestOfSegment {
    fn cut(&mut self) {
        if self.hits.len() <= self.most || self.most == 0 {
            self.hits.truncate(self.most);
            return;
        }
        let order = |a: &Ranked, b: &Ranked| b.score.total_cmp(&a.score).then(a.url.cmp(&b.url));
        let (_, worst, _) = self.hits.select_nth_unstable_by(self.most - 1, order);
        self.worst = Some((worst.score, worst.url));
        self.hits.truncate(self.most);
    }
}

impl SegmentCollector for BestOfSegment {
    type Fruit = (u64, Vec<Ranked>);

    fn collect(&mut self, doc: DocId, score: Score) {
        self.total += 1;
        if self.worst.is_some_and(|(worst, _)| score < worst) || self.most == 0 {
            return;
        }
        let url = self.urls.ords().first(doc).unwrap_or(u64::MAX);
        if self.worst.is_some_and(|(worst, its_url)| score <= worst && url >= its_url) {
            return;
        }
        self.hits.push(Ranked { score, address: DocAddress::new(self.segment, doc), url });
        if self.hits.len() >= (2 * self.most).max(256) {
            self.cut();
        }
    }

    fn harvest(mut self) -> Self::Fruit {
        self.cut();
        (self.total, self.hits)
    }
}
