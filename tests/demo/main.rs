//! `crawlway demo` end to end, through the binary: what it finds, what it says, and what it leaves behind.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod ends;
mod finds;
mod lab;
mod stays;
