//! The `crawlway` program as a library: [`run`] with the flows of a registry is its `main`.
//!
//! A flow is a [`FlowModule`]: its stages, queues, stores, routes and settings. [`FLOWS`] has one line for each.

mod command;
mod config;
mod crash_loop;
mod failure;
pub mod flows;
mod gateway_file;
mod help;
mod log;
mod open;
mod opening;
mod output;
mod permissions;
mod process;
mod quantity;
mod retention;
mod role;
mod service;
mod serving;
mod sharing;
mod time;
mod worker;

pub use config::Config;
pub use flows::{FLOWS, FlowModule};
pub use process::{Handles, OpenStores, Stores};

use anyhow::Context;
use std::process::ExitCode;

/// Runs the command of the command line with these flows, and returns its exit code.
pub fn run(flows: &'static [&'static dyn FlowModule]) -> ExitCode {
    permissions::restrict_new_files();
    if let Err(error) = flows::register(flows) {
        return failure::exit_code(Err(error));
    }
    let line = match help::parse::<command::CommandLine>(std::env::args_os()) {
        Ok(line) => line,
        Err(error) => {
            if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
                output::use_json_for_errors();
                output::error(error.to_string().trim_start_matches("error: ").trim_end());
            } else {
                help::print(&error);
            }
            return u8::try_from(error.exit_code()).unwrap_or(u8::MAX).into();
        }
    };
    failure::exit_code(run_command(line))
}

fn run_command(line: command::CommandLine) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(command::run(line))
}
