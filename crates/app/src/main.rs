//! The `crawlway` program: parses the command line, runs the command, returns its exit code.

mod ask;
mod command;
mod config;
mod failure;
mod help;
mod log;
mod open;
mod opening;
mod output;
mod presence;
mod private;
mod quantity;
mod restarts;
mod retention;
mod serving;
mod time;
mod worker;

use anyhow::Context;
use std::process::ExitCode;

fn main() -> ExitCode {
    private::restrict_new_files();
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
    failure::exit_code(run(line))
}

fn run(line: command::CommandLine) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(command::run(line))
}
