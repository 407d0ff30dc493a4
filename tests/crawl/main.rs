//! The flow `search` end to end, through the binary, against a web of known content: what is found, what is not, and
//! what a kill at any moment leaves behind.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod bad_input;
mod commands;
mod earlier_release;
mod fleet;
mod foreign;
mod given;
mod kills;
mod lab;
mod left_out;
mod log;
mod out;
mod outages;
mod postgres;
mod recrawl;
mod redis_keys;
mod second_command;
mod shared;
mod site;
mod steps;
mod stored;
mod traps;
mod vanish;
mod versions;
