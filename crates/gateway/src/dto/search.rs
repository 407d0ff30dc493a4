//! JSON of search results.

use crawlway_store::pages;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Search results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SearchResults)]
pub struct Results {
    /// Number of matching pages, including folded ones.
    pub total: u64,
    /// Hits, the best first.
    pub hits: Vec<Hit>,
    /// Offset of the next page of hits; null at the end.
    pub next_offset: Option<usize>,
}

/// Search hit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    /// URL.
    pub url: String,
    /// Host.
    pub host: String,
    /// Title.
    pub title: String,
    /// Description of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Snippet as HTML, escaped except for `<mark>` around the words of the query.
    pub snippet: String,
    /// Relevance; only comparable within one search.
    pub score: f32,
    /// Time of the crawl.
    #[schema(format = DateTime)]
    pub crawled_at: String,
    /// HTTP status code.
    pub status_code: u16,
    /// Item id.
    pub item: String,
    /// SimHash of the text.
    pub simhash: i64,
    /// Near-duplicates folded into this hit, the best first; not all of them.
    pub duplicates: Vec<Duplicate>,
}

/// Result of a removal from the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedPages {
    /// Number of removed pages.
    pub removed: u64,
}

/// Near-duplicate folded into a better hit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Duplicate {
    /// URL.
    pub url: String,
    /// Title.
    pub title: String,
    /// Hamming distance of the SimHashes.
    pub distance: u32,
}

impl From<pages::SearchResults> for Results {
    fn from(results: pages::SearchResults) -> Self {
        let pages::SearchResults { total, hits, next_offset } = results;
        Self { total, hits: hits.into_iter().map(Hit::from).collect(), next_offset }
    }
}

impl From<pages::Hit> for Hit {
    fn from(hit: pages::Hit) -> Self {
        let pages::Hit {
            url,
            host,
            title,
            description,
            snippet,
            score,
            crawled_at,
            status_code,
            item,
            simhash,
            duplicates,
        } = hit;
        let crawled_at = crawled_at.to_iso();
        let duplicates = duplicates
            .into_iter()
            .map(|pages::Duplicate { url, title, distance }| Duplicate { url, title, distance })
            .collect();
        Self {
            url,
            host,
            title,
            description,
            snippet,
            score,
            crawled_at,
            status_code,
            item,
            simhash,
            duplicates,
        }
    }
}
