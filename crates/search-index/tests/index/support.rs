//! Pages and an index to put them into.

use crawlway_search_index::{Options, TantivyIndex};
use crawlway_store::{
    IndexedPage, PageIndex, Timestamp,
    pages::{Results, Search},
};

pub(crate) struct Set {
    pub(crate) index: TantivyIndex,
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) fn page(url: &str, title: &str, text: &str) -> IndexedPage {
    let host = url.split('/').nth(2).unwrap_or_default().to_owned();
    IndexedPage {
        item: format!("item of {url}"),
        host,
        url: url.to_owned(),
        title: title.to_owned(),
        description: None,
        text: text.to_owned(),
        crawled_at: Timestamp::from_millis(1_767_225_600_000),
        status_code: 200,
        // Far from those of other URLs, unless a test says otherwise.
        simhash: url.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(23)
        }),
    }
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
        names(&results)
    }

    /// The same, in order of their names.
    pub(crate) async fn found(&self, query: &str) -> String {
        let mut names = self.find(query).await;
        names.sort();
        names.join(" ")
    }
}

pub(crate) fn names(results: &Results) -> Vec<String> {
    results.hits.iter().map(|hit| name(&hit.url)).collect()
}

pub(crate) fn name(url: &str) -> String {
    url.rsplit('/').next().unwrap_or_default().to_owned()
}
