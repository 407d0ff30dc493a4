//! Submitting requests: they are stored as pending with an outbox entry, and then published.

use super::{upkeep::publish_all, wiring::crawl_requests};
use crate::inventory::{AcceptError, check};
use crawlway_broker::{Broker, BrokerError, MessageId};
use crawlway_clock::Clock;
use crawlway_fetch::SsrfGuard;
use crawlway_flow::fail;
use crawlway_store::{
    RequestStore, StoreError,
    requests::{AddOutcome, CrawlRequest, RequestKey},
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Maximum length of an idempotency key.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// Name in fail points.
pub(super) const NAME: &str = "submit";

crawlway_flow::fail_points! {
    /// Fail points of a submission.
    SubmitStep {
        /// The requests are pending and in the outbox.
        Stored = "stored",
        /// The requests are published.
        Published = "published",
    }
}

/// Submits requests of users.
#[derive(Debug, Clone)]
pub struct Submitter {
    /// Broker of `crawl-requests`.
    pub broker: Arc<dyn Broker>,
    /// Requests.
    pub store: Arc<dyn RequestStore>,
    /// SSRF guard for literal addresses.
    pub guard: SsrfGuard,
    /// Clock.
    pub clock: Clock,
}

/// A request that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// Request, as it is stored.
    pub request: CrawlRequest,
    /// Whether it is new; otherwise it was submitted before under the same idempotency key.
    pub is_new: bool,
}

/// Reason why nothing was accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Invalid URL.
    #[error("{error}")]
    Url {
        /// Its place in the batch.
        place: usize,
        /// What is wrong.
        error: AcceptError,
    },
    /// Another URL under the same idempotency key.
    #[error("the idempotency key was used before, for `{url}`")]
    KeyReused {
        /// URL of the earlier request.
        url: String,
    },
    /// Another number of URLs under the same idempotency key.
    #[error("the idempotency key was used before, for another number of URLs")]
    KeyReusedForOthers,
    /// Broker without a connection.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// Store that does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Submitter {
    /// Accepts a batch as a whole. Ok means that all are durable, and are published now or by the upkeep.
    ///
    /// With an idempotency key the ids are derived from it, so that a repeated call returns the first requests.
    pub async fn submit(
        &self,
        email: &str,
        urls: &[String],
        idempotency_key: Option<&str>,
    ) -> Result<Vec<Submitted>, SubmitError> {
        let created_at = self.clock.now().to_iso();
        let request = |(place, url): (usize, &String)| {
            let url = check(url, &self.guard).map_err(|error| SubmitError::Url { place, error })?;
            let id = match idempotency_key {
                Some(key) => derived_id(email, key, place),
                None => MessageId::random().as_str().to_owned(),
            };
            Ok(CrawlRequest::pending(RequestKey::new(email, id), url.as_str(), &*created_at))
        };
        let requests = urls.iter().enumerate().map(request).collect::<Result<Vec<_>, SubmitError>>()?;
        // Fails fast, since a client waits for the answer.
        self.broker.reachable_for(&crawl_requests())?;
        if let Some(key) = idempotency_key {
            self.check_count(email, key, urls.len()).await?;
        }
        // The first comes last: once it is stored, all are, and their number is known.
        let mut outcomes = self.store.add(requests.get(1..).unwrap_or_default()).await?;
        outcomes.splice(0..0, self.store.add(requests.get(..1).unwrap_or_default()).await?);
        fail::passed(NAME, SubmitStep::Stored.name());
        let is_new = |outcome: &AddOutcome| *outcome == AddOutcome::Added;
        let new: Vec<CrawlRequest> = requests
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| is_new(outcome))
            .map(|(request, _)| request.clone())
            .collect();
        if !new.is_empty()
            && let Err(error) = publish_all(&*self.broker, &*self.store, &new).await
        {
            // The requests are durable and stay in the outbox.
            tracing::warn!(%error, "cannot remove published requests from the outbox");
        }
        let submitted = |(request, outcome): (CrawlRequest, AddOutcome)| match outcome {
            AddOutcome::Added => Ok(Submitted { request, is_new: true }),
            AddOutcome::Exists(known) if known.url == request.url => {
                Ok(Submitted { request: known, is_new: false })
            }
            AddOutcome::Exists(known) => Err(SubmitError::KeyReused { url: known.url }),
        };
        requests.into_iter().zip(outcomes).map(submitted).collect()
    }
}

impl Submitter {
    /// Checks that an idempotency key was not used for another number of URLs.
    async fn check_count(&self, email: &str, key: &str, count: usize) -> Result<(), SubmitError> {
        let is_stored = async |place: usize| {
            let request = RequestKey::new(email, derived_id(email, key, place));
            Ok::<bool, StoreError>(self.store.get(&request).await?.is_some())
        };
        if !is_stored(0).await? {
            return Ok(());
        }
        match is_stored(count.saturating_sub(1)).await? && !is_stored(count).await? {
            true => Ok(()),
            false => Err(SubmitError::KeyReusedForOthers),
        }
    }
}

/// Id of a request under an idempotency key: a UUID (version 8) of a hash.
fn derived_id(email: &str, key: &str, place: usize) -> String {
    let mut hash = Sha256::new();
    for part in [email.as_bytes(), key.as_bytes(), &place.to_be_bytes()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut octets: Vec<u8> = hash.finalize().iter().copied().take(16).collect();
    octets[6] = (octets[6] & 0x0f) | 0x80;
    octets[8] = (octets[8] & 0x3f) | 0x80;
    let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idempotency_key_belongs_to_its_user_and_place() {
        let id = derived_id("a@example.com", "k", 0);
        assert_eq!(id, derived_id("a@example.com", "k", 0));
        assert_eq!((id.len(), &id[14..15]), (36, "8"), "{id}");
        let others = [
            ("b@example.com", "k", 0),
            ("a@example.com", "l", 0),
            ("a@example.com", "k", 1),
            ("a@example.comk", "", 0),
        ];
        for (email, key, place) in others {
            assert_ne!(derived_id(email, key, place), id);
        }
    }
}
