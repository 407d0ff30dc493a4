//! The stage `index`: stores page messages of any publisher in the page index.

use super::message::{self, CheckedPage};
use crawlway_broker::Delivery;
use crawlway_content::simhash::simhash;
use crawlway_flow::{Context, Invalid, Item, Output, Stage, StageError, fail};
use crawlway_store::{IndexedPage, PageIndex, StoreError};
use std::sync::Arc;

crawlway_flow::fail_points! {
    /// Fail points of this stage, beside those of the runner.
    IndexStep {
        /// The pages are decoded, and about to be written.
        Read = "read",
        /// The pages are durable.
        Committed = "committed",
    }
}

/// The stage `index`. A page replaces the stored page of its URL, unless that was crawled later.
#[derive(Debug)]
pub(super) struct IndexStage {
    index: Arc<dyn PageIndex>,
    max_message_bytes: usize,
}

impl IndexStage {
    pub(super) fn new(index: Arc<dyn PageIndex>, max_message_bytes: usize) -> Self {
        Self { index, max_message_bytes }
    }
}

#[async_trait::async_trait]
impl Stage for IndexStage {
    type In = CheckedPage;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        "index"
    }

    fn decode(&self, delivery: &Delivery) -> Result<CheckedPage, Invalid> {
        message::read(&delivery.message.body, self.max_message_bytes)
    }

    fn subject(&self, page: &CheckedPage) -> Option<String> {
        Some(page.url.as_str().to_owned())
    }

    async fn run(
        &self,
        batch: Vec<Item<CheckedPage>>,
        _context: &Context,
    ) -> Vec<Result<Output<(), ()>, StageError>> {
        fail::passed("index", IndexStep::Read.name());
        let pages: Arc<[IndexedPage]> = batch.into_iter().map(indexed).collect();
        let count = pages.len();
        let written = match self.index.write(pages.clone()).await {
            // One page is invalid and must not affect the others, so they are written one by one.
            Err(StoreError::Invalid { .. }) if count > 1 => {
                let mut written = Vec::with_capacity(count);
                for page in pages.iter() {
                    written.push(self.index.write([page.clone()].into()).await);
                }
                written
            }
            written => vec![written; count],
        };
        fail::passed("index", IndexStep::Committed.name());
        // An outage is no fault of the message: it waits, however long the outage lasts.
        let ended = |written: Result<(), StoreError>| match written {
            Ok(()) => Ok(Output::empty("indexed")),
            Err(StoreError::Invalid { problem }) => Err(StageError::Permanent { reason: problem }),
            Err(error) => Err(StageError::Unavailable { error: error.to_string() }),
        };
        written.into_iter().map(ended).collect()
    }
}

fn indexed(item: Item<CheckedPage>) -> IndexedPage {
    let page = item.value;
    IndexedPage {
        item: item.id.as_str().to_owned(),
        host: page.url.host().to_owned(),
        simhash: simhash(&page.text),
        url: page.url.into_string(),
        title: page.title,
        description: page.description,
        text: page.original_text.unwrap_or(page.text),
        crawled_at: page.crawled_at,
        status_code: page.status_code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_broker::MessageId;
    use crawlway_clock::{Clock, Timestamp};
    use crawlway_flow::Shutdown;
    use crawlway_store::pages::{Query, SearchError, SearchRequest, SearchResults};
    use parking_lot::Mutex;

    /// Index that refuses pages with a certain title, or is unavailable.
    #[derive(Debug, Default)]
    struct FaultyIndex {
        down: Mutex<bool>,
        stored: Mutex<Vec<String>>,
    }

    #[async_trait::async_trait]
    impl PageIndex for FaultyIndex {
        async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError> {
            if *self.down.lock() {
                return Err(StoreError::Unavailable { detail: "no space left on device".to_owned() });
            }
            if pages.iter().any(|page| page.title == "bad") {
                return Err(StoreError::Invalid { problem: "that title".to_owned() });
            }
            self.stored.lock().extend(pages.iter().map(|page| page.url.clone()));
            Ok(())
        }
        async fn search(&self, _: &SearchRequest) -> Result<SearchResults, SearchError> {
            Err(StoreError::Closed.into())
        }
        async fn get(&self, _: &str) -> Result<Option<IndexedPage>, StoreError> {
            Err(StoreError::Closed)
        }
        async fn count(&self) -> Result<u64, StoreError> {
            Err(StoreError::Closed)
        }
        async fn scan(&self, _: Option<&str>, _: usize) -> Result<Vec<IndexedPage>, StoreError> {
            Err(StoreError::Closed)
        }
        async fn scan_matching(
            &self,
            _: &Query,
            _: Option<&str>,
            _: usize,
        ) -> Result<Vec<IndexedPage>, StoreError> {
            Err(StoreError::Closed)
        }
        async fn remove(&self, _: &[String], _: Option<Timestamp>) -> Result<u64, StoreError> {
            Err(StoreError::Closed)
        }
        async fn close(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    fn item(title: &str) -> Item<CheckedPage> {
        let value = CheckedPage {
            url: format!("http://a.test/{title}").parse().unwrap(),
            text: String::new(),
            original_text: None,
            truncated: false,
            title: title.to_owned(),
            description: None,
            crawled_at: Timestamp::now(),
            status_code: 200,
        };
        Item {
            id: MessageId::random(),
            value,
            attempt: 1,
            failures: crawlway_flow::FailureCounter::default(),
        }
    }

    #[tokio::test]
    async fn an_invalid_page_affects_no_other_and_a_full_disk_is_an_outage() {
        let index = Arc::new(FaultyIndex::default());
        let stage = IndexStage::new(index.clone(), 1 << 20);
        let context = Context { worker: "test".into(), clock: Clock::System, stop: Shutdown::default() };
        *index.down.lock() = true;
        let ended = stage.run(vec![item("a"), item("b")], &context).await;
        assert!(ended.iter().all(|ended| matches!(ended, Err(StageError::Unavailable { .. }))), "{ended:?}");
        *index.down.lock() = false;
        let ended = stage.run(vec![item("a"), item("bad"), item("b")], &context).await;
        assert!(ended[0].is_ok() && ended[2].is_ok(), "{ended:?}");
        assert!(matches!(&ended[1], Err(StageError::Permanent { .. })), "{ended:?}");
        assert_eq!(*index.stored.lock(), ["http://a.test/a", "http://a.test/b"]);
    }
}
