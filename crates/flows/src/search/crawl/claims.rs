//! Claiming URLs, many by one call.

use crawlway_clock::Timestamp;
use crawlway_flow::{Coalesce, StageError};
use crawlway_store::{
    CrawlId, Frontier, SeenUrls, StoreError,
    frontier::EntryState,
    seen::{Claim, Claimed},
};
use std::{fmt, sync::Arc, time::Duration};

/// How many claims are made by one call at most.
const MOST_CLAIMS: usize = 256;
/// How long to wait for another item that is at the same URL.
const WAIT_FOR_OTHER: Duration = Duration::from_secs(2);

/// The owner of claims and marks: an item and its crawl, written `ITEM@CRAWL`.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    item: String,
    crawl: CrawlId,
}

impl Owner {
    pub(super) fn new(item: &str, crawl: &CrawlId) -> Self {
        Self { item: item.to_owned(), crawl: crawl.clone() }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.item, self.crawl)
    }
}

/// The claims of the items that are being crawled.
#[derive(Debug)]
pub(super) struct Claims {
    seen: Arc<dyn SeenUrls>,
    frontier: Arc<dyn Frontier>,
    asked: Coalesce<Claim, Result<Claimed, StoreError>>,
}

/// The answer to an item's claim to its own URL.
#[derive(Debug)]
pub(super) enum First {
    /// It is to be crawled.
    Ours,
    /// It was crawled lately.
    Seen(Mark),
}

/// A URL that was crawled lately: by whom and when, and until when that counts.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) owner: String,
    pub(super) at: Option<Timestamp>,
    pub(super) until: Timestamp,
    /// Its links, unless they are in the crawl already or are not known.
    pub(super) links: Option<String>,
}

impl Claims {
    /// Claims in this store, each for so long.
    pub(super) fn new(seen: Arc<dyn SeenUrls>, frontier: Arc<dyn Frontier>, term: Duration) -> Self {
        let store = seen.clone();
        let asked = Coalesce::new(MOST_CLAIMS, move |claims: Vec<Claim>| {
            let store = store.clone();
            Box::pin(async move {
                match store.claim(&claims, term).await {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
                }
            })
        });
        Self { seen, frontier, asked }
    }

    /// Claims an item's own URL, of a crawl that was made then. Marks older than `max_age` count for nothing.
    pub(super) async fn first(
        &self,
        url: &str,
        by: &Owner,
        max_age: Duration,
        created_at: Timestamp,
        now: Timestamp,
    ) -> Result<First, StageError> {
        let own = by.to_string();
        let mut answer = self.claim(url, &own, max_age).await?;
        match &answer {
            // Marked by this very item, and here again: its worker was killed before it was settled, or it is wanted
            // although it was left out for another URL. What was to be noted of the page is gone, so that it is crawled
            // again.
            Claimed::Seen { owner, .. } if *owner == own => {
                answer = self.claim(url, &own, Duration::ZERO).await?;
            }
            Claimed::Taken { owner, .. } if self.is_over(url, owner).await? => {
                self.seen.release(&[Claim::new(url, owner.as_str())]).await?;
                answer = self.claim(url, &own, max_age).await?;
            }
            _ => {}
        }
        match answer {
            Claimed::Ours => Ok(First::Ours),
            Claimed::Seen { owner, at, until } => {
                let crawl = owner.rsplit_once('@').map(|(_, crawl)| crawl);
                // One that is older is of a crawl of the same name that was deleted.
                if crawl == Some(by.crawl.as_str()) && at.is_some_and(|at| at >= created_at) {
                    return Ok(First::Seen(Mark { owner, at, until, links: None }));
                }
                match self.frontier.links(url).await? {
                    Some(links) => Ok(First::Seen(Mark { owner, at, until, links: Some(links) })),
                    // Another program's mark says that the URL need not be crawled, and not what it links to.
                    None if !is_item(&owner) => Ok(First::Seen(Mark { owner, at, until, links: None })),
                    // The page itself may be left out, its links never.
                    None => self.take_over(url, by, now).await.map(|()| First::Ours),
                }
            }
            Claimed::Taken { owner, .. } => Err(taken(&owner, now)),
        }
    }

    /// Claims a URL that was crawled lately.
    pub(super) async fn take_over(&self, url: &str, by: &Owner, now: Timestamp) -> Result<(), StageError> {
        match self.claim(url, &by.to_string(), Duration::ZERO).await? {
            Claimed::Ours => Ok(()),
            Claimed::Seen { owner, .. } | Claimed::Taken { owner, .. } => Err(taken(&owner, now)),
        }
    }

    /// Whether the item that claimed its own URL is no longer at it: it ended with its worker, or it waits.
    async fn is_over(&self, url: &str, owner: &str) -> Result<bool, StageError> {
        let item = owner.rsplit_once('@').map_or(owner, |(item, _)| item);
        let entries = self.frontier.find(url).await?;
        let of_owner = entries.iter().find(|entry| entry.item == item);
        Ok(of_owner.is_some_and(|entry| entry.state != EntryState::InFlight))
    }

    /// Claims what a redirect led to. Says false if another item has it.
    pub(super) async fn target(&self, url: &str, by: &Owner, max_age: Duration) -> Result<bool, StageError> {
        let own = by.to_string();
        Ok(match self.claim(url, &own, max_age).await? {
            Claimed::Ours => true,
            Claimed::Seen { owner, .. } | Claimed::Taken { owner, .. } => owner == own,
        })
    }

    /// Gives up the claims to these URLs, so that others need not wait for the end of their terms.
    pub(super) async fn release(&self, urls: &[String], by: &Owner) -> Result<(), StoreError> {
        let claims: Vec<Claim> = urls.iter().map(|url| Claim::new(url, by.to_string())).collect();
        self.seen.release(&claims).await
    }

    async fn claim(&self, url: &str, owner: &str, max_age: Duration) -> Result<Claimed, StageError> {
        let claim = Claim { url: url.to_owned(), owner: owner.to_owned(), max_age };
        match self.asked.ask(claim).await {
            Some(answer) => Ok(answer?),
            None => Err(StageError::Ours { error: "the store gave no answer to a claim".to_owned() }),
        }
    }
}

/// Whether an owner is an item of ours: `ITEM@CRAWL`, or the bare id that earlier versions wrote.
fn is_item(owner: &str) -> bool {
    let item = owner.rsplit_once('@').map_or(owner, |(item, _)| item);
    item.len() >= 32 && item.bytes().all(|octet| octet.is_ascii_hexdigit() || octet == b'-')
}

fn taken(owner: &str, now: Timestamp) -> StageError {
    let why = format!("it is being fetched by item {owner}");
    StageError::HeldUp { until: now + WAIT_FOR_OTHER, why }
}
