//! The conformance suites of the page index.

use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::PageIndex;
use crawlway_store_conformance::{Backend, Harness};
use std::sync::Arc;

/// There is no second handle, since the directory has one owner at a time.
struct IndexHarness(tempfile::TempDir);

impl IndexHarness {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn open(&self) -> Arc<dyn PageIndex> {
        Arc::new(TantivyIndex::open(self.0.path(), IndexOptions::default()).expect("it opens"))
    }
}

impl Backend for IndexHarness {}

#[async_trait::async_trait]
impl Harness<dyn PageIndex> for IndexHarness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn PageIndex> {
        self.open()
    }

    async fn reopen(&mut self) -> Arc<dyn PageIndex> {
        self.open()
    }
}

crawlway_store_conformance::pages!(IndexHarness::new());
crawlway_store_conformance::search!(IndexHarness::new());
