//! Programs that end with the one that started them, however that ends: a benchmark that is killed leaves nothing behind.
//!
//! The system is asked to kill a process when its parent dies, and only the process itself can ask. So the benchmark starts
//! itself once more, asks, and becomes the program; the number of the process stays the same.

use rustix::process::{Signal, set_parent_process_death_signal};
use std::{
    ffi::OsStr,
    os::unix::process::{CommandExt, parent_id},
    process::{Command, ExitCode},
};

/// What such a process is called until it has become the program.
const NAME: &str = "crawlway-bench-child";

/// This program. A build may have put another file in its place, but this link still leads to it.
const SELF: &str = "/proc/self/exe";

/// A command that runs a program, which ends when the thread that starts it does.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(SELF);
    command.arg0(NAME).arg(std::process::id().to_string()).arg(program);
    command
}

/// The name of the program that a command runs, this way or as usual.
pub fn program_of(command: &Command) -> String {
    let own = command.get_program() == OsStr::new(SELF);
    let program = if own { command.get_args().nth(1) } else { None };
    program.unwrap_or(command.get_program()).to_string_lossy().into_owned()
}

/// The first thing that a benchmark does: becomes the program that it was asked to become, if it was. An exit code
/// means that it could not.
pub fn become_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.next()? != NAME {
        return None;
    }
    let (parent, program) = (arguments.next()?, arguments.next()?);
    let failed = match set_parent_process_death_signal(Some(Signal::KILL)) {
        // Who died before it could be asked for sends no signal any more.
        Ok(()) if parent != OsStr::new(&parent_id().to_string()) => return Some(ExitCode::FAILURE),
        Ok(()) => Command::new(&program).args(arguments).exec(),
        Err(error) => error.into(),
    };
    eprintln!("cannot start `{}`: {failed}", program.display());
    Some(ExitCode::FAILURE)
}
