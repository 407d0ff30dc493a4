//! `deploy/` compared with the program: names, ports, variables, settings and commands.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

mod compose;
mod container_processes;
mod dockerfile;
mod image;
mod program;
mod readme;
mod secrets;
mod settings;
mod stack;
