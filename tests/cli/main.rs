//! Commands end to end, through the binary: output, changes, refusals, exit codes.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

mod blob;
mod config;
mod dead;
mod fetch;
mod help;
mod home;
mod queues;
mod refusals;
mod robots;
mod sample;
mod terminal;
mod tls;
mod tokens;
