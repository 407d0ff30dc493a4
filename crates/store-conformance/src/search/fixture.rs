//! Fixture of a search: pages and queries.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::pages::*;

/// A page of this URL with this title and text, crawled on the first of January 2026.
pub fn page(url: &str, title: &str, text: &str) -> IndexedPage {
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

impl Fixture<'_> {
    pub(super) async fn search(&self, search: &SearchRequest) -> SearchResults {
        self.store.search(search).await.unwrap_or_else(|error| panic!("{}: {error}", search.query))
    }

    pub(super) async fn refused(&self, search: &SearchRequest) -> SearchError {
        match self.store.search(search).await {
            Err(error) => error,
            Ok(_) => panic!("{search:?} must be refused"),
        }
    }

    /// The last segments of the URLs of the hits, best first.
    pub(super) async fn find(&self, query: &str) -> Vec<String> {
        let results = self.search(&SearchRequest::new(query)).await;
        assert_eq!(results.total, results.hits.len() as u64, "{query}");
        names(&results)
    }

    /// The same in alphabetical order.
    pub(super) async fn found(&self, query: &str) -> String {
        let mut names = self.find(query).await;
        names.sort();
        names.join(" ")
    }
}

pub(super) fn names(results: &SearchResults) -> Vec<String> {
    results.hits.iter().map(|hit| name(&hit.url)).collect()
}

pub(super) fn name(url: &str) -> String {
    url.rsplit('/').next().unwrap_or_default().to_owned()
}
