//! Faults of a page index, as a store and as a search.

use super::{Answer, faulty, finds};
use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{Timestamp, pages::*};
use crawlway_store_conformance::{Backend, Harness};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    LastWrittenCounts,
    DropsDescriptions,
    ScansOneMore,
    RemovalTakesAnything,
    RemovedIsCounted,
    NeverFolds,
    WorstFirst,
    PhrasesAreWords,
    OffsetIsIgnored,
}
use Fault::*;

/// An index in a directory.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }
}

impl Backend for Directory {}

#[async_trait::async_trait]
impl Harness<dyn PageIndex> for Directory {
    async fn fresh(&mut self, (): ()) -> Arc<dyn PageIndex> {
        Arc::new(TantivyIndex::open(self.0.path(), IndexOptions::default()).expect("it opens"))
    }
}

faulty! { PageIndex {
        get(url: &str) -> Answer<Option<IndexedPage>>;
        count() -> Answer<u64>;
        scan_matching(query: &Query, after: Option<&str>, most: usize) -> Answer<Vec<IndexedPage>>;
        close() -> Answer<()>;
    }

    async fn write(&self, pages: Arc<[IndexedPage]>) -> Answer<()> {
        let mut pages = pages.to_vec();
        for page in &mut pages {
            match self.fault {
                LastWrittenCounts => page.crawled_at = Timestamp::now(),
                DropsDescriptions => page.description = None,
                _ => {}
            }
        }
        self.store.write(pages.into()).await
    }

    async fn scan(&self, after: Option<&str>, most: usize) -> Answer<Vec<IndexedPage>> {
        self.store.scan(after, most + usize::from(self.fault == ScansOneMore)).await
    }

    async fn remove(&self, urls: &[String], gone_at: Option<Timestamp>) -> Answer<u64> {
        let gone_at = gone_at.filter(|_| self.fault != RemovalTakesAnything);
        let removed = self.store.remove(urls, gone_at).await?;
        Ok(if self.fault == RemovedIsCounted { urls.len() as u64 } else { removed })
    }

    async fn search(&self, search: &SearchRequest) -> Result<SearchResults, SearchError> {
        let mut search = search.clone();
        match self.fault {
            NeverFolds => search.collapse_duplicates = false,
            OffsetIsIgnored => search.offset = 0,
            PhrasesAreWords => search.query = search.query.replace('"', " "),
            _ => {}
        }
        let mut results = self.store.search(&search).await?;
        if self.fault == WorstFirst {
            results.hits.reverse();
        }
        Ok(results)
    }
}

mod as_a_store {
    use super::*;

    finds! { pages on dyn PageIndex, Directory::new();
        LastWrittenCounts: precedence::an_older_page_does_not_replace_a_newer_one;
        DropsDescriptions: writing::every_field_comes_back;
        ScansOneMore: reading::a_scan_is_in_order_of_url_and_goes_on;
        RemovalTakesAnything: precedence::a_removal_leaves_a_page_crawled_after_it;
        RemovedIsCounted: reading::removing_says_how_many_there_were;
    }
}

mod as_a_search {
    use super::*;

    finds! { search on dyn PageIndex, Directory::new();
        NeverFolds: parts::near_duplicates_are_folded_alike_in_every_part;
        WorstFirst: queries::a_word_counts_more_in_the_title_and_when_it_is_rare;
        PhrasesAreWords: queries::words_phrases_operators_and_titles;
        OffsetIsIgnored: parts::equal_scores_are_in_order_of_url_and_parts_fit_together;
    }
}
