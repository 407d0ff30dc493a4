//! RabbitMQ with its management API, for tests that make queues of their own on it.

use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::docker::Image;
use super::install::{self, Packages};
use super::room::Room;
use super::server::{Installed, Server};

pub(super) struct RabbitMq;

const PACKAGES: Packages = Packages {
    what: "RabbitMQ 3.10 or later",
    debian: &["rabbitmq-server"],
    fedora: &["rabbitmq-server"],
    homebrew: &["rabbitmq"],
};

const OLDEST: (u32, u32) = (3, 10);

/// Runs a server in the foreground. A file of its own, since tests run servers with it too, to kill them.
const SCRIPT: &str = include_str!("rabbitmq.sh");
const SCRIPT_NAME: &str = "start-rabbitmq";

impl Server for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn find(&self) -> Option<Installed> {
        find_in(&folders(), version_beside)
    }

    fn install(&self) -> Result<()> {
        install::packages(&PACKAGES)
    }

    fn image(&self, _durable: bool) -> Option<Image> {
        Some(Image {
            reference: "rabbitmq:3.13-management",
            ports: &[5672, 15672],
            // Who comes through a published port does not come from the container's own loopback, where guests are let in.
            environment: &[("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-rabbit loopback_users []")],
            arguments: vec![],
        })
    }

    /// For AMQP, for the management API, and two by which Erlang finds its nodes.
    fn ports(&self) -> usize {
        4
    }

    fn prepare(&self, room: &Room) -> Result<()> {
        fs::write(script(room), SCRIPT).context("writing the script that starts it")
    }

    fn command(&self, room: &Room) -> Command {
        // An absolute path stays what it is in whatever folder the server's programs are.
        let mut command = room.command("/bin/sh");
        command.arg(script(room)).arg(room.data.join("server")).arg(&room.installed.folder);
        command.args(room.ports.iter().map(ToString::to_string));
        command.env("PATH", path(&room.installed.folder));
        command
    }

    fn check(&self, room: &Room) -> Result<()> {
        let [amqp, management, ..] = room.ports[..] else { return Ok(()) };
        // AMQP answers last of all.
        ensure!(is_up(management)?, "it has alarms, or is not up yet");
        TcpStream::connect((Ipv4Addr::LOCALHOST, amqp)).map(drop).context("it does not listen")
    }

    fn variables(&self, room: &Room) -> Vec<(&'static str, String)> {
        let [amqp, management, ..] = room.ports[..] else { return vec![] };
        let mut variables = vec![
            ("CRAWLWAY_TEST_RABBITMQ", format!("amqp://guest:guest@127.0.0.1:{amqp}")),
            ("CRAWLWAY_TEST_RABBITMQ_MANAGEMENT", format!("http://127.0.0.1:{management}")),
        ];
        if !room.container {
            let programs = room.installed.folder.display().to_string();
            variables.push(("CRAWLWAY_TEST_RABBITMQ_START", script(room).display().to_string()));
            variables.push(("CRAWLWAY_TEST_RABBITMQ_PROGRAMS", programs));
        }
        variables
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

fn script(room: &Room) -> PathBuf {
    room.data.join(SCRIPT_NAME)
}

/// Where Erlang's programs may be, besides its own folder.
fn path(programs: &Path) -> String {
    format!("{}:/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin:/usr/sbin:/sbin", programs.display())
}

/// Where `rabbitmq-server` itself may be, best first. What is in PATH on Debian is a wrapper that insists on an account.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/lib/rabbitmq/bin")];
    for place in ["/opt/homebrew/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin"] {
        folders.push(place.into());
    }
    folders.extend(env::var_os("PATH").iter().flat_map(|path| env::split_paths(path).collect::<Vec<_>>()));
    folders
}

/// The first folder with the server in a version that will do, which `ask` finds out.
fn find_in(folders: &[PathBuf], ask: impl Fn(&Path) -> Option<String>) -> Option<Installed> {
    folders.iter().filter(|folder| folder.join("rabbitmq-server").is_file()).find_map(|folder| {
        let version = ask(folder)?;
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        let found = (numbers.next()??, numbers.next()??);
        (found >= OLDEST).then(|| Installed { folder: folder.clone(), version })
    })
}

/// The version is in the name of a folder on Debian, and is said by a program elsewhere, which takes its time.
fn version_beside(programs: &Path) -> Option<String> {
    let beside = programs.join("../lib");
    let named = fs::read_dir(beside)
        .ok()
        .into_iter()
        .flatten()
        .flatten()
        .find_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("rabbitmq_server-")?.to_owned()));
    named.or_else(|| {
        let output = Command::new(programs.join("rabbitmqctl"))
            .arg("version")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    })
}

/// Whether the management API says that there are no alarms, which it says only when all is up.
fn is_up(port: u16) -> Result<bool> {
    const LIMIT: Duration = Duration::from_secs(5);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("it does not listen")?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    // guest:guest
    stream.write_all(
        b"GET /api/health/checks/local-alarms HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n",
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("it does not answer")?;
    Ok(answer.lines().next().is_some_and(|line| line.contains(" 200 ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_installation_that_is_new_enough_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let installation = |name: &str, version: &str| {
            let programs = place.path().join(name).join("bin");
            fs::create_dir_all(&programs).unwrap();
            fs::create_dir_all(
                place.path().join(name).join("lib").join(format!("rabbitmq_server-{version}")),
            )
            .unwrap();
            fs::write(programs.join("rabbitmq-server"), "").unwrap();
            programs
        };
        let old = installation("old", "3.8.9");
        let good = installation("good", "3.10.8");
        let newer = installation("newer", "4.1.0");
        let none = place.path().join("none");
        let found = find_in(&[none.clone(), old.clone(), good.clone(), newer], version_beside).unwrap();
        assert_eq!(found, Installed { folder: good, version: "3.10.8".to_owned() });
        assert_eq!(find_in(&[none, old], version_beside), None);
    }
}
