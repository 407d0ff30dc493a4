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
mod item_id;
mod lost_workers;
mod metrics;
mod pause;
mod replay;
mod runner;
mod shutdown;
mod solo;
mod source;
mod stage;

pub use coalesce::Coalescer;
pub use item_id::ItemId;
pub use lost_workers::{StageQueue, close_lost_trails};
pub use metrics::{BUCKETS_MS, StageMetrics, StageSnapshot};
pub use pause::StagePause;
pub use replay::{ReplayError, ReplayedQueue, replay};
pub use runner::{Backpressure, Flow, FlowExit, FlowServices, MAX_DEFER, Settings};
pub use shutdown::Shutdown;
pub use solo::SoloLock;
pub use source::{QueueSource, ReceiveWait, Settlement, Source};
pub use stage::{Context, EffectError, FailureCounter, Invalid, Item, Output, Stage, StageError};
