//! The [`Stage`] trait, its input and its output.

use crate::Shutdown;
use crawlway_broker::{Delivery, MessageId, Outgoing};
use crawlway_clock::{Clock, Timestamp};
use crawlway_store::StoreError;
use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// One processing step of a flow. It must be idempotent: an item whose worker crashed is delivered again.
#[async_trait::async_trait]
pub trait Stage: Send + Sync + 'static {
    /// Decoded item.
    type In: Send + 'static;
    /// Side effect to apply after the output is published and before the item is settled.
    type Effect: Send + Sync + 'static;
    /// Data for the source when an item is done. `()` for queues.
    type Note: Default + Send + Sync + 'static;

    /// Name of the stage in trails and metrics.
    fn name(&self) -> &'static str;

    /// Decodes a delivery. An invalid one becomes a dead letter at once, with this reason.
    fn decode(&self, delivery: &Delivery) -> Result<Self::In, Invalid>;

    /// Subject of an item, such as its URL, by which its trail can be found.
    fn subject(&self, input: &Self::In) -> Option<String>;

    /// Item id from the body, for messages whose publisher may have set another message id. The trail uses it.
    fn item_id(&self, _input: &Self::In) -> Option<MessageId> {
        None
    }

    /// Processes a batch of the configured size. Returns one result per item, in order.
    async fn run(
        &self,
        batch: Vec<Item<Self::In>>,
        context: &Context,
    ) -> Vec<Result<Output<Self::Effect, Self::Note>, StageError>>;

    /// Applies effects in order. Repeated as a whole after [`EffectError::Unavailable`]. By default there are none.
    async fn after_publish(&self, _effects: &[&Self::Effect], _context: &Context) -> Result<(), EffectError> {
        Ok(())
    }
}

/// Item that a stage processes.
#[derive(Debug)]
pub struct Item<T> {
    /// Id of the item in all queues and trails.
    pub id: MessageId,
    /// Decoded content.
    pub value: T,
    /// Number of this attempt as counted by the source, from 1.
    pub attempt: u32,
    /// Counter for stages that count failed attempts themselves.
    pub failures: FailureCounter,
}

/// Number of earlier failed attempts that the stage counts itself. The source does not know them; the trail includes them.
#[derive(Debug, Clone, Default)]
pub struct FailureCounter(Arc<AtomicU32>);

impl FailureCounter {
    /// Sets the number of failures before this attempt.
    pub fn set(&self, failures: u32) {
        self.0.store(failures, Ordering::Relaxed);
    }

    /// Number of this attempt, given the number that the source counts.
    pub(crate) fn attempt(&self, of_source: u32) -> u32 {
        of_source.saturating_add(self.0.load(Ordering::Relaxed))
    }
}

/// Result of a successfully processed item.
#[derive(Debug)]
pub struct Output<E, N> {
    /// Messages to publish.
    pub publish: Vec<Outgoing>,
    /// Effect to apply after the publish.
    pub effect: Option<E>,
    /// Data for the source.
    pub note: N,
    /// Outcome as one word, for the trail and the metrics.
    pub outcome: &'static str,
    /// Detail for the trail.
    pub detail: Option<String>,
}

impl<E, N: Default> Output<E, N> {
    /// Output with an outcome and nothing else.
    pub fn empty(outcome: &'static str) -> Self {
        Self { publish: Vec::new(), effect: None, note: N::default(), outcome, detail: None }
    }
}

/// Reason why a stage could not process an item; it decides how the item is settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// Failed attempt that may succeed later: the item is retried.
    #[error("{error}")]
    Transient {
        /// Delay before the next attempt; by default the back-off of the stage's settings.
        after: Option<Duration>,
        /// Description of the failure.
        error: String,
    },
    /// Failed attempt that the stage has counted itself: the item is requeued at once, even into a full queue. The
    /// stage ends the item after enough failures.
    #[error("{error}")]
    Requeue {
        /// Description of the failure.
        error: String,
    },
    /// Rate limit or outage of the item's group: the item and its group are deferred. Counts no attempt.
    #[error("{reason}")]
    DeferGroup {
        /// Earliest time of the next attempt.
        until: Timestamp,
        /// Reason of the deferral.
        reason: Cow<'static, str>,
    },
    /// The item cannot be processed yet, for a reason of its own: it is deferred, its group is not. Counts no attempt.
    #[error("{reason}")]
    DeferItem {
        /// Earliest time of the next attempt.
        until: Timestamp,
        /// Reason of the deferral.
        reason: String,
    },
    /// Infrastructure that the stage needs is unavailable: the item waits. Counts no attempt.
    #[error("{error}")]
    Unavailable {
        /// Unavailable component, and what to do.
        error: String,
    },
    /// Failure that no further attempt can change: the item becomes a dead letter.
    #[error("{reason}")]
    Permanent {
        /// Reason of the dead letter.
        reason: String,
    },
}

/// Reason why a delivery cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

/// Reason why effects could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EffectError {
    /// Infrastructure is unavailable; the effects are applied again later.
    #[error("{0}")]
    Unavailable(String),
    /// One of the effects can never be applied.
    #[error("{0}")]
    Permanent(String),
}

impl From<StoreError> for EffectError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid { problem } => Self::Permanent(problem),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

impl From<StoreError> for StageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid { problem } => Self::Permanent { reason: problem },
            other => Self::Unavailable { error: other.to_string() },
        }
    }
}

/// Environment of a running stage.
#[derive(Debug, Clone)]
pub struct Context {
    /// Name of the worker process in trails.
    pub worker: Arc<str>,
    /// Clock of the process.
    pub clock: Clock,
    /// Shutdown signal; long work may end early.
    pub stop: Shutdown,
}
