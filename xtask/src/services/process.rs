//! Processes by their id, and the certainty that an id still means the same process.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};

use super::POLL;

/// A process that cannot be mistaken for a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    id: u32,
    /// When it was started, as the system tells it.
    started: String,
}

impl Process {
    /// The process that has this id now.
    pub(super) fn now(id: u32) -> Option<Self> {
        Some(Process { id, started: started(id)? })
    }

    fn lives(&self) -> bool {
        started(self.id).is_some_and(|started| started == self.started)
    }

    /// Ends a process that is not our child, in good order if it lets itself. Says whether there was one.
    pub(super) fn end(&self, signal: Signal, patience: Duration) -> bool {
        if !self.lives() {
            return false;
        }
        for signal in [signal, Signal::KILL] {
            send(self.id, signal);
            let start = Instant::now();
            while self.lives() && start.elapsed() < patience {
                thread::sleep(POLL);
            }
            if !self.lives() {
                break;
            }
        }
        true
    }
}

/// Sends a signal to a child that was not waited for yet, so that its id cannot be another's.
pub(super) fn send_to(child: &Child, signal: Signal) {
    send(child.id(), signal);
}

/// Kills a child that leads a group, and its group.
pub(super) fn kill_group(child: &Child) {
    if let Some(pid) = pid(child.id()) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn send(id: u32, signal: Signal) {
    if let Some(pid) = pid(id) {
        // It may have ended by itself, which is as good.
        let _ = kill_process(pid, signal);
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// When the process was started; nothing if it does not run. A zombie has ended, whoever has not noticed it.
#[cfg(target_os = "linux")]
fn started(id: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // The name of the program comes second, in parentheses, and may have spaces and parentheses of its own.
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

/// Whether a program of this name can be started.
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
    fn a_process_is_ended_by_its_id() {
        let mut child = sleeper();
        let process = Process::now(child.id()).unwrap();
        assert!(process.lives());
        assert!(process.end(Signal::TERM, Duration::from_secs(5)));
        assert!(!process.lives());
        child.wait().unwrap();
        assert!(!process.end(Signal::TERM, Duration::from_secs(5)), "it is gone");
    }

    #[test]
    fn another_process_with_the_same_id_is_left_alone() {
        let mut child = sleeper();
        let before = Process { id: child.id(), started: "long ago".to_owned() };
        assert!(!before.end(Signal::KILL, Duration::from_secs(5)));
        assert!(child.try_wait().unwrap().is_none(), "the sleeper was hit");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
