//! The index in memory: which messages wait where. 32 bytes a message, and never a body.

mod groups;
mod lately;
mod queue;
mod slab;

pub(crate) use queue::Queue;
pub(crate) use slab::{Life, NONE, Slab, Slot};
