//! What is done to an item.

use crate::Stop;
use crawlway_broker::{Delivery, MessageId, Outgoing};
use crawlway_clock::{Clock, Timestamp};
use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// What is done to items. Running a stage twice on one item leaves the same state as running it once, since an item
/// whose worker died comes again.
#[async_trait::async_trait]
pub trait Stage: Send + Sync + 'static {
    /// What an item carries.
    type In: Send + 'static;
    /// What must happen after what came out was published, and before the item is settled.
    type Effect: Send + Sync + 'static;
    /// What the source is told when an item is done. `()` for queues.
    type Note: Default + Send + Sync + 'static;

    /// The stage's name, in trails and metrics.
    fn name(&self) -> &'static str;

    /// Reads an item. What cannot be read is a dead letter at once, with this reason.
    fn decode(&self, delivery: &Delivery) -> Result<Self::In, Invalid>;

    /// What an item is about, such as its URL; its trail can be found by that.
    fn subject(&self, input: &Self::In) -> Option<String>;

    /// The id that an item carries itself, where whoever published it may have given the message another. Its trail goes
    /// by it.
    fn own_id(&self, _input: &Self::In) -> Option<MessageId> {
        None
    }

    /// Does the work for a batch, of the size the stage is wired with. One answer per item, in order.
    async fn run(
        &self,
        batch: Vec<Item<Self::In>>,
        context: &Context,
    ) -> Vec<Result<Output<Self::Effect, Self::Note>, StageError>>;

    /// Applies effects, in order. Repeated as a whole when it fails because of us.
    async fn after_publish(&self, effects: &[&Self::Effect], context: &Context) -> Result<(), EffectError>;
}

/// An item on its way through a stage.
#[derive(Debug)]
pub struct Item<T> {
    /// The id that follows it everywhere.
    pub id: MessageId,
    /// What it carries.
    pub value: T,
    /// Which attempt this is, from 1, as far as the source counts.
    pub attempt: u32,
    /// Where a stage that counts failures itself says how many there were before.
    pub counted: Counted,
}

/// How many failures of an item its stage has counted itself. Its source knows nothing of them, and its trail does.
#[derive(Debug, Clone, Default)]
pub struct Counted(Arc<AtomicU32>);

impl Counted {
    /// So many failures came before this attempt.
    pub fn failures(&self, number: u32) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Which attempt this is, when the source takes it for that one.
    pub(crate) fn attempt(&self, of_source: u32) -> u32 {
        of_source.saturating_add(self.0.load(Ordering::Relaxed))
    }
}

/// What came of an item.
#[derive(Debug)]
pub struct Output<E, N> {
    /// What is sent on.
    pub publish: Vec<Outgoing>,
    /// What must happen after that.
    pub effect: Option<E>,
    /// What the source is told.
    pub note: N,
    /// What became of the item, in a word, for its trail and the metrics.
    pub outcome: &'static str,
    /// More about it, for its trail.
    pub detail: Option<String>,
}

impl<E, N: Default> Output<E, N> {
    /// Nothing comes of it but this word.
    pub fn nothing(outcome: &'static str) -> Self {
        Self { publish: Vec::new(), effect: None, note: N::default(), outcome, detail: None }
    }
}

/// Why a stage could not do its work on an item.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// Trying again may help. Counts as an attempt.
    #[error("{error}")]
    Transient {
        /// How long to wait; by the stage's settings if nothing is said.
        after: Option<Duration>,
        /// What went wrong.
        error: String,
    },
    /// It goes back to its source at once, where a full queue takes it. The stage has counted the failure itself, and
    /// ends the item when there were enough.
    #[error("{error}")]
    Again {
        /// What went wrong.
        error: String,
    },
    /// It is not this item's turn, nor that of the others of its group. Counts nothing.
    #[error("{why}")]
    NotYet {
        /// When it is.
        until: Timestamp,
        /// Why not now.
        why: Cow<'static, str>,
    },
    /// Something holds up this item and not the others of its group. Counts nothing.
    #[error("{why}")]
    HeldUp {
        /// When to look again.
        until: Timestamp,
        /// By what.
        why: String,
    },
    /// Something of ours is out of order. The item waits; counts nothing.
    #[error("{error}")]
    Ours {
        /// What, and what to do.
        error: String,
    },
    /// No further attempt can help.
    #[error("{reason}")]
    Permanent {
        /// Why.
        reason: String,
    },
}

/// What cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

/// Why effects could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EffectError {
    /// Something of ours is out of order: again later.
    #[error("{0}")]
    Ours(String),
    /// One of the effects can never be applied.
    #[error("{0}")]
    Never(String),
}

impl From<crawlway_store::StoreError> for EffectError {
    fn from(error: crawlway_store::StoreError) -> Self {
        match error {
            crawlway_store::StoreError::Invalid { problem } => Self::Never(problem),
            other => Self::Ours(other.to_string()),
        }
    }
}

impl From<crawlway_store::StoreError> for StageError {
    fn from(error: crawlway_store::StoreError) -> Self {
        match error {
            crawlway_store::StoreError::Invalid { problem } => Self::Permanent { reason: problem },
            other => Self::Ours { error: other.to_string() },
        }
    }
}

/// What a stage may know about where it runs.
#[derive(Debug, Clone)]
pub struct Context {
    /// The process, as trails name it.
    pub worker: Arc<str>,
    /// The time.
    pub clock: Clock,
    /// Whether the process is about to end; long work may stop early.
    pub stop: Stop,
}
