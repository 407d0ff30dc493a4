//! The documents are true: every command in them is run, every settings file is read, and routes and metrics match the
//! program.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

mod commands;
mod document;
mod environment;
mod metrics;
mod routes;
mod settings;
