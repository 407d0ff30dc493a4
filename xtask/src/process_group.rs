//! Commands in their own process group, which a signal to xtask stops as a whole.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Interval of checks for signals and ended processes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Timeout of the command after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Further time for its child processes before SIGKILL.
const CHILDREN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a command in its own process group, without standard input. A signal to xtask stops the whole group, and is an error.
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("registering signal handlers")?;
    }
    run_until(command, &interrupted)
}

fn run_until(command: &mut Command, interrupted: &AtomicBool) -> Result<ExitStatus> {
    let mut child = command.process_group(0).stdin(Stdio::null()).spawn()?;
    let group = Pid::from_child(&child);
    while !interrupted.load(Ordering::Relaxed) {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(POLL_INTERVAL);
    }
    // Not reaped before both signals are sent: until then the id of the group cannot be reused.
    let _ = kill_process_group(group, Signal::TERM);
    let began = Instant::now();
    while !has_ended(group) && began.elapsed() < STOP_TIMEOUT {
        thread::sleep(POLL_INTERVAL);
    }
    thread::sleep(CHILDREN_TIMEOUT);
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    bail!("interrupted")
}

/// Whether the process has ended, without reaping it.
fn has_ended(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Whether a process runs; a zombie does not.
    fn runs(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    #[test]
    fn an_interrupt_stops_child_processes_too() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        // Like cargo with a test that ignores signals.
        let script = "sh -c 'trap \"\" TERM INT; echo $$ > \"$0.part\"; mv \"$0.part\" \"$0\"; sleep 600; sleep 600' \"$0\" & wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&started);
        let interrupted = AtomicBool::new(false);
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                let began = Instant::now();
                while !started.exists() && began.elapsed() < Duration::from_secs(60) {
                    thread::sleep(POLL_INTERVAL);
                }
                interrupted.store(true, Ordering::Relaxed);
            });
            run_until(&mut command, &interrupted).unwrap_err()
        });
        assert!(error.to_string().contains("interrupted"), "{error}");
        let pid = fs::read_to_string(&started).unwrap();
        let began = Instant::now();
        while runs(pid.trim()) {
            assert!(began.elapsed() < Duration::from_secs(60), "process {pid} was left behind");
            thread::sleep(POLL_INTERVAL);
        }
    }
}
