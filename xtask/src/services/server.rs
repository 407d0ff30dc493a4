//! What the frame has to know of a server, so that it can install, start, watch and stop it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;

use super::docker::Image;
use super::room::Room;

/// A kind of server. Everything that is special about one is in its own file.
pub(super) trait Server: Sync {
    /// What it is called on the command line and in the names of files.
    fn name(&self) -> &'static str;

    /// Where it is installed, if it is, in a version that will do.
    fn find(&self) -> Option<Installed>;

    /// Installs it, or says how it is installed by hand.
    fn install(&self) -> Result<()>;

    /// What it is as a container, if it may have to be one.
    fn image(&self, _durable: bool) -> Option<Image> {
        None
    }

    /// How many free ports it needs.
    fn ports(&self) -> usize {
        1
    }

    /// Accounts to run it under if we are root and it refuses to be; the first that exists is taken.
    fn instead_of_root(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fills the data directory, which is empty.
    fn prepare(&self, _room: &Room) -> Result<()> {
        Ok(())
    }

    /// The command that runs it in the foreground. Its output goes to the log.
    fn command(&self, room: &Room) -> Command;

    /// Whether it does its work. An error says what is missing; the frame asks again until its patience ends.
    fn check(&self, room: &Room) -> Result<()>;

    /// The variables that tell tests where it is.
    fn variables(&self, room: &Room) -> Vec<(&'static str, String)>;

    /// The signal that ends it in good order. After [`Server::patience`] it is killed.
    fn stop_signal(&self) -> Signal {
        Signal::TERM
    }

    /// How long it may take to stop.
    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// A server that was found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    /// The folder of its programs.
    pub(super) folder: PathBuf,
    pub(super) version: String,
}
