//! The gateway over HTTP on the embedded backends: every route's good and bad cases, who is let in, and how it ends.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod access;
mod clients;
mod crawls;
mod dead;
mod document;
mod health;
mod lab;
mod limits;
mod queues;
mod search;
mod urls;
