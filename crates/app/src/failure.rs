//! How the program ends: which errors are whose fault, and what the shell is told.

use crate::{ask::Refused, config::Problems, output};
use crawlway_gateway::Problem;
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
    output::error_with_causes(&causes);
    if is_usage(&error) { USAGE.into() } else { FAILED.into() }
}

/// Whether the command line or the settings are to blame.
fn is_usage(error: &anyhow::Error) -> bool {
    let problem = match error.downcast_ref::<Refused>() {
        Some(refused) => Some(&refused.problem),
        None => error.downcast_ref::<Problem>(),
    };
    // 401 and 403 are what a wrong `gateway.token` or `gateway.allowed_hosts` is answered with.
    error.downcast_ref::<UsageError>().is_some()
        || problem.is_some_and(|problem| matches!(problem.status(), 400 | 401 | 403))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
