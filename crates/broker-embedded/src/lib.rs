//! Embedded queue: the queue contract on a log-structured store in a data directory.
//!
//! ```text
//! publish ─▶ request ─▶ writer thread: one write, one fdatasync for all ─▶ index in memory ─▶ receive
//!                            │                                              ▲        │
//!                            ▼                                              │        ▼
//!                       segments (*.seg) ◀── retries, dead letters ── settle: journals (*.ops)
//! ```
//!
//! * A publish returns after fdatasync. Concurrent publishers share one (group commit).
//! * Later events of a message go to the settle journal of its segment. A journal write survives a killed process
//!   without a sync; journals are synced about once a second.
//! * A retry, a dead letter or a replay is a copy with its history, durable before the original is marked as moved.
//! * A fully settled segment is recycled. Compaction copies the rest out of a nearly settled one.

mod broker;
mod catalog;
mod disk;
mod engine;
mod error;
mod guarantees;
mod index;
mod journal;
mod record;
mod recover;
mod reserve;
mod segment;

#[cfg(test)]
mod model;

pub use broker::{EmbeddedBroker, Options};
pub use crawlway_clock::{Clock, ManualClock};
pub use error::OpenError;
pub use recover::{Damage, Recovery};
