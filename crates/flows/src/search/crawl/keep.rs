//! Step keep: the raw HTML of a page that is published, in the blob store (`search.keep_html`).

use super::page::{Exit, PageCrawl};
use crate::search::kept_html::html_key;
use crawlway_content::NormalUrl;
use crawlway_fetch::FetchResponse;
use crawlway_store::blobs::{BlobMetadata, once};

impl PageCrawl<'_> {
    /// Stores the body as it was parsed. It replaces that of an earlier crawl, as the page replaces that in the index.
    pub(super) async fn keep_html(&self, fetched: &FetchResponse, url: &NormalUrl) -> Result<(), Exit> {
        let Some(blobs) = &self.stage.blobs else { return Ok(()) };
        let metadata = BlobMetadata {
            content_type: fetched.content_type().map(str::to_owned),
            // The fetch has decoded it.
            content_encoding: None,
            fetched_at: Some(self.now),
            url: Some(url.as_str().to_owned()),
        };
        blobs.put(&html_key(url)?, &metadata, once(fetched.body.clone())).await?;
        Ok(())
    }
}
