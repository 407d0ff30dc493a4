//! Watch of change feeds: one poll for all users with subscribers, so that changes made by another gateway are noticed, too.

use crate::later::Later;
use crawlway_flow::Shutdown;
use crawlway_store::{RequestStore, StoreError, requests::ChangeId};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};

/// Interval of the polls while there are subscribers, and its increase for each user.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const POLL_INTERVAL_PER_USER: Duration = Duration::from_micros(100);
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
    changed: watch::Sender<()>,
}

/// Subscription to the changes of a user.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Last change before the subscription.
    pub(crate) position: ChangeId,
    changed: watch::Receiver<()>,
}

impl Subscription {
    /// Waits for a change after the last call.
    pub(crate) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // The watch has ended with the process.
            std::future::pending::<()>().await;
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
        let new = || Feed { position: position.clone(), changed: watch::Sender::new(()) };
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
            tokio::time::sleep(interval).await;
        }
    }

    async fn poll_once(
        &self,
        store: &dyn RequestStore,
        feeds: &[(String, ChangeId)],
    ) -> Result<(), StoreError> {
        let changes = store.changes(feeds, 1).await?;
        for ((email, _), _) in feeds.iter().zip(&changes).filter(|(_, changes)| !changes.is_empty()) {
            let position = store.last_change(email).await?;
            if let Some(feed) = self.by_user.lock().get_mut(email) {
                feed.position = position;
                let _ = feed.changed.send(());
            }
        }
        Ok(())
    }
}
