//! Stored pages, as programs see them.

use crawlway_store::IndexedPage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredPage {
    /// Its URL, in its normal form.
    pub url: String,
    /// Its host.
    pub host: String,
    /// Its title, empty when it has none.
    pub title: String,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its main text, with its case and a line per paragraph; left out of lists that are not asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When it was crawled, in ISO 8601.
    pub crawled_at: String,
    /// The status it was answered with.
    pub status_code: u16,
    /// The item that brought it.
    pub item: String,
    /// The SimHash of its text.
    pub simhash: i64,
}

/// Some stored pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PageList {
    /// In order of URL.
    pub pages: Vec<StoredPage>,
    /// The `cursor` of the next part, if there is one.
    pub next: Option<String>,
}

impl StoredPage {
    /// A page with its text, or without.
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
