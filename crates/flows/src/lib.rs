//! The flows: each its messages, its stages and its wiring. They name contracts and no product.

mod body;
pub mod inventory;
pub mod search;

pub use body::Object;
