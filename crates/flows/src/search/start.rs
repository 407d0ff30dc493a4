//! Starting or resuming a crawl.

use super::{
    Definition, DefinitionState, Export,
    crawl::{DISALLOWED, new_url},
    definition::update_definition,
    rescan::rescan,
};
use crawlway_clock::Timestamp;
use crawlway_content::NormalUrl;
use crawlway_store::{
    CrawlId, Frontier, SeenUrls, StoreError,
    frontier::{
        AddOutcome, Crawl, CrawlState, EntryFilter, EntryState, NewCrawl, NewSettings, NewUrl, Reopen,
        TOO_MANY_PENDING,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Number of URLs per store call.
const PAGE_SIZE: usize = 500;

/// Request to start or resume a crawl.
#[derive(Debug, Clone)]
pub struct CrawlRequest {
    /// Name; `None` for the default name of its seeds.
    pub name: Option<CrawlId>,
    /// Definition.
    pub definition: Definition,
    /// Whether all pages are fetched again, even recently fetched ones.
    pub fresh: bool,
    /// Export file, if pages do not go into the index.
    pub file: Option<Arc<Export>>,
}

impl CrawlRequest {
    /// Request with this definition, under the default name.
    pub fn new(definition: Definition) -> Self {
        Self { name: None, definition, fresh: false, file: None }
    }

    /// Name of the crawl.
    pub fn name(&self) -> CrawlId {
        self.name.clone().unwrap_or_else(|| self.definition.default_name())
    }
}

/// Started or resumed crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedCrawl {
    /// Crawl after the start.
    pub crawl: Crawl,
    /// Whether it is new, not resumed.
    pub new: bool,
    /// Number of added URLs: seeds, and links of a wider scope.
    pub added: u64,
    /// Number of reopened URLs: seeds, due pages and failed ones.
    pub reopened: u64,
    /// Number of pages that are not fetched again, since they are recent.
    pub recent: u64,
    /// Number of URLs done before the start, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Whether all pages are fetched again because earlier ones were exported to a file instead of the index.
    pub was_not_indexed: bool,
    /// Whether the sitemaps could not all be read.
    pub sitemaps_unread: bool,
}

/// Starts a crawl, or resumes the one of this name with the settings given now: known URLs stay known, failed ones are
/// retried, and pages due for a re-crawl are crawled again. Idempotent, so it may be repeated after a failure.
///
/// The definition must be checked. On return the crawl and its seeds are durable. Sitemaps are read by
/// [`add_sitemaps`](super::add_sitemaps), then or later.
pub async fn start_crawl(
    frontier: &dyn Frontier,
    seen: &dyn SeenUrls,
    asked: &CrawlRequest,
) -> Result<StartedCrawl, StoreError> {
    let now = Timestamp::now();
    let id = asked.name();
    let opened = loop {
        if let Some(opened) = open_crawl(frontier, &id, asked, now).await? {
            break opened;
        }
    };
    let Opened { crawl: before, new, was_not_indexed } = opened;
    let definition: Definition = serde_json::from_str(&before.definition).unwrap_or(asked.definition.clone());
    if matches!(before.state, CrawlState::Paused | CrawlState::Cancelled) {
        frontier.set_state(&id, CrawlState::Running).await?;
    }
    let (mut again, crashed) =
        if new { (0, BTreeSet::new()) } else { retry_dead(frontier, &id, asked.fresh).await? };
    let seeds: Vec<NewUrl> = definition
        .seeds
        .iter()
        .filter_map(|seed| seed.parse::<NormalUrl>().ok())
        .map(|seed| NewUrl { ignore_limit: true, ..new_url(seed, 0, 0, None) })
        .collect();
    let mut added = add(frontier, &id, &seeds).await?;
    if !new {
        let resume = Resume { frontier, seen, asked, id: &id, definition: &definition, now };
        again += resume.reopen_seeds(&crashed).await?;
        added += resume.rescan().await?;
        again += resume.reopen_pages(asked.fresh || was_not_indexed).await?;
        again += frontier.reopen(&id, &Reopen::Outcome(DISALLOWED.to_owned())).await?;
    }
    let crawl = frontier.crawl(&id).await?.unwrap_or(before.clone());
    let recent = crawl.counts.done.min(before.counts.done);
    Ok(StartedCrawl {
        crawl,
        new,
        added,
        reopened: again,
        recent,
        outcomes: before.counts.outcomes,
        was_not_indexed,
        sitemaps_unread: false,
    })
}

/// Resumption of an existing crawl.
struct Resume<'a> {
    frontier: &'a dyn Frontier,
    seen: &'a dyn SeenUrls,
    asked: &'a CrawlRequest,
    id: &'a CrawlId,
    definition: &'a Definition,
    now: Timestamp,
}

impl Resume<'_> {
    /// Reopens the seeds, except those that crashed their workers. Returns their number.
    async fn reopen_seeds(&self, crashed: &BTreeSet<String>) -> Result<u64, StoreError> {
        let seeds = self.definition.seeds.iter().filter(|seed| !crashed.contains(*seed)).cloned().collect();
        self.frontier.reopen(self.id, &Reopen::Urls(seeds)).await
    }

    /// Rescans the links of known pages if the scope has changed. Returns the number of new and reopened URLs.
    async fn rescan(&self) -> Result<u64, StoreError> {
        if !self.definition.state.rescan {
            return Ok(0);
        }
        let added = rescan(self.frontier, self.id, self.definition, self.now).await?;
        let done = |stored: &mut Definition| stored.state.rescan &= stored.has_same_scope(self.definition);
        update_definition(self.frontier, self.id, done).await?;
        Ok(added)
    }

    /// Reopens all pages, or those that are due or missing. Returns their number.
    async fn reopen_pages(&self, all: bool) -> Result<u64, StoreError> {
        if all {
            let reopened = self.frontier.reopen(self.id, &Reopen::All).await?;
            let is_export = self.asked.file.is_some();
            update_definition(self.frontier, self.id, |stored| stored.state.not_indexed = is_export).await?;
            return Ok(reopened);
        }
        let due = Reopen::CrawledBefore(self.now - self.definition.recrawl_after);
        Ok(self.frontier.reopen(self.id, &due).await? + self.reopen_missing().await?)
    }

    /// Reopens pages that are not due, but missing in the export file, or deleted from the seen-URL store by another
    /// program. Returns their number.
    async fn reopen_missing(&self) -> Result<u64, StoreError> {
        let file = self.asked.file.as_deref();
        let is_shared = self.seen.allows_external_deletes();
        if file.is_none() && !is_shared {
            return Ok(0);
        }
        let marked_since = (self.now - self.definition.recrawl_after)
            .max(Timestamp::from_millis(self.definition.state.marked_since));
        let done = EntryFilter { state: Some(EntryState::Done), outcome: None };
        let (mut reopened, mut after) = (0, None);
        loop {
            let page = self.frontier.entries(self.id, &done, after, PAGE_SIZE).await?;
            let (mut missing, mut marked) = (Vec::new(), Vec::new());
            for entry in page.entries {
                let has_page = matches!(entry.outcome.as_deref(), Some("published" | "unchanged" | "seen"));
                if has_page && file.is_some_and(|file| !file.has(&entry.url)) {
                    missing.push(entry.url);
                } else if entry.crawled_at.is_some_and(|at| at > marked_since) {
                    marked.push(entry.url);
                }
            }
            if is_shared {
                let known = self.seen.contains(&marked).await?;
                let deleted = marked.into_iter().zip(known).filter(|(_, known)| !known);
                missing.extend(deleted.map(|(url, _)| url));
            }
            if !missing.is_empty() {
                reopened += self.frontier.reopen(self.id, &Reopen::Urls(missing)).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(reopened);
            }
        }
    }
}

/// Opened crawl.
struct Opened {
    /// Crawl before its URLs are reopened.
    crawl: Crawl,
    /// Whether it was created.
    new: bool,
    /// Whether the index may lack earlier pages, and is to get them now.
    was_not_indexed: bool,
}

/// Creates the crawl, or updates the settings of the existing one by compare-and-swap. `None` if another process changed it
/// at the same time.
async fn open_crawl(
    frontier: &dyn Frontier,
    id: &CrawlId,
    asked: &CrawlRequest,
    now: Timestamp,
) -> Result<Option<Opened>, StoreError> {
    let mut definition = asked.definition.clone();
    definition.state = DefinitionState {
        seeds_given_at: now.as_millis(),
        // An export file gets recent pages of other crawls too.
        fresh_since: (asked.fresh || asked.file.is_some()).then_some(now.as_millis()),
        not_indexed: asked.file.is_some(),
        sitemaps_unread: definition.sitemaps,
        ..DefinitionState::default()
    };
    let Some(stored) = frontier.crawl(id).await? else {
        let new =
            NewCrawl { id: id.clone(), definition: definition.to_json(), max_pages: definition.max_pages };
        let (crawl, is_new) = frontier.open_crawl(&new).await?;
        return Ok(is_new.then_some(Opened { crawl, new: true, was_not_indexed: false }));
    };
    let mut was_not_indexed = false;
    if let Ok(before) = serde_json::from_str::<Definition>(&stored.definition) {
        was_not_indexed = before.state.not_indexed && asked.file.is_none();
        // URLs dropped because too many were pending are found again in the stored links.
        let has_room = frontier.policy().max_pending_of_crawl(definition.max_pages) > stored.counts.waiting;
        let has_dropped = stored.counts.left_out.contains_key(TOO_MANY_PENDING);
        definition.state.rescan = has_dropped && has_room;
        carry_over(&mut definition, before, asked, now);
    }
    let new = NewSettings {
        expected_revision: stored.revision,
        definition: definition.to_json(),
        max_pages: definition.max_pages,
    };
    Ok(frontier.update_settings(id, &new).await?.map(|crawl| Opened { crawl, new: false, was_not_indexed }))
}

/// Carries the state of an earlier start over to the new definition.
fn carry_over(definition: &mut Definition, before: Definition, asked: &CrawlRequest, now: Timestamp) {
    let is_same_scope = before.has_same_scope(definition);
    let is_longer = definition.recrawl_after > before.recrawl_after;
    let (state, before) = (&mut definition.state, before.state);
    state.rescan |= before.rescan || !is_same_scope;
    if before.not_indexed && asked.file.is_none() {
        // Until all pages are reopened.
        state.not_indexed = true;
        state.fresh_since = Some(now.as_millis());
    }
    // An earlier fresh start may be incomplete.
    state.fresh_since = state.fresh_since.or(before.fresh_since);
    // An interrupted start continues with its unread sitemaps, unless they may have changed since.
    let given_at = Timestamp::from_millis(before.seeds_given_at);
    let continues = before.sitemaps_unread && now.since(given_at) < definition.recrawl_after;
    if continues && !state.rescan && !asked.fresh {
        state.sitemaps_read = before.sitemaps_read;
    }
    state.joined_hosts = before.joined_hosts;
    state.marked_since = if is_longer { now.as_millis() } else { before.marked_since };
}

/// Replays the dead letters of a crawl, and returns their number. Without `fresh`, URLs that crashed their workers stay dead
/// and are returned: a supervisor that restarts the crawl must not cause a crash loop.
async fn retry_dead(
    frontier: &dyn Frontier,
    id: &CrawlId,
    fresh: bool,
) -> Result<(u64, BTreeSet<String>), StoreError> {
    let (mut replayed, mut crashed, mut after) = (0, BTreeSet::new(), None);
    loop {
        let dead = frontier.dead(Some(id), after.as_deref(), PAGE_SIZE).await?;
        let (stay, again): (Vec<_>, Vec<_>) =
            dead.urls.into_iter().partition(|url| url.worker_lost && !fresh);
        crashed.extend(stay.into_iter().map(|url| url.url));
        let items: Vec<String> = again.into_iter().map(|url| url.item).collect();
        replayed +=
            frontier.replay(&items).await?.into_iter().filter(|is_replayed| *is_replayed).count() as u64;
        match dead.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    if !crashed.is_empty() {
        tracing::warn!(
            crawl = %id,
            pages = crashed.len(),
            "pages that crashed their workers stay dead letters; `crawlway dead replay frontier --cause worker-lost` tries them again"
        );
    }
    Ok((replayed, crashed))
}

/// Migration: renames crawls of earlier releases, which were named by a hash of their settings, to their default names. Of
/// several with the same seeds the newest gets the name, the others keep a part of the hash.
pub async fn migrate_crawl_names(frontier: &dyn Frontier) -> Result<(), StoreError> {
    let mut crawls: Vec<Crawl> = Vec::new();
    loop {
        let more = frontier.crawls(crawls.last().map(|crawl| &crawl.id), PAGE_SIZE).await?;
        let is_last = more.len() < PAGE_SIZE;
        crawls.extend(more);
        if is_last {
            break;
        }
    }
    for crawl in crawls {
        let hash = crawl.id.as_str();
        let is_hash = hash.len() == 16 && hash.bytes().all(|octet| octet.is_ascii_hexdigit());
        let Ok(definition) = serde_json::from_str::<Definition>(&crawl.definition) else { continue };
        if !is_hash || definition.state.seeds_given_at > 0 {
            continue;
        }
        let name = definition.default_name();
        let short: String = name.as_str().chars().take(55).collect();
        if !frontier.rename_crawl(&crawl.id, &name).await?
            && let Ok(other) = CrawlId::new(&format!("{short}-{}", &hash[..8]))
        {
            frontier.rename_crawl(&crawl.id, &other).await?;
        }
    }
    Ok(())
}

/// Adds URLs in batches, and returns the number of new ones.
pub(super) async fn add(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    urls: &[NewUrl],
) -> Result<u64, StoreError> {
    let mut added = 0;
    for urls in urls.chunks(PAGE_SIZE) {
        let answers = frontier.add(crawl, urls).await?;
        added += answers.iter().filter(|answer| **answer == AddOutcome::New).count() as u64;
    }
    Ok(added)
}
