//! `crawlway up` end to end, through the binary: it serves, it crawls, it is found and asked, it ends, and it refuses.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod asks;
mod ends;
mod full_disk;
mod health;
mod inventory;
mod lab;
mod private;
mod refuses;
mod serves;
