//! Cache of stored tokens, so that a request rarely waits for the store.

use crate::later::Later;
use crawlway_store::{StoreError, TokenHash, TokenRecord, Tokens};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Lifetime of an entry. A revocation through another process holds after this time at the latest.
const TTL: Duration = Duration::from_secs(3);
/// Upper bound of the entries. Only valid hashes are cached.
const MAX_ENTRIES: usize = 10_000;

/// Cache in front of the token store. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TokenCache {
    store: Later<dyn Tokens>,
    entries: Arc<Mutex<HashMap<TokenHash, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    token: Arc<TokenRecord>,
    read_at: Instant,
}

/// Failure of a look-up.
#[derive(Debug)]
pub(crate) enum LookupError {
    /// The store is not connected yet.
    Starting,
    /// The store does not respond.
    Store(StoreError),
}

impl TokenCache {
    pub(crate) fn new(store: Later<dyn Tokens>) -> Self {
        Self { store, entries: Arc::default() }
    }

    /// Token with this hash; `None` also in a process without the store.
    pub(crate) async fn find(&self, hash: &TokenHash) -> Result<Option<Arc<TokenRecord>>, LookupError> {
        // Before the read, so that the entry is never younger than its content.
        let read_at = Instant::now();
        let cached =
            self.entries.lock().get(hash).filter(|entry| entry.is_fresh()).map(|entry| entry.token.clone());
        if cached.is_some() {
            return Ok(cached);
        }
        let Some(store) = self.store.get() else {
            return if self.store.absent_reason().is_some() { Ok(None) } else { Err(LookupError::Starting) };
        };
        let found = store.find(hash).await.map_err(LookupError::Store)?.map(Arc::new);
        let mut entries = self.entries.lock();
        if entries.len() >= MAX_ENTRIES {
            entries.retain(|_, entry| entry.is_fresh());
        }
        match &found {
            Some(token) if entries.len() < MAX_ENTRIES => {
                entries.insert(*hash, Entry { token: token.clone(), read_at });
            }
            _ => {
                entries.remove(hash);
            }
        }
        Ok(found)
    }

    /// Forgets a token that was revoked.
    pub(crate) fn evict(&self, hash: &TokenHash) {
        self.entries.lock().remove(hash);
    }
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.read_at.elapsed() < TTL
    }
}
