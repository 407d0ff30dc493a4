//! The gateway over HTTP on the embedded backends: routes, authentication, limits, health and shutdown.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test, also in helpers")]

mod access;
mod blobs;
mod crawls;
mod dead_letters;
mod harness;
mod health;
mod limits;
mod openapi;
mod queues;
mod search;
mod slow_clients;
mod stores;
mod tokens;
mod urls;
