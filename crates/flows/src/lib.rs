//! Flows: messages, stages and wiring of each. They depend on contracts, not on backends.

mod body;
pub mod inventory;
pub mod requests;
pub mod search;

pub use body::Object;
