//! An index with pages.

use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{
    IndexedPage, PageIndex,
    pages::{SearchRequest, SearchResults},
};
pub(crate) use crawlway_store_conformance::search::page;

pub(crate) struct TestIndex {
    pub(crate) index: TantivyIndex,
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) async fn with(pages: Vec<IndexedPage>) -> TestIndex {
    let directory = tempfile::tempdir().expect("a folder");
    let index = TantivyIndex::open(directory.path(), IndexOptions::default()).expect("it opens");
    index.write(pages.into()).await.expect("stored");
    TestIndex { index, directory }
}

impl TestIndex {
    pub(crate) async fn search(&self, search: &SearchRequest) -> SearchResults {
        self.index.search(search).await.unwrap_or_else(|error| panic!("{}: {error}", search.query))
    }
}
