//! The runner on a real queue: what is taken, run, published, noted and settled, and what happens when that fails.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

mod batches;
mod drain;
mod endings;
mod every_item_ends;
mod leases;
mod outages;
mod replaying;
mod support;
mod suspects;
