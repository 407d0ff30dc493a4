//! Kept HTML: its keys in the blob store, and the replay of the stage `crawl` from it, without a fetch.

use super::crawl::{CrawlOptions, page_body, parse_options};
use crawlway_broker::{Broker, MessageId, Outgoing, QueueName};
use crawlway_clock::Clock;
use crawlway_content::{NormalUrl, ParseOptions, parse_bytes};
use crawlway_flow::ReplayError;
use crawlway_store::{
    AttemptEnd, BlobStore, PageIndex, StoreError, TrailEntry, Trails,
    blobs::{BlobKey, BlobQuery, collect},
};
use sha2::{Digest, Sha256};
use std::ops::ControlFlow;

/// Number of pages per publish call.
const PAGE_SIZE: usize = 64;
/// Folder of kept HTML.
const FOLDER: &str = "raw/";
/// Number of digits of a URL's hash in a key.
const DIGITS: usize = 32;

/// Key of the HTML of a URL: `raw/{host}/{hash}.html`, with 32 hexadecimal digits of the URL's SHA-256.
pub(super) fn html_key(url: &NormalUrl) -> Result<BlobKey, StoreError> {
    let hash = Sha256::digest(url.as_str().as_bytes());
    let digits: String = hash.iter().take(DIGITS / 2).map(|octet| format!("{octet:02x}")).collect();
    BlobKey::raw(url.host(), &digits).map_err(|error| StoreError::Invalid { problem: error.to_string() })
}

/// What a replay works with.
#[derive(Debug, Clone, Copy)]
pub struct HtmlReplay<'a> {
    /// Kept HTML.
    pub blobs: &'a dyn BlobStore,
    /// Page index, which knows the items of the pages.
    pub index: &'a dyn PageIndex,
    /// Broker of the queue.
    pub broker: &'a dyn Broker,
    /// Trails.
    pub trails: &'a dyn Trails,
    /// Clock.
    pub clock: &'a Clock,
    /// Name of this process in trails.
    pub worker: &'a str,
    /// Queue of pages.
    pub queue: &'a QueueName,
    /// Options of the stage `crawl`.
    pub options: &'a CrawlOptions,
    /// Maximum size of a body, and of a message.
    pub max_bytes: (usize, usize),
}

impl HtmlReplay<'_> {
    /// Parses every kept page again and publishes it to `crawler_queue`, under the id of its item; returns their number. Links
    /// are not followed. `progress` gets the number so far, and may end it.
    ///
    /// # Errors
    /// If a store or the broker is unavailable.
    pub async fn run(&self, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<u64, ReplayError> {
        let parse = parse_options(self.options);
        let mut count = 0;
        let mut after = None;
        loop {
            let query = BlobQuery { prefix: FOLDER.to_owned(), after: after.take(), limit: PAGE_SIZE };
            let page = self.blobs.list(&query).await?;
            let (mut messages, mut entries) = (Vec::new(), Vec::new());
            for entry in &page.entries {
                if let Some((message, trail)) = self.message(&entry.key, &parse).await? {
                    messages.push(message);
                    entries.push(trail);
                }
            }
            self.trails.append(&entries).await?;
            for answer in self.broker.publish(messages).await {
                answer.map_err(|error| StoreError::Unavailable { detail: error.to_string() })?;
                count += 1;
            }
            after = page.entries.last().map(|entry| entry.key.clone());
            if progress(count).is_break() || !page.more {
                return Ok(count);
            }
        }
    }

    /// Message of a kept page; `None` for a blob that is not one, or has just expired.
    async fn message(
        &self,
        key: &BlobKey,
        parse: &ParseOptions,
    ) -> Result<Option<(Outgoing, TrailEntry)>, StoreError> {
        let Some((info, content)) = self.blobs.get(key).await? else { return Ok(None) };
        let url = info.metadata.url.as_deref().and_then(|url| url.parse::<NormalUrl>().ok());
        let (Some(url), Some(fetched_at)) = (url, info.metadata.fetched_at) else { return Ok(None) };
        if html_key(&url)? != *key {
            return Ok(None);
        }
        let body = match collect(content, self.max_bytes.0).await {
            Err(error) if !error.is_transient() => return Ok(None),
            body => body?,
        };
        let page = parse_bytes(&body, info.metadata.content_type.as_deref(), &url, parse);
        let known = self.index.get(url.as_str()).await?;
        let item = known.as_ref().map_or_else(MessageId::random, |known| known.item.as_str().into());
        let status = known.map_or(200, |known| known.status_code);
        let entry = TrailEntry {
            item: item.as_str().to_owned(),
            subject: Some(url.as_str().to_owned()),
            flow: super::FLOW.to_owned(),
            stage: "crawl".to_owned(),
            at: self.clock.now(),
            end: AttemptEnd::Replayed,
            outcome: "replayed".to_owned(),
            attempt: 1,
            took_ms: 0,
            worker: self.worker.to_owned(),
            replays: 0,
            note: Some(format!("parsed again from blob `{key}`")),
            error: None,
        };
        let body = page_body(url, page, fetched_at, status, false, self.max_bytes.1);
        Ok(Some((Outgoing::to_queue(self.queue, body).id(item), entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_stable_across_versions() {
        let key = |url: &str| html_key(&url.parse().unwrap()).unwrap().to_string();
        assert_eq!(key("https://example.org/"), "raw/example.org/8198d1bac40a1033653a78e48800cefc.html");
        assert!(key("http://[::1]:8080/").starts_with("raw/%5B%3A%3A1%5D/"), "{}", key("http://[::1]:8080/"));
    }
}
