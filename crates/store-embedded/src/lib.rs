//! The embedded stores: the contracts of `crawlway-store` inside one process, with nothing else installed.

#[cfg(feature = "beside")]
pub mod beside;
mod gate;

pub use gate::{EmbeddedGate, GateOptions};
