//! The embedded stores: the contracts of `crawlway-store` inside one process, with nothing else installed.

mod gate;

pub use gate::{EmbeddedGate, GateOptions};
