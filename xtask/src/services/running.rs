//! Running server, from its start to its stop.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::docker;
use super::instance::Instance;
use super::process::{self, Process};
use super::run_directory::RunDirectory;
use super::server::Server;
use super::{POLL_INTERVAL, Row};

/// Timeout of the first successful health check, also on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of attempts, since another process may take the free port first.
const MAX_ATTEMPTS: usize = 3;

/// Running server, stopped on drop.
pub(super) struct RunningServer<'a> {
    server: &'static dyn Server,
    instance: Instance,
    child: Child,
    run: &'a RunDirectory,
    ended: Option<ExitStatus>,
}

impl<'a> RunningServer<'a> {
    /// Starts a server and waits until it is healthy, or until `stop` is set.
    pub(super) fn start(
        server: &'static dyn Server,
        run: &'a RunDirectory,
        stop: &AtomicBool,
    ) -> Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let mut running = Self::spawn(server, run)?;
            match running.wait_until_healthy(stop) {
                Ok(()) => return Ok(running),
                Err(_) if running.has_ended()?.is_some() && running.instance.port_is_taken() => {}
                Err(error) => return Err(anyhow!("{error:#}; {}", running.instance.log_excerpt())),
            }
        }
        bail!("another process took its port in {MAX_ATTEMPTS} attempts");
    }

    fn spawn(server: &'static dyn Server, run: &'a RunDirectory) -> Result<Self> {
        let instance = Instance::allocate(server, run)?;
        let mut command = if let Some(image) = server.image(instance.durable).filter(|_| instance.container) {
            docker::command(&image, &instance)
        } else {
            server.prepare(&instance).map_err(|error| anyhow!("{error:#}; {}", instance.log_excerpt()))?;
            server.command(&instance)
        };
        instance.redirect_to_log(&mut command)?;
        // In its own process group, which can be killed as a whole.
        let child = command
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
        let process = Process::find(child.id());
        let running = RunningServer { server, instance, child, run, ended: None };
        if let Some(process) = process {
            run.record(server.name(), process, server.stop_signal())?;
        }
        Ok(running)
    }

    fn wait_until_healthy(&mut self, stop: &AtomicBool) -> Result<()> {
        let start = Instant::now();
        loop {
            let check = self.server.check(&self.instance);
            // After the health check: if it has ended, another server may have answered.
            if let Some(status) = self.has_ended()? {
                bail!("it ended with {status} before it was healthy");
            }
            match check {
                Ok(()) => return Ok(()),
                Err(_) if stop.load(Ordering::Relaxed) => bail!("interrupted before it was healthy"),
                Err(error) if start.elapsed() > START_TIMEOUT => {
                    return Err(error.context(format!("not healthy after {START_TIMEOUT:?}")));
                }
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Exit status, if it has ended.
    pub(super) fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Sends the stop signal, without waiting.
    pub(super) fn request_stop(&mut self) {
        if matches!(self.has_ended(), Ok(None)) {
            process::send_to(&self.child, self.server.stop_signal());
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.server.name()
    }

    pub(super) fn log_excerpt(&self) -> String {
        self.instance.log_excerpt()
    }

    pub(super) fn row(&self) -> Row {
        let variables = self.server.variables(&self.instance);
        Row {
            server: self.server.name().to_owned(),
            version: self.instance.installed.version.clone(),
            address: self.instance.address(),
            variables: variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            log: self.instance.log.clone(),
        }
    }

    fn stop(&mut self) {
        self.request_stop();
        let start = Instant::now();
        while matches!(self.has_ended(), Ok(None)) && start.elapsed() < self.server.stop_timeout() {
            thread::sleep(POLL_INTERVAL);
        }
        if matches!(self.has_ended(), Ok(None)) {
            process::kill_group(&self.child);
            self.ended = self.child.wait().ok();
        }
        if self.instance.container {
            docker::remove(&self.instance);
        }
        self.run.remove_record(self.server.name());
    }
}

impl Drop for RunningServer<'_> {
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

    /// Server that runs a shell script.
    struct Fake {
        /// Scripts of the attempts; the last one repeats.
        scripts: &'static [&'static str],
        /// Whether another process takes the port of the first attempt.
        port_conflict: bool,
        attempts: AtomicUsize,
        other_process: Mutex<Option<TcpListener>>,
    }

    fn fake(scripts: &'static [&'static str], port_conflict: bool) -> &'static Fake {
        let fake =
            Fake { scripts, port_conflict, attempts: AtomicUsize::new(0), other_process: Mutex::new(None) };
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

        fn command(&self, instance: &Instance) -> Command {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            if self.port_conflict && attempt == 0 {
                let listener = TcpListener::bind(("127.0.0.1", instance.port())).unwrap();
                *self.other_process.lock().unwrap() = Some(listener);
            }
            let mut command = instance.command("sh");
            command.arg("-c").arg(self.scripts[attempt.min(self.scripts.len() - 1)]);
            command
        }

        fn check(&self, instance: &Instance) -> Result<()> {
            std::fs::read(instance.data.join("up")).map(|_| ()).context("it is not up")
        }

        fn variables(&self, _room: &Instance) -> Vec<(&'static str, String)> {
            vec![]
        }

        fn stop_timeout(&self) -> Duration {
            Duration::from_millis(100)
        }
    }

    fn start(fake: &'static Fake, then: impl FnOnce(Result<RunningServer<'_>>)) {
        let services = tempfile::tempdir().unwrap();
        let run = RunDirectory::open(services.path(), false).unwrap();
        then(RunningServer::start(fake, &run, &AtomicBool::new(false)));
    }

    #[test]
    fn a_start_is_retried_after_a_port_conflict() {
        let fake = fake(&["exit 1", "touch up; exec sleep 600"], true);
        start(fake, |started| {
            let mut running = started.unwrap();
            assert!(running.has_ended().unwrap().is_none());
        });
        assert_eq!(fake.attempts.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_failed_start_is_reported_with_the_log() {
        let fake = fake(&["echo 'no such setting'; exit 3"], false);
        start(fake, |started| {
            let Err(error) = started else { panic!("it started") };
            let error = error.to_string();
            assert!(error.contains("exit status: 3") && error.contains("no such setting"), "{error}");
        });
        assert_eq!(fake.attempts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_server_is_killed_after_the_stop_timeout() {
        let fake = fake(&["trap '' TERM; touch up; while :; do sleep 0.01; done"], false);
        start(fake, |started| {
            let running = started.unwrap();
            let id = running.child.id();
            drop(running);
            assert_eq!(Process::find(id), None);
        });
    }

    #[test]
    fn a_start_can_be_interrupted() {
        let services = tempfile::tempdir().unwrap();
        let run = RunDirectory::open(services.path(), false).unwrap();
        let Err(error) = RunningServer::start(fake(&["exec sleep 600"], false), &run, &AtomicBool::new(true))
        else {
            panic!("it started")
        };
        assert!(error.to_string().contains("interrupted"), "{error}");
    }
}
