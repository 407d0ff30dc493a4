//! A command together with everything that it starts: a signal to us ends all of it, and nothing is left running.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How often it is looked whether something has happened.
const POLL: Duration = Duration::from_millis(20);

/// How long the command has to end once it was asked to, and how long what it has started has after that.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(1));

/// Runs the command in a group of its own and waits for its end. If a signal asks us to end meanwhile, the whole group is asked, and
/// then made, to end, which is an error. A terminal cannot be read in there.
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&asked)).context("preparing for signals")?;
    }
    run_until(command, &asked)
}

fn run_until(command: &mut Command, asked: &AtomicBool) -> Result<ExitStatus> {
    let mut child = command.process_group(0).stdin(Stdio::null()).spawn()?;
    let group = Pid::from_child(&child);
    while !asked.load(Ordering::Relaxed) {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(POLL);
    }
    // The command is not reaped before the group has had both signals: its number, which is the group's, cannot be anybody
    // else's until then.
    let _ = kill_process_group(group, Signal::TERM);
    let began = Instant::now();
    while !has_ended(group) && began.elapsed() < PATIENCE.0 {
        thread::sleep(POLL);
    }
    thread::sleep(PATIENCE.1);
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    bail!("interrupted; what was running is ended")
}

/// Whether the process has ended, without reaping it.
fn has_ended(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), look), Ok(None))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether a process of this number runs; one that nobody has reaped yet does not.
    fn runs(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    #[test]
    fn an_interrupted_command_leaves_nothing_running_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        // As cargo and a test that pays no attention to signals.
        let script = "sh -c 'trap \"\" TERM INT; echo $$ > \"$0.part\"; mv \"$0.part\" \"$0\"; sleep 600; sleep 600' \"$0\" & wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&started);
        let asked = AtomicBool::new(false);
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                let began = Instant::now();
                while !started.exists() && began.elapsed() < Duration::from_secs(60) {
                    thread::sleep(POLL);
                }
                asked.store(true, Ordering::Relaxed);
            });
            run_until(&mut command, &asked).unwrap_err()
        });
        assert!(error.to_string().contains("interrupted"), "{error}");
        let pid = fs::read_to_string(&started).unwrap();
        let began = Instant::now();
        while runs(pid.trim()) {
            assert!(began.elapsed() < Duration::from_secs(60), "process {pid} was left behind");
            thread::sleep(POLL);
        }
    }

    #[test]
    fn a_command_that_nobody_interrupts_tells_how_it_ended() {
        let status = run_until(Command::new("sh").args(["-c", "exit 7"]), &AtomicBool::new(false)).unwrap();
        assert_eq!(status.code(), Some(7));
    }
}
