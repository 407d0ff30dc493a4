//! Claims of URLs in the seen-URL store, coalesced.

use crawlway_clock::Timestamp;
use crawlway_flow::{Coalescer, StageError};
use crawlway_store::{
    CrawlId, Frontier, SeenUrls, StoreError,
    frontier::EntryState,
    seen::{Claim, ClaimOutcome},
};
use std::{fmt, sync::Arc, time::Duration};

/// Maximum number of claims per store call.
const MAX_CLAIMS: usize = 256;
/// Deferral of an item whose URL another item has claimed.
const CLAIMED_DELAY: Duration = Duration::from_secs(2);

/// Owner of claims and seen marks: an item and its crawl, as `ITEM@CRAWL`.
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

/// Claims of the items in flight.
#[derive(Debug)]
pub(super) struct Claims {
    seen: Arc<dyn SeenUrls>,
    frontier: Arc<dyn Frontier>,
    calls: Coalescer<Claim, Result<ClaimOutcome, StoreError>>,
}

/// Result of an item's claim on its own URL.
#[derive(Debug)]
pub(super) enum OwnClaim {
    /// The URL is claimed.
    Claimed,
    /// The URL was seen already.
    Seen(SeenMark),
}

/// Mark of a seen URL: owner, time and expiry.
#[derive(Debug)]
pub(super) struct SeenMark {
    pub(super) owner: String,
    pub(super) at: Option<Timestamp>,
    pub(super) until: Timestamp,
    /// Stored links of the page, unless the crawl has them already or they are unknown.
    pub(super) links: Option<String>,
}

impl Claims {
    /// Claims in this store, with this lease.
    pub(super) fn new(seen: Arc<dyn SeenUrls>, frontier: Arc<dyn Frontier>, lease: Duration) -> Self {
        let store = seen.clone();
        let calls = Coalescer::new(MAX_CLAIMS, move |claims: Vec<Claim>| {
            let store = store.clone();
            Box::pin(async move {
                match store.claim(&claims, lease).await {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
                }
            })
        });
        Self { seen, frontier, calls }
    }

    /// Claims an item's own URL. Marks older than `max_age` are ignored; `created_at` is the creation time of the crawl.
    pub(super) async fn claim_own(
        &self,
        url: &str,
        by: &Owner,
        max_age: Duration,
        created_at: Timestamp,
        now: Timestamp,
    ) -> Result<OwnClaim, StageError> {
        let own = by.to_string();
        let mut answer = self.claim(url, &own, max_age).await?;
        match &answer {
            // Marked by this item itself: its worker crashed before it was settled, or it is reinstated. The data for its
            // settlement is lost, so it is crawled again.
            ClaimOutcome::Seen { owner, .. } if *owner == own => {
                answer = self.claim(url, &own, Duration::ZERO).await?;
            }
            ClaimOutcome::Taken { owner, .. } if self.is_stale(url, owner).await? => {
                self.seen.release(&[Claim::new(url, owner.as_str())]).await?;
                answer = self.claim(url, &own, max_age).await?;
            }
            _ => {}
        }
        match answer {
            ClaimOutcome::Granted => Ok(OwnClaim::Claimed),
            ClaimOutcome::Seen { owner, at, until } => {
                let crawl = owner.rsplit_once('@').map(|(_, crawl)| crawl);
                // An older mark is of a deleted crawl with the same name.
                if crawl == Some(by.crawl.as_str()) && at.is_some_and(|at| at >= created_at) {
                    return Ok(OwnClaim::Seen(SeenMark { owner, at, until, links: None }));
                }
                match self.frontier.links(url).await? {
                    Some(links) => Ok(OwnClaim::Seen(SeenMark { owner, at, until, links: Some(links) })),
                    // A mark of another program: the URL is not crawled, and its links are unknown.
                    None if !is_item(&owner) => {
                        Ok(OwnClaim::Seen(SeenMark { owner, at, until, links: None }))
                    }
                    // Without stored links the page is fetched again, so that its links are followed.
                    None => self.take_over(url, by, now).await.map(|()| OwnClaim::Claimed),
                }
            }
            ClaimOutcome::Taken { owner, .. } => Err(claimed_by(&owner, now)),
        }
    }

    /// Claims a URL that was seen already.
    pub(super) async fn take_over(&self, url: &str, by: &Owner, now: Timestamp) -> Result<(), StageError> {
        match self.claim(url, &by.to_string(), Duration::ZERO).await? {
            ClaimOutcome::Granted => Ok(()),
            ClaimOutcome::Seen { owner, .. } | ClaimOutcome::Taken { owner, .. } => {
                Err(claimed_by(&owner, now))
            }
        }
    }

    /// Whether a claim is stale: its owner is not in flight, since its worker crashed or it is deferred.
    async fn is_stale(&self, url: &str, owner: &str) -> Result<bool, StageError> {
        let item = owner.rsplit_once('@').map_or(owner, |(item, _)| item);
        let entries = self.frontier.find(url).await?;
        let of_owner = entries.iter().find(|entry| entry.item == item);
        Ok(of_owner.is_some_and(|entry| entry.state != EntryState::InFlight))
    }

    /// Claims the target of a redirect. Returns false if another item has it.
    pub(super) async fn claim_target(
        &self,
        url: &str,
        by: &Owner,
        max_age: Duration,
    ) -> Result<bool, StageError> {
        let own = by.to_string();
        Ok(match self.claim(url, &own, max_age).await? {
            ClaimOutcome::Granted => true,
            ClaimOutcome::Seen { owner, .. } | ClaimOutcome::Taken { owner, .. } => owner == own,
        })
    }

    /// Releases claims before their leases end.
    pub(super) async fn release(&self, urls: &[String], by: &Owner) -> Result<(), StoreError> {
        let claims: Vec<Claim> = urls.iter().map(|url| Claim::new(url, by.to_string())).collect();
        self.seen.release(&claims).await
    }

    async fn claim(&self, url: &str, owner: &str, max_age: Duration) -> Result<ClaimOutcome, StageError> {
        let claim = Claim { url: url.to_owned(), owner: owner.to_owned(), max_age };
        match self.calls.call(claim).await {
            Some(answer) => Ok(answer?),
            None => Err(StageError::Unavailable { error: "the store gave no answer to a claim".to_owned() }),
        }
    }
}

/// Whether an owner is an item of this program: `ITEM@CRAWL`, or the bare id that earlier versions wrote.
fn is_item(owner: &str) -> bool {
    let item = owner.rsplit_once('@').map_or(owner, |(item, _)| item);
    item.len() >= 32 && item.bytes().all(|octet| octet.is_ascii_hexdigit() || octet == b'-')
}

fn claimed_by(owner: &str, now: Timestamp) -> StageError {
    let reason = format!("it is being fetched by item {owner}");
    StageError::DeferItem { until: now + CLAIMED_DELAY, reason }
}
