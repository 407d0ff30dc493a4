//! What `deploy/` says, held against the program: names, ports, variables, settings and commands.

#![allow(clippy::unwrap_used, reason = "what surprises a test must end it, also outside of test functions")]

mod compose;
mod dockerfile;
mod image;
mod program;
mod readme;
mod runs;
mod secrets;
mod settings;
mod stack;
