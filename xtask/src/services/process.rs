//! Processes by id and start time, so that a reused id is not mistaken for the same process.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};

use super::POLL_INTERVAL;

/// Process identified by its id and start time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    id: u32,
    /// Start time as reported by the system.
    started: String,
}

impl Process {
    /// Process that has this id now.
    pub(super) fn find(id: u32) -> Option<Self> {
        Some(Process { id, started: started(id)? })
    }

    fn is_alive(&self) -> bool {
        started(self.id).is_some_and(|started| started == self.started)
    }

    /// Stops a process that is not a child, with SIGKILL after the timeout. Returns whether it was alive.
    pub(super) fn stop(&self, signal: Signal, timeout: Duration) -> bool {
        if !self.is_alive() {
            return false;
        }
        for signal in [signal, Signal::KILL] {
            send(self.id, signal);
            let start = Instant::now();
            while self.is_alive() && start.elapsed() < timeout {
                thread::sleep(POLL_INTERVAL);
            }
            if !self.is_alive() {
                break;
            }
        }
        true
    }
}

/// Sends a signal to a child that is not reaped yet, so that its id is still its own.
pub(super) fn send_to(child: &Child, signal: Signal) {
    send(child.id(), signal);
}

/// Kills the process group of a child.
pub(super) fn kill_group(child: &Child) {
    if let Some(pid) = pid(child.id()) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn send(id: u32, signal: Signal) {
    if let Some(pid) = pid(id) {
        // The process may have ended.
        let _ = kill_process(pid, signal);
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// Start time of a process; `None` if it has ended, also as a zombie.
#[cfg(target_os = "linux")]
fn started(id: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // The second field is the name in parentheses, which may contain spaces and parentheses.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    let state = rest.next()?;
    let ticks = rest.nth(18)?;
    (state != "Z" && state != "X").then(|| format!("{ticks} ticks after boot {}", boot.trim()))
}

#[cfg(not(target_os = "linux"))]
fn started(id: u32) -> Option<String> {
    let output = Command::new("ps")
        .args(["-o", "stat=,lstart=", "-p", &id.to_string()])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (state, started) = line.split_once(char::is_whitespace)?;
    (!state.starts_with('Z')).then(|| started.trim().to_owned())
}

/// Whether a program can be started.
pub(super) fn exists(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    #[test]
    fn a_process_is_stopped_by_its_id() {
        let mut child = sleeper();
        let process = Process::find(child.id()).unwrap();
        assert!(process.is_alive());
        assert!(process.stop(Signal::TERM, Duration::from_secs(5)));
        assert!(!process.is_alive());
        child.wait().unwrap();
        assert!(!process.stop(Signal::TERM, Duration::from_secs(5)), "it has ended");
    }

    #[test]
    fn another_process_with_the_same_id_is_left_alone() {
        let mut child = sleeper();
        let before = Process { id: child.id(), started: "long ago".to_owned() };
        assert!(!before.stop(Signal::KILL, Duration::from_secs(5)));
        assert!(child.try_wait().unwrap().is_none(), "the other process was killed");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
