//! How the program ends: which errors are whose fault, and what the shell is told.

use crate::{config::Problems, output};
use std::{fmt, io, process::ExitCode};

/// The thing asked for failed or was not found.
const FAILED: u8 = 1;
/// The command line or the settings are wrong.
const USAGE: u8 = 2;
/// It was asked to stop before the end.
const STOPPED: u8 = 3;

/// The command line asks for something that cannot be meant.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// What was wrong has been printed already, as the result that was asked for.
#[derive(Debug)]
pub(crate) struct Told(pub(crate) ExitKind);

/// Whose fault it was.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExitKind {
    Failed,
    Usage,
    /// It was asked to stop before the end.
    Stopped,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("see above")
    }
}

impl std::error::Error for Told {}

/// Tells what went wrong and says how to exit.
pub(crate) fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if is_broken_pipe(&error) {
        // Whoever read has read enough, as in `crawlway queues | head -1`.
        return ExitCode::SUCCESS;
    }
    if let Some(Told(kind)) = error.downcast_ref() {
        return match kind {
            ExitKind::Failed => FAILED.into(),
            ExitKind::Usage => USAGE.into(),
            ExitKind::Stopped => STOPPED.into(),
        };
    }
    if let Some(Problems(problems)) = error.downcast_ref() {
        for problem in problems {
            output::error(&problem.to_string());
        }
        return USAGE.into();
    }
    let causes: Vec<String> = error.chain().map(|cause| output::many_lines(&cause.to_string())).collect();
    output::error(&causes.join("\n  caused by: "));
    if error.downcast_ref::<UsageError>().is_some() { USAGE.into() } else { FAILED.into() }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
