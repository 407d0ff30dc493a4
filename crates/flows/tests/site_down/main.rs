//! Outages of sites, on a manual clock, so that ten minutes take a few seconds.
#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod inventory;
mod search;
mod shared;
mod site;
mod world;
