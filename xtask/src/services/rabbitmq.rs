//! RabbitMQ server with its management API, for tests.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::docker::Image;
use super::find;
use super::install::{self, Packages};
use super::instance::Instance;
use super::server::{Installed, Server};

pub(super) struct RabbitMq;

const PACKAGES: Packages = Packages {
    what: "RabbitMQ 3.10 or later",
    debian: &["rabbitmq-server"],
    fedora: &["rabbitmq-server"],
    homebrew: &["rabbitmq"],
};

const MIN_VERSION: (u32, u32) = (3, 10);

/// Script that runs a server in the foreground; the testkit uses it for private servers.
const SCRIPT: &str = include_str!("rabbitmq.sh");
const SCRIPT_NAME: &str = "start-rabbitmq";

impl Server for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn find(&self) -> Option<Installed> {
        find::find_in(&folders(), "rabbitmq-server", MIN_VERSION, version_of)
    }

    fn install(&self) -> Result<()> {
        install::packages(&PACKAGES)
    }

    fn image(&self, _durable: bool) -> Option<Image> {
        Some(Image {
            reference: "rabbitmq:3.13-management",
            ports: &[5672, 15672],
            // A published port is not loopback for the container, and `guest` is limited to loopback by default.
            environment: &[("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-rabbit loopback_users []")],
            arguments: vec![],
        })
    }

    /// AMQP, the management API, and two for Erlang distribution.
    fn ports(&self) -> usize {
        4
    }

    fn prepare(&self, instance: &Instance) -> Result<()> {
        fs::write(script(instance), SCRIPT).context("writing the start script")
    }

    fn command(&self, instance: &Instance) -> Command {
        // Absolute, so that it is not resolved in the folder of the programs.
        let mut command = instance.command("/bin/sh");
        command.arg(script(instance)).arg(instance.data.join("server")).arg(&instance.installed.folder);
        command.args(instance.ports.iter().map(ToString::to_string));
        command.env("PATH", path(&instance.installed.folder));
        command
    }

    fn check(&self, instance: &Instance) -> Result<()> {
        let [amqp, management, ..] = instance.ports[..] else { return Ok(()) };
        // AMQP is up last.
        ensure!(is_up(management)?, "it has alarms, or is not up yet");
        find::connect(amqp).map(drop)
    }

    fn variables(&self, instance: &Instance) -> Vec<(&'static str, String)> {
        let [amqp, management, ..] = instance.ports[..] else { return vec![] };
        let mut variables = vec![
            ("CRAWLWAY_TEST_RABBITMQ", format!("amqp://guest:guest@127.0.0.1:{amqp}")),
            ("CRAWLWAY_TEST_RABBITMQ_MANAGEMENT", format!("http://127.0.0.1:{management}")),
        ];
        if !instance.container {
            let programs = instance.installed.folder.display().to_string();
            variables.push(("CRAWLWAY_TEST_RABBITMQ_START", script(instance).display().to_string()));
            variables.push(("CRAWLWAY_TEST_RABBITMQ_PROGRAMS", programs));
        }
        variables
    }

    fn stop_timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

fn script(instance: &Instance) -> PathBuf {
    instance.data.join(SCRIPT_NAME)
}

/// `PATH` of the server, with the folders of Erlang.
fn path(programs: &Path) -> String {
    format!("{}:/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/usr/sbin:/sbin", programs.display())
}

/// Folders of `rabbitmq-server`, the best first. On Debian `PATH` has a wrapper that requires a certain account.
fn folders() -> Vec<PathBuf> {
    let known = ["/usr/lib/rabbitmq/bin", "/opt/homebrew/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin"];
    known.map(PathBuf::from).into_iter().chain(find::search_path(&[])).collect()
}

/// Version from the name of a folder on Debian, else from `rabbitmqctl`, which is slow.
fn version_of(programs: &Path) -> Option<String> {
    let named = fs::read_dir(programs.join("../lib"))
        .ok()
        .into_iter()
        .flatten()
        .flatten()
        .find_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("rabbitmq_server-")?.to_owned()));
    named.or_else(|| find::output_of(&programs.join("rabbitmqctl"), "version"))
}

/// Whether the management API reports no alarms, which it does only when the server is up.
fn is_up(port: u16) -> Result<bool> {
    let mut stream = find::connect(port)?;
    // guest:guest
    stream.write_all(
        b"GET /api/health/checks/local-alarms HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n",
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("it does not answer")?;
    Ok(answer.lines().next().is_some_and(|line| line.contains(" 200 ")))
}
