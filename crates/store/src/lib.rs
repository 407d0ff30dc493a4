//! The store contracts: small traits in the language of the flows, which every backend honours.
//!
//! Each contract has a conformance suite (feature `conformance`) that holds every backend to it. This crate
//! knows nothing of crawling: a group is whom we must not hammer, whatever that is.

pub mod gate;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use crawlway_clock::{Clock, ManualClock, Timestamp};
pub use gate::{Gate, GateError, Group, Limits, Outcome, Permit, Policy, Ticket, Turn, Why};
