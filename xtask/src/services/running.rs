//! One server from its start until it is stopped.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::docker;
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
        let mut command = if let Some(image) = server.image(room.durable).filter(|_| room.container) {
            docker::command(&image, &room)
        } else {
            server.prepare(&room).map_err(|error| anyhow!("{error:#}; {}", room.last_words()))?;
            server.command(&room)
        };
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
        if self.room.container {
            docker::remove(&self.room);
        }
        self.run.forget(self.server.name());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::Command;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::super::server::Installed;
    use super::*;

    /// A server that is a line of shell, so that it fails as a test wants it to.
    struct Fake {
        /// What its attempts run, the last one again and again.
        scripts: &'static [&'static str],
        /// Whether somebody else is quicker to take the port of the first attempt.
        clash: bool,
        attempts: AtomicUsize,
        somebody_else: Mutex<Option<TcpListener>>,
    }

    fn fake(scripts: &'static [&'static str], clash: bool) -> &'static Fake {
        let fake = Fake { scripts, clash, attempts: AtomicUsize::new(0), somebody_else: Mutex::new(None) };
        Box::leak(Box::new(fake))
    }

    impl Server for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn find(&self) -> Option<Installed> {
            Some(Installed { folder: "/bin".into(), version: "1".to_owned() })
        }

        fn install(&self) -> Result<()> {
            Ok(())
        }

        fn command(&self, room: &Room) -> Command {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            if self.clash && attempt == 0 {
                let listener = TcpListener::bind(("127.0.0.1", room.port())).unwrap();
                *self.somebody_else.lock().unwrap() = Some(listener);
            }
            let mut command = room.command("sh");
            command.arg("-c").arg(self.scripts[attempt.min(self.scripts.len() - 1)]);
            command
        }

        fn check(&self, room: &Room) -> Result<()> {
            std::fs::read(room.data.join("up")).map(|_| ()).context("it is not up")
        }

        fn variables(&self, _room: &Room) -> Vec<(&'static str, String)> {
            vec![]
        }

        fn patience(&self) -> Duration {
            Duration::from_millis(100)
        }
    }

    fn start(fake: &'static Fake, then: impl FnOnce(Result<Running<'_>>)) {
        let services = tempfile::tempdir().unwrap();
        let run = RunFolder::open(services.path(), false).unwrap();
        then(Running::start(fake, &run, &AtomicBool::new(false)));
    }

    #[test]
    fn a_port_that_somebody_else_took_is_no_reason_to_fail() {
        let fake = fake(&["exit 1", "touch up; exec sleep 600"], true);
        start(fake, |started| {
            let mut running = started.unwrap();
            assert!(running.has_ended().unwrap().is_none());
        });
        assert_eq!(fake.attempts.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_server_that_fails_is_tried_once_and_its_log_is_shown() {
        let fake = fake(&["echo 'no such setting'; exit 3"], false);
        start(fake, |started| {
            let Err(error) = started else { panic!("it started") };
            let error = error.to_string();
            assert!(error.contains("exit status: 3") && error.contains("no such setting"), "{error}");
        });
        assert_eq!(fake.attempts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_server_that_does_not_want_to_stop_is_killed() {
        let fake = fake(&["trap '' TERM; touch up; while :; do sleep 0.01; done"], false);
        start(fake, |started| {
            let running = started.unwrap();
            let id = running.child.id();
            drop(running);
            assert_eq!(Process::now(id), None);
        });
    }

    #[test]
    fn who_is_told_to_stop_does_not_wait_for_a_server_to_come_up() {
        let services = tempfile::tempdir().unwrap();
        let run = RunFolder::open(services.path(), false).unwrap();
        let Err(error) = Running::start(fake(&["exec sleep 600"], false), &run, &AtomicBool::new(true))
        else {
            panic!("it started")
        };
        assert!(error.to_string().contains("told to stop"), "{error}");
    }
}
