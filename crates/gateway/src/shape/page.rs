//! Pages that were found, as programs see them.

use crawlway_store::pages;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SearchResults)]
pub struct Results {
    /// How many pages match, those folded included.
    pub total: u64,
    /// The hits of this part, best first.
    pub hits: Vec<Hit>,
    /// Where the next part begins, if there is one.
    pub next_offset: Option<usize>,
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    /// Its URL.
    pub url: String,
    /// Its host.
    pub host: String,
    /// Its title.
    pub title: String,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A part of its text in which the words of the query are marked: HTML in which everything is escaped but `<mark>`.
    pub snippet: String,
    /// How well it fits; only comparable within one search.
    pub score: f32,
    /// When it was crawled.
    #[schema(format = DateTime)]
    pub crawled_at: String,
    /// The status it was answered with.
    pub status_code: u16,
    /// The item that brought it.
    pub item: String,
    /// The SimHash of its text.
    pub simhash: i64,
    /// Near-duplicates that were folded into it, best first, some of them.
    pub duplicates: Vec<Duplicate>,
}

/// How much was removed from the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedPages {
    /// How many pages were there, and are no more.
    pub removed: u64,
}

/// A hit that was folded into a better one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Duplicate {
    /// Its URL.
    pub url: String,
    /// Its title.
    pub title: String,
    /// In how many bits its SimHash differs.
    pub distance: u32,
}

impl From<pages::Results> for Results {
    fn from(results: pages::Results) -> Self {
        let pages::Results { total, hits, next_offset } = results;
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
