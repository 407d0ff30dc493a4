//! Stages and the runner, which is the only code that receives, settles and retries.
//!
//! ```text
//! source ─▶ decode ─▶ run ─▶ publish ─▶ effects ─▶ trail ─▶ settle
//!   ▲         │        │        │          │         │        │
//!   │         └ dead   │        └──────────┴─────────┴────────┴─ ours is out of order: the item waits
//!   └── retry, defer ◀─┘
//! ```
//!
//! A stage says what is done to an item and nothing else. The order above is what makes a kill at any moment harmless:
//! what comes out is durable before anything says that it was made, and the item is settled last of all.

mod coalesce;
mod exclusive;
pub mod fail;
mod lost;
mod meter;
mod replay;
mod runner;
mod source;
mod stage;
mod stop;

pub use coalesce::Coalesce;
pub use exclusive::Exclusive;
pub use lost::{ItemsOf, close_trails_of_the_lost};
pub use meter::{BUCKETS_MS, Meter, Reading};
pub use replay::{ReplayError, replay};
pub use runner::{Flow, HoldBack, MAX_DEFER, Parts, Ran, Settings, retry_delay};
pub use source::{Ended, QueueSource, Source, Wait};
pub use stage::{Context, Counted, EffectError, Invalid, Item, Output, Stage, StageError};
pub use stop::Stop;
