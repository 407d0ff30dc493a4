//! In-memory index of messages: 32 bytes each, without bodies.

mod groups;
mod queue;
mod rate_window;
mod slab;

pub(crate) use queue::Queue;
pub(crate) use slab::{MessageState, NONE, Slab, Slot};
