//! Opens the ledger of brokers that cannot keep all state of their queues.

use super::{redis, stores};
use crate::config::{Config, LedgerKind};
use crawlway_store::{
    Ledger, LedgerPolicy, StoreError,
    ledger::{
        AddDeadLetterOutcome, DeadLetterFilter, DeadLetterId, DeadLetterPage, ExchangeBinding, LostSession,
        MessageKey, NewDeadLetter, Replay, ReplayOutcome, SessionId, Settlement, TakeOutcome,
    },
};
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Delay between attempts to open it.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Timeout of one attempt.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens the ledger, and creates it if needed.
pub(super) async fn open(config: &Config, kind: LedgerKind) -> anyhow::Result<Arc<dyn Ledger>> {
    open_within(config, kind, None).await
}

async fn open_within(
    config: &Config,
    kind: LedgerKind,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn Ledger>> {
    match kind {
        LedgerKind::Records => stores::ledger(config, within).await,
        LedgerKind::Redis => redis::ledger(config, within).await,
    }
}

/// Opens the ledger in the background. Until then, every call of it fails as unavailable.
pub(super) fn open_later(config: &Config, kind: LedgerKind) -> Arc<dyn Ledger> {
    let later = Arc::new(LaterLedger { opened: OnceLock::new(), policy: LedgerPolicy::default() });
    let (config, opening) = (config.clone(), Arc::downgrade(&later));
    tokio::spawn(async move {
        while let Some(later) = opening.upgrade() {
            match open_within(&config, kind, Some(OPEN_TIMEOUT)).await {
                Ok(ledger) => {
                    let _ = later.opened.set(ledger);
                    return;
                }
                Err(error) => tracing::warn!("the ledger cannot be opened yet: {error:#}"),
            }
            drop(later);
            tokio::time::sleep(RETRY_DELAY).await;
        }
    });
    later
}

/// Refuses settings that cannot work, without asking a server. `setting` is the one that selects the kind.
pub(super) fn check(config: &Config, kind: LedgerKind, setting: &str) -> Result<(), String> {
    match kind {
        LedgerKind::Records => Ok(()),
        LedgerKind::Redis => redis::check(config, setting),
    }
}

/// A ledger that is opened in the background.
#[derive(Debug)]
struct LaterLedger {
    opened: OnceLock<Arc<dyn Ledger>>,
    policy: LedgerPolicy,
}

impl LaterLedger {
    fn get(&self) -> Result<&Arc<dyn Ledger>, StoreError> {
        self.opened
            .get()
            .ok_or_else(|| StoreError::Unavailable { detail: "the ledger is not open yet".to_owned() })
    }
}

macro_rules! forward {
    ($(async fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        #[async_trait::async_trait]
        impl Ledger for LaterLedger {
            fn policy(&self) -> &LedgerPolicy {
                self.opened.get().map_or(&self.policy, |ledger| ledger.policy())
            }

            $(async fn $name(&self $(, $argument: $type)*) -> Result<$result, StoreError> {
                self.get()?.$name($($argument),*).await
            })*
        }
    };
}

forward! {
    async fn open_session(&self, session: &SessionId, worker: &str) -> ();
    async fn heartbeat(&self, session: &SessionId) -> bool;
    async fn close_session(&self, session: &SessionId) -> ();
    async fn reap_sessions(&self) -> Vec<LostSession>;
    async fn take(&self, session: &SessionId, messages: &[MessageKey]) -> Vec<TakeOutcome>;
    async fn mark_solo(&self, session: &SessionId, message: &MessageKey) -> bool;
    async fn settle(&self, session: &SessionId, settlements: &[(MessageKey, Settlement)]) -> Vec<bool>;
    async fn add_dead_letters(&self, session: &SessionId, letters: &[NewDeadLetter]) -> Vec<AddDeadLetterOutcome>;
    async fn dead_letters(
        &self,
        queue: &str,
        filter: &DeadLetterFilter,
        after: Option<DeadLetterId>,
        limit: usize
    ) -> DeadLetterPage;
    async fn count_dead_letters(&self, queue: &str) -> u64;
    async fn bodies(&self, letters: &[DeadLetterId]) -> Vec<Option<Vec<u8>>>;
    async fn begin_replay(&self, letters: &[DeadLetterId]) -> Vec<ReplayOutcome>;
    async fn end_replay(&self, replays: &[Replay]) -> Vec<bool>;
    async fn drop_dead_letters(&self, letters: &[DeadLetterId]) -> Vec<bool>;
    async fn pause(&self, queue: &str) -> ();
    async fn resume(&self, queue: &str) -> ();
    async fn paused(&self) -> Vec<String>;
    async fn bind(&self, queue: &str, bindings: &[ExchangeBinding]) -> ();
    async fn bindings(&self, exchange: &str) -> Vec<(String, String)>;
    async fn purge_expired(&self, max: usize) -> u64;
}
