//! Watch of change feeds: one task reads those of all users with subscribers, at once after a change by this process, and at an interval
//! for those by another gateway.

use crate::later::Later;
use crawlway_flow::Shutdown;
use crawlway_store::{RequestStore, StoreError, requests::ChangeId};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::{Notify, broadcast, broadcast::error::RecvError};

/// Interval of the polls while there are subscribers, and its increase for each user.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const POLL_INTERVAL_PER_USER: Duration = Duration::from_micros(100);
/// Minimum time between two polls: changes within it are read together.
const MIN_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum number of changes of a user in one poll.
const BATCH: usize = 100;
/// Number of polls that a slow subscriber may be behind.
const MAX_LAG: usize = 16;
/// Interval of the polls while the store does not answer.
const OUTAGE_INTERVAL: Duration = Duration::from_secs(1);

/// Watch of the change feeds of all users with subscribers. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangeWatch(Arc<Feeds>);

#[derive(Debug, Default)]
struct Feeds {
    by_user: Mutex<HashMap<String, Feed>>,
    subscribed: Notify,
}

#[derive(Debug)]
struct Feed {
    position: ChangeId,
    /// Ids of changed requests.
    changed: broadcast::Sender<Arc<[String]>>,
}

/// Subscription to the changes of a user.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Last change before the subscription.
    pub(crate) position: ChangeId,
    changed: broadcast::Receiver<Arc<[String]>>,
}

impl Subscription {
    /// Waits for a change after the last call.
    pub(crate) async fn changed(&mut self) {
        self.next().await;
    }

    /// Waits for a change of this request, or for so many changes that it may be among them.
    pub(crate) async fn changed_request(&mut self, id: &str) {
        while self.next().await.is_some_and(|ids| !ids.iter().any(|changed| changed == id)) {}
    }

    /// Ids of changed requests; `None` if there were too many.
    async fn next(&mut self) -> Option<Arc<[String]>> {
        match self.changed.recv().await {
            Ok(ids) => Some(ids),
            Err(RecvError::Lagged(_)) => None,
            // The watch has ended with the process.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl ChangeWatch {
    /// Starts to poll, until the shutdown.
    pub(super) fn start(store: Later<dyn RequestStore>, stop: Shutdown) -> Self {
        let watch = Self::default();
        let feeds = watch.0.clone();
        tokio::spawn(async move {
            let polls = async {
                if let Some(store) = store.connected().await {
                    feeds.poll(&*store).await;
                }
            };
            tokio::select! {
                _ = stop.requested() => {}
                () = polls => {}
            }
        });
        watch
    }

    pub(super) async fn subscribe(
        &self,
        store: &dyn RequestStore,
        email: &str,
    ) -> Result<Subscription, StoreError> {
        let position = store.last_change(email).await?;
        let mut by_user = self.0.by_user.lock();
        let new = || Feed { position: position.clone(), changed: broadcast::Sender::new(MAX_LAG) };
        let changed = by_user.entry(email.to_owned()).or_insert_with(new).changed.subscribe();
        drop(by_user);
        self.0.subscribed.notify_one();
        Ok(Subscription { position, changed })
    }
}

impl Feeds {
    async fn poll(&self, store: &dyn RequestStore) {
        loop {
            let feeds: Vec<(String, ChangeId)> = {
                let mut by_user = self.by_user.lock();
                by_user.retain(|_, feed| feed.changed.receiver_count() > 0);
                by_user.iter().map(|(email, feed)| (email.clone(), feed.position.clone())).collect()
            };
            if feeds.is_empty() {
                self.subscribed.notified().await;
                continue;
            }
            let interval = match self.poll_once(store, &feeds).await {
                Ok(()) => {
                    POLL_INTERVAL + POLL_INTERVAL_PER_USER * u32::try_from(feeds.len()).unwrap_or(u32::MAX)
                }
                Err(error) => {
                    tracing::debug!(%error, "the change feeds cannot be read");
                    OUTAGE_INTERVAL
                }
            };
            tokio::time::sleep(MIN_INTERVAL).await;
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = store.changed().notified() => {}
            }
        }
    }

    async fn poll_once(
        &self,
        store: &dyn RequestStore,
        feeds: &[(String, ChangeId)],
    ) -> Result<(), StoreError> {
        for ((email, _), changes) in feeds.iter().zip(store.changes(feeds, BATCH).await?) {
            let Some(last) = changes.last() else { continue };
            if let Some(feed) = self.by_user.lock().get_mut(email) {
                feed.position = last.id.clone();
                let _ = feed.changed.send(changes.into_iter().map(|change| change.request).collect());
            }
        }
        Ok(())
    }
}
