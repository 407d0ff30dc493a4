//! Pages and an index to put them into.

use crawlway_search_index::{Options, TantivyIndex};
use crawlway_store::{
    IndexedPage, PageIndex,
    pages::{Results, Search},
};
pub(crate) use crawlway_store_conformance::finding::page;

pub(crate) struct Set {
    pub(crate) index: TantivyIndex,
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) async fn with(pages: Vec<IndexedPage>) -> Set {
    let directory = tempfile::tempdir().expect("a folder");
    let index = TantivyIndex::open(directory.path(), Options::default()).expect("it opens");
    index.write(pages.into()).await.expect("stored");
    Set { index, directory }
}

impl Set {
    pub(crate) async fn search(&self, search: &Search) -> Results {
        self.index.search(search).await.unwrap_or_else(|error| panic!("{}: {error}", search.query))
    }

    /// The last parts of the URLs that are found, best first.
    pub(crate) async fn find(&self, query: &str) -> Vec<String> {
        let results = self.search(&Search::new(query)).await;
        assert_eq!(results.total, results.hits.len() as u64, "{query}");
        results.hits.iter().map(|hit| hit.url.rsplit('/').next().unwrap_or_default().to_owned()).collect()
    }

    /// The same, in order of their names.
    pub(crate) async fn found(&self, query: &str) -> String {
        let mut names = self.find(query).await;
        names.sort();
        names.join(" ")
    }
}
