//! Fixture of a page index: writing and reading.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::pages::*;

/// A page of this URL with this text.
pub(super) fn page(url: &str, text: &str) -> IndexedPage {
    IndexedPage {
        item: format!("item of {url:.40}"),
        url: url.to_owned(),
        host: "a.example".to_owned(),
        title: "A page".to_owned(),
        description: None,
        text: text.to_owned(),
        crawled_at: Timestamp::from_millis(1_700_000_000_000),
        status_code: 200,
        simhash: 0x0123_4567_89ab_cdef,
    }
}

/// The same, crawled at another time.
pub(super) fn crawled(at: Timestamp, page: IndexedPage) -> IndexedPage {
    IndexedPage { crawled_at: at, ..page }
}

/// A page crawled after every removal so far.
pub(super) fn crawled_anew(page: IndexedPage) -> IndexedPage {
    crawled(Timestamp::now() + Duration::from_secs(60), page)
}

impl Fixture<'_> {
    pub(crate) async fn write(&self, pages: &[IndexedPage]) {
        expect_ok(self.store.write(pages.into()).await, "writing");
    }

    pub(super) async fn get(&self, url: &str) -> Option<IndexedPage> {
        expect_ok(self.store.get(url).await, "reading a page")
    }

    pub(super) async fn count(&self) -> u64 {
        expect_ok(self.store.count().await, "counting")
    }

    pub(super) async fn scan(&self, after: Option<&str>, most: usize) -> Vec<IndexedPage> {
        expect_ok(self.store.scan(after, most).await, "scanning")
    }

    /// All pages, with this page size.
    pub(super) async fn scan_all(&self, most: usize) -> Vec<IndexedPage> {
        let mut all: Vec<IndexedPage> = Vec::new();
        loop {
            let after = all.last().map(|page| page.url.clone());
            let part = self.scan(after.as_deref(), most).await;
            assert!(part.len() <= most, "no more than {most} at once");
            if part.is_empty() {
                return all;
            }
            all.extend(part);
            assert!(all.len() < 100_000, "a scan must end");
        }
    }

    /// URLs of matching pages in the order of the list, with this page size.
    pub(super) async fn matching(&self, query: &str, most: usize) -> Vec<String> {
        let query = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let mut urls: Vec<String> = Vec::new();
        loop {
            let after = urls.last().cloned();
            let part = expect_ok(self.store.scan_matching(&query, after.as_deref(), most).await, "listing");
            assert!(part.len() <= most, "no more than {most} at once");
            if part.is_empty() {
                return urls;
            }
            urls.extend(part.into_iter().map(|page| page.url));
            assert!(urls.len() < 100_000, "a list must end");
        }
    }

    pub(super) async fn remove(&self, urls: &[&str]) -> u64 {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        expect_ok(self.store.remove(&urls, None).await, "removing")
    }

    /// The URLs of the pages that have this word, in order of URL.
    pub(super) async fn with_word(&self, word: &str) -> Vec<String> {
        let search =
            SearchRequest { query: word.to_owned(), offset: 0, limit: 50, collapse_duplicates: false };
        let SearchResults { hits, .. } = match self.store.search(&search).await {
            Ok(results) => results,
            Err(error) => panic!("searching for `{word}` must work, the answer was: {error}"),
        };
        let mut urls: Vec<String> = hits.into_iter().map(|hit| hit.url).collect();
        urls.sort();
        urls
    }
}
