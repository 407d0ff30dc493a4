//! `crawlway up` end to end, through the binary: it serves, it crawls, it is found, it ends, and it refuses.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod ends;
mod lab;
mod refuses;
mod serves;
