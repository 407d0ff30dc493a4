//! `crawlway demo` end to end, through the binary: results, output, and files left behind.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

mod early_end;
mod keeps_running;
mod lab;
mod results;
mod truth;
