//! Keeper of a queue: ends leases, renews visibility timeouts, and hands back what no receiver takes.

use crate::{
    connection::seconds,
    engine::Engine,
    local_queue::{Entry, LocalQueue, MARGIN},
    options::MAX_VISIBILITY,
};
use crawlway_broker::Timestamp;
use crawlway_broker_ledger::{Entry as _, Settlement};
use std::{sync::Arc, time::Duration};

/// Longest sleep.
const INTERVAL: Duration = Duration::from_millis(500);
/// Time that a received message waits for a receiver.
const BUFFER_AGE: Duration = Duration::from_millis(500);

impl Engine {
    /// Runs until the broker is closed.
    pub(crate) async fn keep(self: Arc<Self>, local: Arc<LocalQueue>) {
        while !self.is_closed() {
            self.expire(&local).await;
            self.renew(&local).await;
            self.hand_back_unclaimed(&local).await;
            let (now, next) = (Timestamp::now(), local.state().deliveries.next_expiry());
            let sleep =
                next.map_or(INTERVAL, |time| time.since(now)).clamp(Duration::from_millis(1), INTERVAL);
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = local.keeper.notified() => {}
            }
        }
    }

    /// Makes deliveries visible again whose leases have ended: each is suspect by one more lost worker.
    async fn expire(self: &Arc<Self>, local: &Arc<LocalQueue>) {
        let expired = local.state().deliveries.expired(Timestamp::now());
        if !expired.is_empty() {
            self.make_visible(local, expired, &Settlement::LeaseExpired).await;
            local.changed.notify_waiters();
        }
    }

    /// Renews the visibility timeouts of leased deliveries. One that is with another consumer is fenced.
    async fn renew(self: &Arc<Self>, local: &Arc<LocalQueue>) {
        let (now, visibility) = (Timestamp::now(), self.connection.options.visibility);
        let due: Vec<(u64, Entry)> = {
            let state = local.state();
            let is_due = |entry: &Entry| {
                entry.hidden_until <= now + visibility / 2
                    && entry.received_at + MAX_VISIBILITY > now + visibility
            };
            let held = state.deliveries.in_flight.iter().filter(|(_, held)| is_due(&held.entry));
            held.map(|(tag, held)| (*tag, held.entry.clone())).collect()
        };
        if due.is_empty() {
            return;
        }
        let changes: Vec<_> =
            due.iter().map(|(_, entry)| (entry.received.handle.clone(), seconds(visibility))).collect();
        let results = self.connection.change_visibility(&local.url, &changes).await;
        let mut fenced = Vec::new();
        {
            let mut state = local.state();
            for ((tag, entry), result) in due.into_iter().zip(results) {
                let Some(held) = state.deliveries.in_flight.get_mut(&tag) else { continue };
                match result {
                    Ok(true) => held.entry.hidden_until = now + visibility,
                    // While a verdict is carried out, it decides.
                    Ok(false) if !held.settling => {
                        state.deliveries.in_flight.remove(&tag);
                        fenced.push(entry.key(&local.queue));
                    }
                    Ok(false) | Err(_) => {}
                }
            }
        }
        self.ledger.settle(fenced, &Settlement::Returned).await;
    }

    /// Hands back messages that were received for a receiver that is gone.
    async fn hand_back_unclaimed(self: &Arc<Self>, local: &Arc<LocalQueue>) {
        let now = Timestamp::now();
        let unclaimed: Vec<Entry> = {
            let mut state = local.state();
            let can_be_taken = state.demand > 0 && !state.deliveries.is_paused;
            let is_unclaimed = |entry: &Entry| {
                (!can_be_taken && entry.received_at + BUFFER_AGE <= now)
                    || entry.hidden_until <= now + 2 * MARGIN
            };
            let (unclaimed, ready): (Vec<Entry>, Vec<Entry>) =
                state.deliveries.ready.drain(..).partition(is_unclaimed);
            state.deliveries.ready = ready.into();
            unclaimed
        };
        if !unclaimed.is_empty() {
            self.make_visible(local, unclaimed, &Settlement::Returned).await;
        }
    }
}
