//! One server from its start until it is stopped.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::process::{self, Process};
use super::room::Room;
use super::run_folder::RunFolder;
use super::server::Server;
use super::{POLL, Row};

/// A machine that builds beside it can be slow; a server that is not up after this is broken.
const UNTIL_HEALTHY: Duration = Duration::from_secs(60);

/// Between finding a free port and taking it, somebody else may take it.
const ATTEMPTS: usize = 3;

/// A server that is up. It is stopped when this is dropped.
pub(super) struct Running<'a> {
    server: &'static dyn Server,
    room: Room,
    child: Child,
    run: &'a RunFolder,
    ended: Option<ExitStatus>,
}

impl<'a> Running<'a> {
    /// Starts a server and returns when it is healthy. Gives up when `stop` says so.
    pub(super) fn start(server: &'static dyn Server, run: &'a RunFolder, stop: &AtomicBool) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut running = Self::spawn(server, run)?;
            match running.wait_until_healthy(stop) {
                Ok(()) => return Ok(running),
                Err(_) if running.has_ended()?.is_some() && running.room.port_is_taken() => {}
                Err(error) => return Err(anyhow!("{error:#}; {}", running.room.last_words())),
            }
        }
        bail!("{ATTEMPTS} times, somebody else was quicker to take its port");
    }

    fn spawn(server: &'static dyn Server, run: &'a RunFolder) -> Result<Self> {
        let room = Room::furnish(server, run)?;
        server.prepare(&room).map_err(|error| anyhow!("{error:#}; {}", room.last_words()))?;
        let mut command = server.command(&room);
        room.log_of(&mut command)?;
        // Its own group, which can be ended as a whole.
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
        let process = Process::now(child.id());
        let running = Running { server, room, child, run, ended: None };
        if let Some(process) = process {
            run.record(server.name(), process, server.stop_signal())?;
        }
        Ok(running)
    }

    fn wait_until_healthy(&mut self, stop: &AtomicBool) -> Result<()> {
        let start = Instant::now();
        loop {
            let check = self.server.check(&self.room);
            // Asked afterwards: who answered on the port may be another if ours has ended.
            if let Some(status) = self.has_ended()? {
                bail!("it ended with {status} before it was healthy");
            }
            match check {
                Ok(()) => return Ok(()),
                Err(_) if stop.load(Ordering::Relaxed) => bail!("told to stop before it was healthy"),
                Err(error) if start.elapsed() > UNTIL_HEALTHY => {
                    return Err(error.context(format!("not healthy after {UNTIL_HEALTHY:?}")));
                }
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    /// Its status, if it has ended.
    pub(super) fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Tells it to stop, without waiting.
    pub(super) fn begin_to_stop(&mut self) {
        if matches!(self.has_ended(), Ok(None)) {
            process::send_to(&self.child, self.server.stop_signal());
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.server.name()
    }

    pub(super) fn last_words(&self) -> String {
        self.room.last_words()
    }

    pub(super) fn row(&self) -> Row {
        let variables = self.server.variables(&self.room);
        Row {
            server: self.server.name().to_owned(),
            version: self.room.installed.version.clone(),
            address: self.room.address(),
            variables: variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            log: self.room.log.clone(),
        }
    }

    fn stop(&mut self) {
        self.begin_to_stop();
        let start = Instant::now();
        while matches!(self.has_ended(), Ok(None)) && start.elapsed() < self.server.patience() {
            thread::sleep(POLL);
        }
        if matches!(self.has_ended(), Ok(None)) {
            process::kill_group(&self.child);
            self.ended = self.child.wait().ok();
        }
        self.run.forget(self.server.name());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
