//! Sites that are down for a while: with a clock moved by hand, so that ten minutes take a few seconds.
#![allow(
    clippy::unwrap_used,
    reason = "a failure of what a test sets up fails the test, wherever it is noticed"
)]

mod inventory;
mod search;
mod shared;
mod site;
mod world;
