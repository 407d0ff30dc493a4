//! Exit codes of the program, and how errors are printed.

use crate::{config::Problems, output, service::problem_of};
use crawlway_gateway::service::Error;
use std::{fmt, io, process::ExitCode};

/// The command failed, or found nothing.
const FAILED: u8 = 1;
/// Invalid command line or setting.
const USAGE: u8 = 2;
/// Stopped by a signal before the end.
const STOPPED: u8 = 3;

/// Invalid command line.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Failure that is part of the printed result, so that nothing more is printed.
#[derive(Debug)]
pub(crate) struct AlreadyReported(pub(crate) ExitKind);

/// Kind of exit code other than success.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExitKind {
    Failed,
    Usage,
    /// By a signal, before the end.
    Stopped,
}

impl fmt::Display for AlreadyReported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("see above")
    }
}

impl std::error::Error for AlreadyReported {}

/// Prints the error, if any, and returns the exit code.
pub(crate) fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if is_broken_pipe(&error) {
        // The reader has closed the pipe, as in `crawlway queues | head -1`.
        return ExitCode::SUCCESS;
    }
    if let Some(AlreadyReported(kind)) = error.downcast_ref() {
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

/// Whether the command line or a setting is the cause.
pub(crate) fn is_usage(error: &anyhow::Error) -> bool {
    // A gateway answers 401 or 403 to a wrong `gateway.token` or `gateway.allowed_hosts`.
    error.downcast_ref::<UsageError>().is_some()
        || error.downcast_ref::<Error>().is_some_and(Error::is_invalid)
        || problem_of(error).is_some_and(|problem| matches!(problem.status(), 400 | 401 | 403))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
