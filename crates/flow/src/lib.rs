//! Stages and the runner, the only code that receives, settles and retries items.
//!
//! ```text
//! receive ─▶ decode ─▶ run ─▶ publish ─▶ effects ─▶ trail ─▶ settle
//!    ▲         │        │        │          │         │        │
//!    │         └ dead   │        └──────────┴─────────┴────────┴─ infrastructure unavailable: retried with back-off
//!    └── retry, defer ◀─┘
//! ```
//!
//! A stage only processes items. The order of the steps makes a crash between any two of them harmless: output is
//! durable before an effect or a trail mentions it, and the item is settled last.

mod coalesce;
pub mod fail;
mod lost_workers;
mod meter;
mod replay;
mod runner;
mod solo;
mod source;
mod stage;
mod stop;

pub use coalesce::Coalescer;
pub use lost_workers::{ItemsOf, close_trails_of_the_lost};
pub use meter::{BUCKETS_MS, Meter, Reading};
pub use replay::{ReplayError, replay};
pub use runner::{Backpressure, Flow, MAX_DEFER, Parts, Ran, Settings};
pub use solo::Exclusive;
pub use source::{QueueSource, ReceiveWait, Settlement, Source};
pub use stage::{Context, EffectError, FailureCounter, Invalid, Item, Output, Stage, StageError};
pub use stop::Stop;
