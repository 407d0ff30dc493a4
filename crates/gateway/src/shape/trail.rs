//! Trails as programs see them.

use crawlway_content::NormalUrl;
use crawlway_store::{
    End, Timestamp, TrailEntry,
    frontier::{Entry, EntryState},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What happened to an item or a URL, and where it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Trails {
    /// The trails of the items, the one with the latest entry first.
    pub items: Vec<ItemTrail>,
    /// Where the URL stands in each crawl that knows it.
    pub frontier: Vec<FrontierEntry>,
}

/// The trail of one item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ItemTrail {
    /// The item's id.
    pub item: String,
    /// Whether nothing more is to happen to it.
    pub closed: bool,
    /// What happened, the oldest first.
    pub entries: Vec<TrailStep>,
}

/// One attempt of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrailStep {
    /// The item's id.
    pub item: String,
    /// What the item is about, such as its URL.
    pub subject: Option<String>,
    /// The flow.
    pub flow: String,
    /// The stage.
    pub stage: String,
    /// When the attempt ended.
    #[schema(format = DateTime)]
    pub at: String,
    /// How it ended, for programs: `done`, `passed`, `retried`, `deferred`, `waited`, `dead` or `replayed`.
    #[schema(value_type = String)]
    pub end: End,
    /// How it ended, in the stage's own words.
    pub outcome: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How long it took.
    pub took_ms: u64,
    /// The process that made it.
    pub worker: String,
    /// How often the item had been replayed by then.
    pub replays: u32,
    /// More about an attempt that did not fail: what came of it, or why the item waits.
    pub note: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// Where a URL stands in a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FrontierEntry {
    /// The crawl.
    pub crawl: String,
    /// The item's id.
    pub item: String,
    /// The URL.
    pub url: String,
    /// Its host.
    pub host: String,
    /// How many links it is away from a seed.
    pub depth: u32,
    /// The item on whose page it was found.
    pub found_on: Option<String>,
    /// When it was added.
    #[schema(format = DateTime)]
    pub added_at: String,
    /// `waiting`, `in_flight`, `done` or `dead`.
    #[schema(value_type = String)]
    pub state: EntryState,
    /// When the next attempt of what waits is due.
    #[schema(format = DateTime)]
    pub due: Option<String>,
    /// When what is done was crawled.
    #[schema(format = DateTime)]
    pub crawled_at: Option<String>,
    /// How many attempts were made.
    pub attempts: u32,
    /// What became of it, or what went wrong last.
    pub outcome: Option<String>,
    /// The URL that the page named as the proper one, if it was left out for that.
    pub canonical: Option<String>,
}

impl ItemTrail {
    /// The trail of the item that these entries are of; `None` of none.
    pub fn new(entries: Vec<TrailEntry>) -> Option<Self> {
        let item = entries.first()?.item.clone();
        let last = |closes: bool| {
            entries.iter().filter(|entry| entry.end.closes() == closes).map(|entry| entry.at).max()
        };
        let closed = last(true) >= last(false) && last(true).is_some();
        Some(Self { item, closed, entries: entries.into_iter().map(TrailStep::from).collect() })
    }
}

impl From<TrailEntry> for TrailStep {
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
