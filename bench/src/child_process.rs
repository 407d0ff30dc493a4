//! Child processes that are killed with the benchmark, even if it is killed itself.
//!
//! Linux can kill a process when its parent dies, but only the process itself can request that. So the benchmark starts itself
//! again, sets the parent death signal, and executes the program.

use rustix::process::{Signal, set_parent_process_death_signal};
use std::{
    ffi::OsStr,
    os::unix::process::{CommandExt, parent_id},
    process::{Command, ExitCode},
};

/// Process name (`argv[0]`) of such a child before it executes the program.
const NAME: &str = "crawlway-bench-child";

/// This program; the link stays valid when a build replaces the file.
const SELF: &str = "/proc/self/exe";

/// Command for a program that is killed when the thread that starts it ends.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(SELF);
    command.arg0(NAME).arg(std::process::id().to_string()).arg(program);
    command
}

/// Program of a command, of this kind or a usual one.
pub fn program_of(command: &Command) -> String {
    let own = command.get_program() == OsStr::new(SELF);
    let program = if own { command.get_args().nth(1) } else { None };
    program.unwrap_or(command.get_program()).to_string_lossy().into_owned()
}

/// Executes the program if this process is such a child; must be called first in `main`. Returns an exit code if that fails.
pub fn exec_child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.next()? != NAME {
        return None;
    }
    let (parent, program) = (arguments.next()?, arguments.next()?);
    let failed = match set_parent_process_death_signal(Some(Signal::KILL)) {
        // The parent may have died before the signal was set.
        Ok(()) if parent != OsStr::new(&parent_id().to_string()) => return Some(ExitCode::FAILURE),
        Ok(()) => Command::new(&program).args(arguments).exec(),
        Err(error) => error.into(),
    };
    eprintln!("cannot start `{}`: {failed}", program.display());
    Some(ExitCode::FAILURE)
}
