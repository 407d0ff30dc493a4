//! The documents keep their word: every command in them is run, every settings file in them is read, and the HTTP API in
//! them is the one that is served.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod commands;
mod document;
mod metrics;
mod routes;
mod scene;
mod settings;
