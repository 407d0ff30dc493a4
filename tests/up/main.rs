//! `crawlway up` end to end, through the binary: gateway, crawls, commands through the gateway, health, shutdown, rejected
//! settings.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

mod answers;
mod blobs;
mod file_modes;
mod full_disk;
mod gateway;
mod health;
mod inventory;
mod lab;
mod named_brokers;
mod one_process_per_stage;
mod rejected_settings;
mod remote_and_local;
mod requests;
mod search_shared_queue;
mod shutdown;
mod sixth_flow;
mod tls;
mod tokens;
