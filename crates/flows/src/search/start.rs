//! Starting a crawl, or going on with one.

use super::{
    Definition, TermsState,
    crawl::new_url,
    rescan::{change_terms, rescan},
    scope::Scope,
};
use crawlway_clock::Timestamp;
use crawlway_content::NormalUrl;
use crawlway_fetch::{Fetcher, Request, SitemapCaps, Waiting};
use crawlway_store::{
    CrawlId, Frontier, StoreError, Ticket,
    frontier::{Added, Crawl, CrawlState, NewCrawl, NewTerms, NewUrl, Reopen},
};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

/// How many URLs are added together.
const TOGETHER: usize = 500;
/// Who asks for a sitemap at the start waits for its turn there.
const SITEMAP_WAIT: Duration = Duration::from_secs(120);

/// A crawl that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its name; `None` for the one that its seeds give it.
    pub name: Option<CrawlId>,
    /// What it is to do now.
    pub definition: Definition,
    /// Whether everything is fetched again, whatever was fetched lately by this or another crawl.
    pub fresh: bool,
}

impl Asked {
    /// A crawl with this definition, under the name that its seeds give it.
    pub fn new(definition: Definition) -> Self {
        Self { name: None, definition, fresh: false }
    }

    /// Its name.
    pub fn name(&self) -> CrawlId {
        self.name.clone().unwrap_or_else(|| self.definition.default_name())
    }
}

/// A crawl that has been started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The crawl as it is now.
    pub crawl: Crawl,
    /// Whether it is new, or one of before that goes on.
    pub new: bool,
    /// How many URLs were added: seeds, links that a wider scope takes in, and pages of sitemaps.
    pub added: u64,
    /// How many URLs of before wait again: seeds, what is due again, and what had failed.
    pub again: u64,
    /// How many pages of before are left as they are, since they were fetched lately.
    pub recent: u64,
    /// How often its URLs had been done, by outcome, before it was started.
    pub outcomes: BTreeMap<String, u64>,
    /// What could not be read of the sitemaps, if they were asked for.
    pub troubles: Vec<String>,
}

/// Why a crawl could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What is asked for cannot be.
    #[error(transparent)]
    Definition(#[from] super::DefinitionError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Starts a crawl, or goes on with the one of this name on the terms that are given now: what it knows stays known, what
/// had failed is tried again, and what is due again is crawled again. Repeating it after a failure is harmless.
pub async fn start(
    frontier: &dyn Frontier,
    fetcher: &Fetcher,
    request: &Request,
    mut asked: Asked,
) -> Result<Started, StartError> {
    asked.definition = asked.definition.checked()?;
    let mut started = begin(frontier, &asked).await?;
    if asked.definition.sitemaps {
        let id = &started.crawl.id;
        let (added, troubles) = add_sitemaps(frontier, fetcher, request, id, &asked.definition).await?;
        started.added += added;
        started.troubles = troubles;
    }
    if let Some(crawl) = frontier.crawl(&started.crawl.id).await? {
        started.crawl = crawl;
    }
    Ok(started)
}

/// The first part of [`start`]: when this returns, the crawl and its seeds are durable. The definition has been
/// checked. Its sitemaps are not read; [`add_sitemaps`] does that, then or later.
pub async fn begin(frontier: &dyn Frontier, asked: &Asked) -> Result<Started, StoreError> {
    let now = Timestamp::now();
    let id = asked.name();
    let (before, new) = loop {
        if let Some(opened) = set_terms(frontier, &id, asked, now).await? {
            break opened;
        }
    };
    let definition: Definition = serde_json::from_str(&before.definition).unwrap_or(asked.definition.clone());
    if matches!(before.state, CrawlState::Paused | CrawlState::Cancelled) {
        frontier.set_state(&id, CrawlState::Running).await?;
    }
    let mut again = if new { 0 } else { retry_dead(frontier, &id).await? };
    let seeds: Vec<NewUrl> = definition
        .seeds
        .iter()
        .filter_map(|seed| seed.parse::<NormalUrl>().ok())
        .map(|seed| new_url(seed, 0, 0, None))
        .collect();
    let mut added = add(frontier, &id, &seeds).await?;
    if !new {
        again += frontier.reopen(&id, &Reopen::Urls(definition.seeds.clone())).await?;
        if definition.state.rescan {
            added += rescan(frontier, &id, &definition, now).await?;
            change_terms(frontier, &id, |terms| terms.state.rescan &= terms.has_same_scope(&definition))
                .await?;
        }
        let due = match asked.fresh {
            true => Reopen::All,
            false => Reopen::CrawledBefore(now - definition.recrawl_after),
        };
        again += frontier.reopen(&id, &due).await?;
    }
    let crawl = frontier.crawl(&id).await?.unwrap_or(before.clone());
    let recent = crawl.counts.done.min(before.counts.done);
    Ok(Started { crawl, new, added, again, recent, outcomes: before.counts.outcomes, troubles: Vec::new() })
}

/// Opens the crawl, or gives the one that exists the terms that are asked for now. Answers it as it is then and whether
/// it is new; `None` if another process changed it meanwhile.
async fn set_terms(
    frontier: &dyn Frontier,
    id: &CrawlId,
    asked: &Asked,
    now: Timestamp,
) -> Result<Option<(Crawl, bool)>, StoreError> {
    let mut definition = asked.definition.clone();
    definition.state = TermsState {
        seeds_given_at: now.as_millis(),
        fresh_since: asked.fresh.then_some(now.as_millis()),
        ..TermsState::default()
    };
    let Some(stored) = frontier.crawl(id).await? else {
        let new =
            NewCrawl { id: id.clone(), definition: definition.to_json(), max_pages: definition.max_pages };
        let (crawl, is_new) = frontier.open_crawl(&new).await?;
        return Ok(is_new.then_some((crawl, true)));
    };
    if let Ok(before) = serde_json::from_str::<Definition>(&stored.definition) {
        definition.state.rescan = before.state.rescan || !before.has_same_scope(&definition);
        // What was to be fetched afresh and was not yet is fetched afresh now.
        definition.state.fresh_since = definition.state.fresh_since.or(before.state.fresh_since);
        definition.state.joined_hosts = before.state.joined_hosts;
    }
    let terms = NewTerms {
        replaces: stored.revision,
        definition: definition.to_json(),
        max_pages: definition.max_pages,
    };
    Ok(frontier.set_terms(id, &terms).await?.map(|crawl| (crawl, false)))
}

/// Makes everything wait again that was given up, and says how many.
async fn retry_dead(frontier: &dyn Frontier, id: &CrawlId) -> Result<u64, StoreError> {
    let mut many = 0;
    loop {
        let dead = frontier.dead(Some(id), None, TOGETHER).await?;
        let items: Vec<String> = dead.urls.into_iter().map(|url| url.item).collect();
        let replayed = frontier.replay(&items).await?.into_iter().filter(|replayed| *replayed).count();
        many += replayed as u64;
        if replayed == 0 || dead.next.is_none() {
            return Ok(many);
        }
    }
}

/// Gives crawls of a release before, which were called by a hash of their terms, the names that their seeds give them. Of
/// several with the same seeds the newest has that name, the others keep a part of the hash.
pub async fn name_crawls(frontier: &dyn Frontier) -> Result<(), StoreError> {
    let mut crawls: Vec<Crawl> = Vec::new();
    loop {
        let more = frontier.crawls(crawls.last().map(|crawl| &crawl.id), TOGETHER).await?;
        let is_last = more.len() < TOGETHER;
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

/// Reads the sitemaps of the seeds' hosts and adds the pages that they name, as far as they are in the scope. Answers
/// how many were new, and what could not be read. Repeating it is harmless.
pub async fn add_sitemaps(
    frontier: &dyn Frontier,
    fetcher: &Fetcher,
    request: &Request,
    crawl: &CrawlId,
    definition: &Definition,
) -> Result<(u64, Vec<String>), StoreError> {
    let (pages, troubles) = sitemaps(fetcher, request, definition).await;
    Ok((add(frontier, crawl, &pages).await?, troubles))
}

async fn add(frontier: &dyn Frontier, crawl: &CrawlId, urls: &[NewUrl]) -> Result<u64, StoreError> {
    let mut added = 0;
    for urls in urls.chunks(TOGETHER) {
        let answers = frontier.add(crawl, urls).await?;
        added += answers.iter().filter(|answer| **answer == Added::New).count() as u64;
    }
    Ok(added)
}

/// The pages that the sitemaps of the seeds' hosts name, as far as they are in the scope.
async fn sitemaps(
    fetcher: &Fetcher,
    request: &Request,
    definition: &Definition,
) -> (Vec<NewUrl>, Vec<String>) {
    let scope = Scope::new(definition);
    let mut pages = Vec::new();
    let mut troubles = Vec::new();
    let mut origins = HashSet::new();
    for seed in definition.seeds.iter().filter_map(|seed| seed.parse::<NormalUrl>().ok()) {
        if !origins.insert(seed.origin().to_owned()) {
            continue;
        }
        let request = Request {
            ticket: Ticket::of(&format!("sitemaps of {}", seed.origin())),
            waiting: Waiting::Here { at_most: SITEMAP_WAIT },
            url: seed,
            ..request.clone()
        };
        match fetcher.sitemaps(&request, SitemapCaps::default()).await {
            Ok(found) => {
                let failed =
                    found.files.iter().filter_map(|file| file.read.as_ref().err().map(|error| (file, error)));
                troubles.extend(failed.map(|(file, error)| format!("{}: {error}", file.url)));
                let found = found.pages.into_iter().map(|page| Scope::tidy(page.url));
                let inside = found.filter(|url| scope.has(url).is_ok());
                pages.extend(inside.map(|url| new_url(url, 0, 0, None)));
            }
            Err(error) => troubles.push(error.to_string()),
        }
    }
    (pages, troubles)
}
