//! JSON of trails.

use crawlway_content::NormalUrl;
use crawlway_store::{
    AttemptEnd, Timestamp, TrailEntry,
    frontier::{Entry, EntryState},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Trails of an item or a URL, and its frontier entries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Trails {
    /// Trails by item, the one with the latest entry first.
    pub items: Vec<ItemTrail>,
    /// State of the URL in each crawl.
    pub frontier: Vec<FrontierEntry>,
}

/// Trail of an item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ItemTrail {
    /// Item id.
    pub item: String,
    /// Whether processing of the item has ended.
    pub closed: bool,
    /// Entries, the oldest first.
    pub entries: Vec<TrailEntryView>,
}

/// Trail entry: an attempt of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TrailStep)]
pub struct TrailEntryView {
    /// Item id.
    pub item: String,
    /// Subject of the item, such as its URL.
    pub subject: Option<String>,
    /// Flow.
    pub flow: String,
    /// Stage.
    pub stage: String,
    /// Time at which the attempt ended.
    #[schema(format = DateTime)]
    pub at: String,
    /// Result of the attempt: `done`, `passed`, `retried`, `deferred`, `waited`, `dead` or `replayed`.
    #[schema(value_type = String)]
    pub end: AttemptEnd,
    /// Outcome as named by the stage.
    pub outcome: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Duration of the attempt.
    pub took_ms: u64,
    /// Worker process.
    pub worker: String,
    /// Number of earlier replays.
    pub replays: u32,
    /// Details of an attempt that did not fail.
    pub note: Option<String>,
    /// Error message.
    pub error: Option<String>,
}

/// Frontier entry: a URL in a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FrontierEntry {
    /// Name of the crawl.
    pub crawl: String,
    /// Item id.
    pub item: String,
    /// URL.
    pub url: String,
    /// Host.
    pub host: String,
    /// Number of links from a seed.
    pub depth: u32,
    /// Item of the page that links to it.
    pub found_on: Option<String>,
    /// Time at which it was added.
    #[schema(format = DateTime)]
    pub added_at: String,
    /// State: `waiting` (pending), `in_flight`, `done` or `dead`.
    #[schema(value_type = String)]
    pub state: EntryState,
    /// Time of the next attempt of a pending URL.
    #[schema(format = DateTime)]
    pub due: Option<String>,
    /// Time of the crawl of a done URL.
    #[schema(format = DateTime)]
    pub crawled_at: Option<String>,
    /// Number of attempts.
    pub attempts: u32,
    /// Outcome, or the last error.
    pub outcome: Option<String>,
    /// Canonical URL of the page, if the page was excluded for it.
    pub canonical: Option<String>,
}

impl ItemTrail {
    /// Trail of these entries of one item; `None` if there are none.
    pub fn new(entries: Vec<TrailEntry>) -> Option<Self> {
        let item = entries.first()?.item.clone();
        let last = |closes: bool| {
            entries.iter().filter(|entry| entry.end.is_terminal() == closes).map(|entry| entry.at).max()
        };
        let closed = last(true) >= last(false) && last(true).is_some();
        Some(Self { item, closed, entries: entries.into_iter().map(TrailEntryView::from).collect() })
    }
}

impl From<TrailEntry> for TrailEntryView {
    fn from(entry: TrailEntry) -> Self {
        let TrailEntry {
            item,
            subject,
            flow,
            stage,
            at,
            end,
            outcome,
            attempt,
            took_ms,
            worker,
            replays,
            note,
            error,
        } = entry;
        let at = at.to_iso();
        Self { item, subject, flow, stage, at, end, outcome, attempt, took_ms, worker, replays, note, error }
    }
}

impl From<Entry> for FrontierEntry {
    fn from(entry: Entry) -> Self {
        let Entry {
            crawl,
            item,
            url,
            host: _,
            depth,
            found_on,
            added_at,
            state,
            due,
            crawled_at,
            attempts,
            outcome,
            canonical,
        } = entry;
        let host = url.parse::<NormalUrl>().map(|url| url.host().to_owned()).unwrap_or_default();
        Self {
            crawl: crawl.to_string(),
            item,
            url,
            host,
            depth,
            found_on,
            added_at: added_at.to_iso(),
            state,
            due: due.map(Timestamp::to_iso),
            crawled_at: crawled_at.map(Timestamp::to_iso),
            attempts,
            outcome,
            canonical,
        }
    }
}
