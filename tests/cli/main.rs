//! End to end, through the binary: what the commands print, what they change, how they refuse, how they exit.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

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
