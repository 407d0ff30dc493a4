//! Starting a crawl, or going on with one.

use super::{Definition, crawl::new_url, scope::Scope};
use crawlway_content::NormalUrl;
use crawlway_fetch::{Fetcher, Request, SitemapCaps, Waiting};
use crawlway_store::{
    Frontier, StoreError, Ticket,
    frontier::{Added, Crawl, CrawlState, NewCrawl, NewUrl},
};
use std::{collections::HashSet, time::Duration};

/// How many URLs are added together.
const TOGETHER: usize = 500;
/// Who asks for a sitemap at the start waits for its turn there.
const SITEMAP_WAIT: Duration = Duration::from_secs(120);

/// A crawl that has been started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The crawl as it is now.
    pub crawl: Crawl,
    /// Whether it is new, or one of before that goes on.
    pub new: bool,
    /// How many URLs were added: seeds, and pages of sitemaps.
    pub added: u64,
    /// How many URLs of before are due again.
    pub again: u64,
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

/// Starts a crawl, or goes on with the one that was asked to do the same: what it knows stays known, and what is due
/// again is crawled again. Repeating it after a failure is harmless.
pub async fn start(
    frontier: &dyn Frontier,
    fetcher: &Fetcher,
    request: &Request,
    definition: Definition,
) -> Result<Started, StartError> {
    let definition = definition.checked()?;
    let mut started = begin(frontier, &definition).await?;
    if definition.sitemaps && (started.new || started.again > 0) {
        let (added, troubles) = add_sitemaps(frontier, fetcher, request, &definition).await?;
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
pub async fn begin(frontier: &dyn Frontier, definition: &Definition) -> Result<Started, StoreError> {
    let id = definition.id();
    let new = NewCrawl { id: id.clone(), definition: definition.to_json(), max_pages: definition.max_pages };
    let (crawl, new) = frontier.open_crawl(&new).await?;
    if matches!(crawl.state, CrawlState::Paused | CrawlState::Cancelled) {
        frontier.set_state(&id, CrawlState::Running).await?;
    }
    let seeds: Vec<NewUrl> = definition
        .seeds
        .iter()
        .filter_map(|seed| seed.parse::<NormalUrl>().ok())
        .map(|seed| new_url(seed, 0, 0, None))
        .collect();
    let added = add(frontier, &crawl.id, &seeds).await?;
    let again = frontier.reopen(&id).await?;
    let crawl = frontier.crawl(&id).await?.unwrap_or(crawl);
    Ok(Started { crawl, new, added, again, troubles: Vec::new() })
}

/// Reads the sitemaps of the seeds' hosts and adds the pages that they name, as far as they are in the scope. Answers
/// how many were new, and what could not be read. Repeating it is harmless.
pub async fn add_sitemaps(
    frontier: &dyn Frontier,
    fetcher: &Fetcher,
    request: &Request,
    definition: &Definition,
) -> Result<(u64, Vec<String>), StoreError> {
    let (pages, troubles) = sitemaps(fetcher, request, definition).await;
    Ok((add(frontier, &definition.id(), &pages).await?, troubles))
}

async fn add(
    frontier: &dyn Frontier,
    crawl: &crawlway_store::CrawlId,
    urls: &[NewUrl],
) -> Result<u64, StoreError> {
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
