//! Hostile servers, clients, clocks and kills against the binary: memory and connections are bounded, other work goes on.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

mod clock;
mod crashes;
mod memory;
mod slow_readers;
mod web;
