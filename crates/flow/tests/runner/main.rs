//! The runner on the embedded broker: every step, and every failure of a step.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

mod batches;
mod drain;
mod endings;
mod every_item_ends;
mod leases;
mod outages;
mod replay;
mod support;
mod suspects;
