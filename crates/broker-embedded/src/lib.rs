//! The queue contract on disk in a data directory, with nothing else installed.
//!
//! ```text
//! publish ─▶ request ─▶ writer thread: one write, one fdatasync for all ─▶ index in memory ─▶ receive
//!                            │                                              ▲        │
//!                            ▼                                              │        ▼
//!                       segments (*.seg) ◀── retries, dead letters ── settle: journals (*.ops)
//! ```
//!
//! * A publish returns after its fdatasync, which all concurrent publishers share.
//! * What happens to a message afterwards goes to the journal beside its segment. A journal needs no sync to
//!   outlive a killed process; it is synced about once a second.
//! * A retry, a dead letter or a replay is a copy with its history, durable before the original is marked.
//! * A segment whose messages are all settled is used again; what is left in a nearly settled one is moved.

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
