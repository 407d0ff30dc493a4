//! The pages that sitemaps name, file by file: those of one are in the frontier before the next is read, so that a large site
//! takes no more memory than its largest file, is crawled meanwhile, and loses at most one file to a kill.

use super::{Definition, crawl::new_url, rescan::change_terms, scope::Scope, start::add};
use crawlway_clock::Timestamp;
use crawlway_content::NormalUrl;
use crawlway_fetch::{Code, FetchError, Fetcher, Request, SitemapCaps, SitemapRead, SitemapWalk, Waiting};
use crawlway_store::{
    CrawlId, Frontier, StoreError, Ticket,
    frontier::{CrawlState, NewUrl},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Who asks for a sitemap waits for its turn there.
const TURN: Duration = Duration::from_secs(120);
/// How long it is at most until a site that could not be reached is asked for its sitemaps again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// How often a sitemap is asked for that failed and may be read another time.
const TRIES: u32 = 3;
/// How often it is noted which files were read. Each time all workers look at the terms anew.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// Reads the sitemaps of the seeds' hosts and adds the pages that they name, as far as they are in the scope. A site that cannot
/// be reached is asked again for as long as its robots.txt is, or until the crawl is cancelled or deleted. Answers how many
/// were new, and what could not be read.
///
/// Repeating it is harmless. Cut short, it goes on with the files that were not read.
pub async fn add_sitemaps(
    frontier: &dyn Frontier,
    fetcher: &Fetcher,
    request: &Request,
    crawl: &CrawlId,
    definition: &Definition,
) -> Result<(u64, Vec<String>), StoreError> {
    let stored = frontier.crawl(crawl).await?.map(|crawl| crawl.definition).unwrap_or_default();
    let read_before = serde_json::from_str::<Definition>(&stored).map(|terms| terms.state.sitemaps_read);
    let mut reading = Reading {
        frontier,
        fetcher,
        crawl,
        scope: Scope::new(definition),
        read: read_before.unwrap_or_default(),
        noted: None,
        added: 0,
        troubles: Vec::new(),
    };
    let seeds = definition.seeds.iter().filter_map(|seed| seed.parse::<NormalUrl>().ok());
    let sites: BTreeMap<String, NormalUrl> = seeds.map(|seed| (seed.origin().to_owned(), seed)).collect();
    let mut sites: Vec<Site> = sites.into_values().map(|seed| Site::new(seed, request)).collect();
    for round in 1.. {
        let mut again_at: Option<Timestamp> = None;
        let mut again = Vec::new();
        for mut site in sites {
            match reading.read_on(&mut site, round).await? {
                Read::All => {}
                Read::NotYet(at) => {
                    again_at = Some(again_at.map_or(at, |earlier| at.min(earlier)));
                    again.push(site);
                }
                Read::NotWanted => return Ok((reading.added, reading.troubles)),
            }
        }
        let Some(at) = again_at else { break };
        sites = again;
        reading.note().await?;
        tokio::time::sleep(at.since(Timestamp::now()).clamp(Duration::from_secs(1), ASK_AGAIN)).await;
        if !reading.is_wanted().await? {
            return Ok((reading.added, reading.troubles));
        }
    }
    let all_read = |terms: &mut Definition| {
        terms.state.sitemaps_unread = false;
        terms.state.sitemaps_read.clear();
    };
    change_terms(frontier, crawl, all_read).await?;
    Ok((reading.added, reading.troubles))
}

/// The sitemaps of one site.
struct Site {
    request: Request,
    /// None before its robots.txt has said where they are.
    walk: Option<SitemapWalk>,
}

impl Site {
    fn new(seed: NormalUrl, request: &Request) -> Self {
        let request = Request {
            ticket: Ticket::of(&format!("sitemaps of {}", seed.origin())),
            waiting: Waiting::Here { at_most: TURN },
            url: seed,
            ..request.clone()
        };
        Self { request, walk: None }
    }
}

/// How far the sitemaps of a site were read.
enum Read {
    All,
    /// Something can be read from this time on.
    NotYet(Timestamp),
    /// The crawl is not to go on.
    NotWanted,
}

struct Reading<'a> {
    frontier: &'a dyn Frontier,
    fetcher: &'a Fetcher,
    crawl: &'a CrawlId,
    scope: Scope,
    /// The files whose pages are in the frontier.
    read: BTreeSet<u64>,
    /// When that was last stored.
    noted: Option<Instant>,
    added: u64,
    troubles: Vec<String>,
}

impl Reading<'_> {
    /// Reads the files of a site until all are read, or one has to be waited for.
    async fn read_on(&mut self, site: &mut Site, round: u32) -> Result<Read, StoreError> {
        let begun = match site.walk.take() {
            Some(walk) => Ok(walk),
            None => self.fetcher.sitemap_walk(&site.request, SitemapCaps::default()).await,
        };
        let walk = match begun {
            Ok(walk) => site.walk.insert(walk),
            Err(error) => return Ok(self.not_now(&error)),
        };
        let mut failed = Vec::new();
        loop {
            while walk.upcoming().is_some_and(|file| self.read.contains(&hash(file))) {
                walk.skip();
            }
            let SitemapRead { file, pages } = match self.fetcher.next_sitemap(walk).await {
                Ok(Some(read)) => read,
                Ok(None) => break,
                Err(error) => {
                    failed.into_iter().for_each(|file| walk.again(file));
                    return Ok(self.not_now(&error));
                }
            };
            match &file.read {
                Ok(_) if !pages.is_empty() => {
                    let pages = pages.into_iter().map(|page| Scope::tidy(page.url));
                    let pages: Vec<NewUrl> = pages
                        .filter(|url| self.scope.takes(url).is_ok())
                        .map(|url| new_url(url, 0, 0, None))
                        .collect();
                    self.added += add(self.frontier, self.crawl, &pages).await?;
                    self.read.insert(hash(&file.url));
                    if self.noted.is_none_or(|noted| noted.elapsed() >= NOTE_EVERY) {
                        self.note().await?;
                    }
                }
                Ok(_) => {}
                Err(error) if round < TRIES && error.is_passing() => failed.push(file),
                Err(error) => self.troubles.push(format!("{}: {error}", file.url)),
            }
            if !self.is_wanted().await? {
                return Ok(Read::NotWanted);
            }
        }
        if failed.is_empty() {
            return Ok(Read::All);
        }
        failed.into_iter().for_each(|file| walk.again(file));
        Ok(Read::NotYet(Timestamp::now() + ASK_AGAIN))
    }

    /// What it means that a site cannot be asked.
    fn not_now(&mut self, error: &FetchError) -> Read {
        if matches!(error.code, Code::RobotsWait | Code::GateWait | Code::GateOpen) {
            return Read::NotYet(error.not_before.unwrap_or(Timestamp::now() + ASK_AGAIN));
        }
        self.troubles.push(error.to_string());
        Read::All
    }

    /// Stores which files were read.
    async fn note(&mut self) -> Result<(), StoreError> {
        change_terms(self.frontier, self.crawl, |terms| terms.state.sitemaps_read.clone_from(&self.read))
            .await?;
        self.noted = Some(Instant::now());
        Ok(())
    }

    /// Whether there is still a crawl that wants the pages.
    async fn is_wanted(&self) -> Result<bool, StoreError> {
        let state = self.frontier.crawl(self.crawl).await?.map(|crawl| crawl.state);
        Ok(!matches!(state, None | Some(CrawlState::Cancelled)))
    }
}

/// By which a file is known again.
fn hash(file: &NormalUrl) -> u64 {
    // The upper half fits.
    u64::try_from(Ticket::of(file.as_str()).as_u128() >> 64).unwrap_or_default()
}
