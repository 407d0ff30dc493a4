//! Child processes that end with their test.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::BufReader,
    process::{Child, ChildStdout, Command, ExitStatus, Output},
    time::{Duration, Instant},
};

/// Process that is killed on drop.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("starting {command:?}: {error}")))
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Standard output, which must be piped.
    ///
    /// # Panics
    /// If it is not, or was taken before.
    pub fn stdout(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().unwrap_or_else(|| panic!("the output is piped, and read once")))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self::signal(&self.0, signal);
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// If it does not end in time.
    #[track_caller]
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let mut status = None;
        wait_until("the process ends", timeout, || {
            status = self.0.try_wait().ok().flatten();
            status.is_some()
        });
        status.unwrap_or_else(|| panic!("the process has ended"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a running child.
///
/// # Panics
/// If it was waited for.
pub fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let sent = pid.map(|pid| kill_process(pid, signal));
    assert_eq!(sent, Some(Ok(())), "sending {signal:?}");
}

/// Waits for a child and its output. A child that does not end in time is aborted, which the status shows.
///
/// # Panics
/// If it cannot be waited for.
pub fn output(child: Child, timeout: Duration) -> Output {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if watched.recv_timeout(timeout).is_err() {
            pid.map(|pid| kill_process(pid, Signal::ABORT));
        }
    });
    let output = child.wait_with_output().unwrap_or_else(|error| panic!("waiting for a child: {error}"));
    let _ = ended.send(());
    let _ = watch.join();
    output
}

/// Waits for a condition.
///
/// # Panics
/// If the condition does not hold within the timeout.
#[track_caller]
pub fn wait_until(what: &str, timeout: Duration, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < timeout, "timeout while waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
