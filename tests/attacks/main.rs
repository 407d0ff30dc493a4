//! Hostile servers and clients against the binary: what they may take is bounded, and others go on meanwhile.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod clock;
mod crashes;
mod memory;
mod unread;
mod web;
