//! A URL of a crawl: how it is added, taken, settled and looked at.

use super::CrawlId;
use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A URL to be crawled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUrl {
    /// The id under which it goes through all queues and stages. Later ids sort after earlier ones.
    pub item: String,
    /// The URL, in its normal form.
    pub url: String,
    /// Whom we must not hammer, usually the URL's host.
    pub host: String,
    /// How many links it is away from a seed.
    pub depth: u32,
    /// How many links in a row, up to this one, led to URLs of the same kind as theirs.
    pub chain: u32,
    /// The item on whose page it was found; `None` for a seed.
    pub found_on: Option<String>,
    /// The page is wanted under this URL, even if it names another as the proper one.
    pub insist: bool,
    /// It is taken however many wait: somebody has asked for it, or it stands in for a page that does not wait any more.
    pub in_any_case: bool,
    /// The budget that it is charged to, if there is one.
    pub budget: Option<Budget>,
}

/// Under which name a URL is counted in [`super::CrawlCounts::left_out`] for which too many wait already.
pub const TOO_MANY_WAITING: &str = "too_many_waiting";

/// So many URLs of one kind, and no more: the guard against sites that make up URLs without end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The kind, unique within the crawl.
    pub kind: String,
    /// How many URLs of this kind there may be.
    pub most: u64,
    /// Under which name a URL that is too many is counted in [`super::CrawlCounts::left_out`].
    pub reason: String,
}

/// What became of a URL that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It waits.
    New,
    /// The crawl knew it.
    Known,
    /// Its budget was used up, or too many wait already. It is not known, and charged nothing.
    OverBudget,
}

/// Names one taking of one URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Which URL; the frontier that made it knows what the number means.
    pub entry: u64,
    /// Which taking of it, unlike any other of this URL.
    pub taking: u64,
}

/// A URL, for now its worker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Settles it.
    pub receipt: Receipt,
    /// Its crawl.
    pub crawl: CrawlId,
    /// The revision of the crawl's terms that is in force.
    pub revision: u64,
    /// The item's id.
    pub item: String,
    /// The URL.
    pub url: String,
    /// Its host, as it was added.
    pub host: String,
    /// How many links it is away from a seed.
    pub depth: u32,
    /// How many links in a row led to URLs of the same kind.
    pub chain: u32,
    /// The page is wanted under this URL, even if it names another as the proper one.
    pub insist: bool,
    /// Which attempt this is, from 1. Retries count; deferrals and lost workers don't.
    pub attempt: u32,
    /// How many workers were lost with it, which makes it suspect: see [`crate::suspects`].
    pub losses: u32,
    /// How often it was replayed.
    pub replays: u32,
    /// How the previous attempt ended, if one failed.
    pub last_error: Option<String>,
    /// What the page was when it was last fetched.
    pub validators: Validators,
    /// When the lease ends.
    pub lease_until: Timestamp,
}

/// What a page was when it was last fetched, for a conditional request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Validators {
    /// Its `ETag`, verbatim.
    pub etag: Option<String>,
    /// Its `Last-Modified`, verbatim.
    pub last_modified: Option<String>,
}

/// How a taking ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It is done, at least until it is due again.
    Done {
        /// What became of it, in a word; counted in [`super::CrawlCounts::outcomes`].
        outcome: String,
        /// What is kept of the page. Replaces what was kept before.
        facts: PageFacts,
        /// How long its host is left alone, in this crawl; a longer rest that it has already stays.
        rest: Duration,
    },
    /// The attempt failed: again after a while. Counts; after the last attempt the URL is dead.
    Retry {
        /// How long to wait at least.
        after: Duration,
        /// What went wrong.
        error: String,
        /// How long its host is left alone.
        rest: Duration,
    },
    /// It is not its turn: again at this time, before all others of its host, and nothing of its host before. Counts
    /// nothing.
    ///
    /// The gate has given it a slot. If others came first then, they would be given later ones, until all that wait
    /// have been deferred and none was fetched.
    Defer {
        /// When.
        until: Timestamp,
    },
    /// Something holds it up, and it alone: again at this time. Its host goes on. Counts nothing.
    Wait {
        /// When.
        until: Timestamp,
    },
    /// No further attempt can help.
    Dead {
        /// Why.
        reason: String,
        /// How long its host is left alone.
        rest: Duration,
    },
}

/// What is kept of a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageFacts {
    /// It was fetched, and counts for the page limit. A URL counts once, however often it is fetched.
    pub fetched: bool,
    /// For a conditional request next time.
    pub validators: Validators,
    /// The URL that the page names as the proper one, if that is another and the page was left out for it.
    pub canonical: Option<String>,
    /// When the page was crawled, for [`Reopen::CrawledBefore`]; `None` if it is not to be crawled again by that.
    pub crawled_at: Option<Timestamp>,
    /// The links of the page, encoded by the flow; never looked into. `None` keeps those of before.
    pub links: Option<String>,
}

/// Which URLs of a crawl are made to wait again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reopen {
    /// What is done and was crawled at this time or before.
    CrawledBefore(Timestamp),
    /// What is done with this outcome.
    Outcome(String),
    /// What is done and was fetched, but has no links kept. Its validators are forgotten, so that it is sent whole.
    WithoutLinks,
    /// Everything that is done, before what waits. Its validators are forgotten, so that it is sent whole.
    All,
    /// These URLs, as far as they are done or dead, before what waits.
    Urls(Vec<String>),
}

/// A page of a crawl that is done, and its links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLinks {
    /// Its place in the list: ask for what comes after this to go on.
    pub place: u64,
    /// The item's id.
    pub item: String,
    /// The URL.
    pub url: String,
    /// How many links it is away from a seed.
    pub depth: u32,
    /// How many links in a row led to URLs of the same kind.
    pub chain: u32,
    /// What [`PageFacts::links`] held.
    pub links: String,
}

/// Which URLs of a crawl are listed: those that fit all that is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryFilter {
    /// Where they are.
    pub state: Option<EntryState>,
    /// What became of those that are done.
    pub outcome: Option<String>,
}

/// Some URLs of a crawl, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// The URLs, in the order in which they were added.
    pub entries: Vec<Entry>,
    /// Ask for what comes after this to go on; `None` at the end.
    pub next: Option<u64>,
}

/// What became of a URL that was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettledAs {
    /// Done.
    Done,
    /// Waits for its next attempt, which has this number.
    Retrying {
        /// 2 after the first failure.
        attempt: u32,
    },
    /// Waits for its turn.
    Deferred,
    /// Dead, be it by verdict or because it was the last attempt.
    Dead,
}

/// What is known of a URL in one crawl.
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
    /// How many links it is away from a seed.
    pub depth: u32,
    /// The item on whose page it was found.
    pub found_on: Option<String>,
    /// When it was added.
    pub added_at: Timestamp,
    /// Where it is.
    pub state: EntryState,
    /// When the next attempt of what waits is due.
    pub due: Option<Timestamp>,
    /// When what is done was crawled.
    pub crawled_at: Option<Timestamp>,
    /// How many attempts were made since it last began to wait anew.
    pub attempts: u32,
    /// What became of it, or what went wrong last.
    pub outcome: Option<String>,
    /// The URL that the page named as the proper one, if it was left out for that.
    pub canonical: Option<String>,
}

/// Where a URL is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// It waits.
    Waiting,
    /// Somebody is at it.
    InFlight,
    /// It is done.
    Done,
    /// It was given up.
    Dead,
}

/// A URL that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadUrl {
    /// The item's id.
    pub item: String,
    /// The crawl.
    pub crawl: CrawlId,
    /// The URL.
    pub url: String,
    /// Why it was given up.
    pub reason: String,
    /// How many attempts were made.
    pub attempts: u32,
    /// How often it had been replayed before.
    pub replays: u32,
    /// What went wrong first, since it last began to wait anew.
    pub first_error: Option<String>,
    /// What went wrong last; the reason itself, if its worker gave it up.
    pub last_error: Option<String>,
    /// It took its workers with it while they ran nothing else, and died of that.
    pub worker_lost: bool,
    /// When it was given up.
    pub dead_at: Timestamp,
}

/// Some of the dead, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadUrls {
    /// The dead, oldest first.
    pub urls: Vec<DeadUrl>,
    /// Ask for what comes after this to go on; `None` at the end.
    pub next: Option<String>,
}
