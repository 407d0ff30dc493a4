//! Entries of the frontier: how URLs are added, claimed, settled and listed.

use super::CrawlId;
use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A URL to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUrl {
    /// Id of its item, in all queues and stages. Later ids sort after earlier ones.
    pub item: String,
    /// The URL, in its normal form.
    pub url: String,
    /// Unit of rate limiting, usually the URL's host.
    pub host: String,
    /// Link depth: distance from a seed.
    pub depth: u32,
    /// Number of links in a row, up to this one, between URLs of the same kind, for the detection of crawler traps.
    pub chain: u32,
    /// Item of the referring page; `None` for a seed.
    pub found_on: Option<String>,
    /// The page is indexed under this URL even if it names another canonical URL.
    pub ignore_canonical: bool,
    /// The URL is exempt from the limits on pending URLs: a user asked for it, or it replaces a URL that is no longer
    /// pending.
    pub ignore_limit: bool,
    /// The budget that it counts against.
    pub budget: Option<UrlBudget>,
}

/// Reason in [`super::CrawlCounts::left_out`] for URLs beyond the limits on pending URLs.
pub const TOO_MANY_PENDING: &str = "too_many_waiting";

/// Limit on the URLs of one kind: the protection against crawler traps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlBudget {
    /// The kind, unique within the crawl.
    pub kind: String,
    /// Maximum number of URLs of this kind.
    pub max: u64,
    /// Reason in [`super::CrawlCounts::left_out`] for URLs beyond the budget.
    pub reason: String,
}

/// Outcome of adding a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddOutcome {
    /// The URL was added and is pending.
    New,
    /// The crawl has this URL already.
    Duplicate,
    /// The URL was not added: its budget is used up, or too many URLs are pending.
    OverBudget,
}

/// Receipt of one claim of one URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Number of the URL, internal to the frontier.
    pub entry: u64,
    /// Number of the claim, unique for this URL.
    pub claim: u64,
}

/// A URL claimed by a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedUrl {
    /// Receipt to settle it with.
    pub receipt: Receipt,
    /// Its crawl.
    pub crawl: CrawlId,
    /// Current revision of the crawl's settings.
    pub revision: u64,
    /// The item's id.
    pub item: String,
    /// The URL.
    pub url: String,
    /// Its host, as added.
    pub host: String,
    /// Link depth.
    pub depth: u32,
    /// Number of links in a row between URLs of the same kind.
    pub chain: u32,
    /// The page is indexed under this URL even if it names another canonical URL.
    pub ignore_canonical: bool,
    /// Number of the attempt, from 1. Retries count; deferrals and lost workers do not.
    pub attempt: u32,
    /// Number of workers lost while they held it, which makes it suspect: see [`crate::suspects`].
    pub losses: u32,
    /// Number of replays.
    pub replays: u32,
    /// Error of the last failed attempt.
    pub last_error: Option<String>,
    /// Validators of the last fetch.
    pub validators: Validators,
    /// End of the lease.
    pub lease_until: Timestamp,
}

/// HTTP validators of the last fetch, for a conditional request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Validators {
    /// Its `ETag`, verbatim.
    pub etag: Option<String>,
    /// Its `Last-Modified`, verbatim.
    pub last_modified: Option<String>,
}

/// Verdict on a claimed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlVerdict {
    /// The URL is done, at least until it is reopened.
    Done {
        /// Outcome, counted in [`super::CrawlCounts::outcomes`].
        outcome: String,
        /// Facts about the page, which replace those of the last fetch.
        facts: PageFacts,
        /// Delay of its host in this crawl. A longer delay in force stays.
        host_delay: Duration,
    },
    /// The attempt failed and counts: retry after a delay. After the last attempt the URL is dead.
    Retry {
        /// Minimum delay before the retry.
        after: Duration,
        /// Error of the attempt.
        error: String,
        /// Delay of its host.
        host_delay: Duration,
    },
    /// The rate limiter reserved a slot: retry at this time, before all other URLs of its host. The whole host is
    /// deferred. Does not count as an attempt.
    ///
    /// If other URLs of the host came first, they would get later slots, until all pending URLs were deferred and none
    /// fetched.
    Defer {
        /// Time of the next attempt.
        until: Timestamp,
    },
    /// This URL alone is deferred; its host is not. Does not count as an attempt.
    Wait {
        /// Time of the next attempt.
        until: Timestamp,
    },
    /// The URL is dead: no further attempt can succeed.
    Dead {
        /// Reason.
        reason: String,
        /// Delay of its host.
        host_delay: Duration,
    },
}

/// Facts about a page, kept for its next fetch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageFacts {
    /// Whether it was fetched and counts towards the page limit. A URL counts once, however often it is fetched.
    pub fetched: bool,
    /// Validators for the next conditional request.
    pub validators: Validators,
    /// Canonical URL named by the page, if the page was skipped in favour of it.
    pub canonical: Option<String>,
    /// When the page was crawled, for [`Reopen::CrawledBefore`]; `None` excludes it from that.
    pub crawled_at: Option<Timestamp>,
    /// Links of the page, encoded by the flow; opaque to the store. `None` keeps the stored ones.
    pub links: Option<String>,
}

/// Selection of URLs to be made pending again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reopen {
    /// Done URLs that were crawled at this time or before.
    CrawledBefore(Timestamp),
    /// Done URLs with this outcome.
    Outcome(String),
    /// Done and fetched URLs without stored links. Their validators are cleared, so that the response is complete.
    WithoutLinks,
    /// All done URLs, ahead of the pending ones. Their validators are cleared, so that the response is complete.
    All,
    /// These URLs as far as they are done or dead, ahead of the pending ones.
    Urls(Vec<String>),
}

/// A done page of a crawl with its links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLinks {
    /// Pagination cursor of this page.
    pub cursor: u64,
    /// The item's id.
    pub item: String,
    /// The URL.
    pub url: String,
    /// Link depth.
    pub depth: u32,
    /// Number of links in a row between URLs of the same kind.
    pub chain: u32,
    /// [`PageFacts::links`] of the page.
    pub links: String,
}

/// Filter on the URLs of a crawl. All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryFilter {
    /// State.
    pub state: Option<EntryState>,
    /// Outcome of done URLs.
    pub outcome: Option<String>,
}

/// One page of the list of a crawl's URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// The URLs, in the order in which they were added.
    pub entries: Vec<Entry>,
    /// Pagination cursor of the next page; `None` at the end.
    pub next: Option<u64>,
}

/// Outcome of settling a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlSettleOutcome {
    /// Done.
    Done,
    /// Pending, for its next attempt.
    Retrying {
        /// Number of the next attempt: 2 after the first failure.
        attempt: u32,
    },
    /// Pending, without an attempt counted.
    Deferred,
    /// Dead, by verdict or after the last attempt.
    Dead,
}

/// Entry of the frontier: a URL of one crawl with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The crawl.
    pub crawl: CrawlId,
    /// The item's id.
    pub item: String,
    /// The URL.
    pub url: String,
    /// Its host.
    pub host: String,
    /// Link depth.
    pub depth: u32,
    /// Item of the referring page.
    pub found_on: Option<String>,
    /// When it was added.
    pub added_at: Timestamp,
    /// State.
    pub state: EntryState,
    /// When the next attempt of a pending URL is due.
    pub due: Option<Timestamp>,
    /// When a done URL was crawled.
    pub crawled_at: Option<Timestamp>,
    /// Number of attempts since it was added, reopened or replayed.
    pub attempts: u32,
    /// Outcome, or the last error.
    pub outcome: Option<String>,
    /// Canonical URL named by the page, if the page was skipped in favour of it.
    pub canonical: Option<String>,
}

/// State of a URL in the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// Pending.
    Waiting,
    /// Claimed by a worker.
    InFlight,
    /// Done.
    Done,
    /// Dead.
    Dead,
}

/// A dead URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadUrl {
    /// The item's id.
    pub item: String,
    /// The crawl.
    pub crawl: CrawlId,
    /// The URL.
    pub url: String,
    /// Why it is dead.
    pub reason: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of earlier replays.
    pub replays: u32,
    /// First error since it was added, reopened or replayed.
    pub first_error: Option<String>,
    /// Last error; the reason itself if the worker declared it dead.
    pub last_error: Option<String>,
    /// Whether it is dead because it crashed its workers in solo runs.
    pub worker_lost: bool,
    /// When it became dead.
    pub dead_at: Timestamp,
}

/// One page of the list of dead URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadUrls {
    /// The dead URLs, oldest first.
    pub urls: Vec<DeadUrl>,
    /// Pagination cursor of the next page; `None` at the end.
    pub next: Option<String>,
}
