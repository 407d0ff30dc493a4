//! JSON of stored pages.

use crawlway_store::IndexedPage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Stored page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredPage {
    /// URL in normal form.
    pub url: String,
    /// Host.
    pub host: String,
    /// Title; empty if the page has none.
    pub title: String,
    /// Description of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Main text, a line per paragraph; in lists only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Time of the crawl in ISO 8601.
    pub crawled_at: String,
    /// HTTP status code.
    pub status_code: u16,
    /// Item id.
    pub item: String,
    /// SimHash of the text.
    pub simhash: i64,
}

/// List of stored pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageList {
    /// Pages in order of URL.
    pub pages: Vec<StoredPage>,
    /// Pagination cursor: the `cursor` of the next request; null at the end.
    pub next: Option<String>,
}

impl StoredPage {
    /// Page with or without its text.
    pub fn new(page: IndexedPage, with_text: bool) -> Self {
        let IndexedPage { item, url, host, title, description, text, crawled_at, status_code, simhash } =
            page;
        Self {
            url,
            host,
            title,
            description,
            text: with_text.then_some(text),
            crawled_at: crawled_at.to_iso(),
            status_code,
            item,
            simhash: simhash.cast_signed(),
        }
    }
}
