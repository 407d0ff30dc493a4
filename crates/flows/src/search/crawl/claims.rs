//! Claiming URLs, many by one call.

use crawlway_clock::Timestamp;
use crawlway_flow::{Coalesce, StageError};
use crawlway_store::{
    SeenUrls, StoreError,
    seen::{Claim, Claimed},
};
use std::{sync::Arc, time::Duration};

/// How many claims are made by one call at most.
const MOST_CLAIMS: usize = 256;
/// How long to wait for somebody else who is at the same URL.
const SOMEBODY_ELSE: Duration = Duration::from_secs(2);

/// The claims of the items that are being crawled.
#[derive(Debug)]
pub(super) struct Claims {
    seen: Arc<dyn SeenUrls>,
    asked: Coalesce<Claim, Result<Claimed, StoreError>>,
}

/// The answer to an item's claim to its own URL.
#[derive(Debug)]
pub(super) enum First {
    /// It is to be crawled.
    Ours,
    /// Another item has crawled it lately.
    Seen { owner: String, until: Timestamp },
}

impl Claims {
    /// Claims in this store, each for so long.
    pub(super) fn new(seen: Arc<dyn SeenUrls>, term: Duration) -> Self {
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
        Self { seen, asked }
    }

    /// Claims an item's own URL.
    pub(super) async fn first(&self, url: &str, id: &str, now: Timestamp) -> Result<First, StageError> {
        let mut answer = self.claim(url, id).await?;
        if let Claimed::Seen { owner, .. } = &answer
            && owner == id
        {
            // Seen by ourselves, and here again: we were killed before it was settled, or it is wanted although it was
            // left out for another URL. What is to be noted of the page died with us, so that it is crawled again.
            self.seen.forget(std::slice::from_ref(&url.to_owned())).await?;
            answer = self.claim(url, id).await?;
        }
        match answer {
            Claimed::Ours => Ok(First::Ours),
            Claimed::Seen { owner, until } => Ok(First::Seen { owner, until }),
            Claimed::Taken { owner, until } => {
                let until = until.min(now + SOMEBODY_ELSE);
                Err(StageError::NotYet { until, why: format!("item {owner} is at it").into() })
            }
        }
    }

    /// Claims what a redirect led to. Says false if it is somebody else's.
    pub(super) async fn target(&self, url: &str, id: &str) -> Result<bool, StageError> {
        Ok(match self.claim(url, id).await? {
            Claimed::Ours => true,
            Claimed::Seen { owner, .. } | Claimed::Taken { owner, .. } => owner == id,
        })
    }

    async fn claim(&self, url: &str, id: &str) -> Result<Claimed, StageError> {
        let claim = Claim { url: url.to_owned(), owner: id.to_owned() };
        match self.asked.ask(claim).await {
            Some(answer) => Ok(answer?),
            None => Err(StageError::Ours { error: "the store gave no answer to a claim".to_owned() }),
        }
    }
}
