//! The runner on the embedded broker: every step, and every failure of a step.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod batches;
mod drain;
mod endings;
mod every_item_ends;
mod leases;
mod outages;
mod pause;
mod replay;
mod support;
mod suspects;
