//! Interface of a server: installation, start, health check and stop.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;

use super::docker::Image;
use super::instance::Instance;

/// Kind of server, each in its own file.
pub(super) trait Server: Sync {
    /// Name on the command line and in file names.
    fn name(&self) -> &'static str;

    /// Installation in a sufficient version.
    fn find(&self) -> Option<Installed>;

    /// Installs it; the error has the commands to do it by hand.
    fn install(&self) -> Result<()>;

    /// Docker image, if it may run as a container.
    fn image(&self, _durable: bool) -> Option<Image> {
        None
    }

    /// Number of ports.
    fn ports(&self) -> usize {
        1
    }

    /// Accounts for a server that refuses to run as root; the first existing one is used.
    fn accounts(&self) -> &'static [&'static str] {
        &[]
    }

    /// Initialises the empty data directory.
    fn prepare(&self, _room: &Instance) -> Result<()> {
        Ok(())
    }

    /// Command that runs it in the foreground, with its output in the log.
    fn command(&self, instance: &Instance) -> Command;

    /// Health check, repeated until it succeeds or times out.
    fn check(&self, instance: &Instance) -> Result<()>;

    /// Environment variables with its address, for tests.
    fn variables(&self, instance: &Instance) -> Vec<(&'static str, String)>;

    /// Signal of a graceful shutdown; after [`Server::stop_timeout`] it is killed.
    fn stop_signal(&self) -> Signal {
        Signal::TERM
    }

    /// Timeout of a graceful shutdown.
    fn stop_timeout(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// Installed program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    /// Folder of the programs.
    pub(super) folder: PathBuf,
    pub(super) version: String,
}
