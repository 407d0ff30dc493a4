//! The `crawlway` program: reads the command line, runs the command, tells the shell how it went.

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
    private::from_here_on();
    let line = match help::parse::<command::CommandLine>(std::env::args_os()) {
        Ok(line) => line,
        Err(told) => {
            // Help for a reader that has gone away is no error.
            if told.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
                output::tell_programs();
                output::error(told.to_string().trim_start_matches("error: ").trim_end());
            } else {
                help::print(&told);
            }
            return u8::try_from(told.exit_code()).unwrap_or(u8::MAX).into();
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
