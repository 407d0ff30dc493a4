//! Redis, for tests that keep to keys of their own on it, or start one of their own.

use std::env;
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

pub(super) struct Redis;

const PROGRAM: &str = "redis-server";

const OLDEST: u32 = 7;

const PACKAGES: Packages = Packages {
    what: "Redis 7 or later",
    debian: &["redis-server"],
    fedora: &["redis"],
    homebrew: &["redis"],
};

/// What is set beside the port and the folder. Every write is in the file before it is answered, so that no test
/// sees a server that loses what it has confirmed.
const SETTINGS: &[(&str, &str)] = &[
    ("--bind", "127.0.0.1"),
    ("--appendonly", "yes"),
    ("--appendfsync", "always"),
    ("--save", ""),
    ("--maxmemory-policy", "noeviction"),
];

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn find(&self) -> Option<Installed> {
        find_in(&folders(), |program| {
            let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        })
    }

    fn install(&self) -> Result<()> {
        install::packages(&PACKAGES)
    }

    fn image(&self, _durable: bool) -> Option<Image> {
        // It listens on all addresses of its container, of which one port is published.
        let settings = SETTINGS.iter().filter(|(name, _)| *name != "--bind");
        let arguments = ["redis-server"].into_iter().chain(settings.flat_map(|&(name, value)| [name, value]));
        let arguments = arguments.collect();
        Some(Image { reference: "redis:7.2-bookworm", ports: &[6379], environment: &[], arguments })
    }

    fn command(&self, room: &Room) -> Command {
        let mut command = room.command(PROGRAM);
        command.arg("--port").arg(room.port().to_string()).arg("--dir").arg(&room.data);
        command.args(SETTINGS.iter().flat_map(|(name, value)| [name, value]));
        command
    }

    fn check(&self, room: &Room) -> Result<()> {
        // Its folder says that it is this server that answers, and not another on the same port.
        let answer = ask(room.port(), "CONFIG GET dir")?;
        ensure!(
            room.container || answer.contains(&*room.data.to_string_lossy()),
            "another server has its port: {answer}"
        );
        Ok(())
    }

    fn variables(&self, room: &Room) -> Vec<(&'static str, String)> {
        let mut variables = vec![("CRAWLWAY_TEST_REDIS", format!("redis://127.0.0.1:{}", room.port()))];
        if !room.container {
            let program = room.installed.folder.join(PROGRAM);
            variables.push(("CRAWLWAY_TEST_REDIS_SERVER", program.display().to_string()));
        }
        variables
    }
}

/// Where its program may be, best first.
fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let others = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"];
    path.unwrap_or_default().into_iter().chain(others.map(PathBuf::from)).collect()
}

/// The first folder with the program in a version that will do, which `ask` gets from the program.
fn find_in(folders: &[PathBuf], ask: impl Fn(&Path) -> Option<String>) -> Option<Installed> {
    folders.iter().filter(|folder| folder.join(PROGRAM).is_file()).find_map(|folder| {
        let version = version(&ask(&folder.join(PROGRAM))?)?;
        let major: u32 = version.split('.').next()?.parse().ok()?;
        (major >= OLDEST).then(|| Installed { folder: folder.clone(), version })
    })
}

/// `7.0.15` of `Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=d81f5a8db9d4a0ac`.
fn version(said: &str) -> Option<String> {
    Some(said.split_once(" v=")?.1.split_whitespace().next()?.to_owned())
}

/// What the server answers to a line.
fn ask(port: u16, line: &str) -> Result<String> {
    const LIMIT: Duration = Duration::from_secs(5);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("it does not listen")?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("it does not answer")?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_first_installation_that_is_new_enough_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let installation = |name: &str, says: &str| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(PROGRAM), format!("Redis server v={says} sha=0:0\n")).unwrap();
            folder
        };
        let [old, good, newer] = [("old", "6.2.7"), ("good", "7.0.15"), ("newer", "8.2.1")]
            .map(|(name, says)| installation(name, says));
        let find_in =
            |folders: &[PathBuf]| super::find_in(folders, |program| fs::read_to_string(program).ok());
        let none = place.path().join("none");
        let found = find_in(&[none.clone(), old.clone(), good.clone(), newer]).unwrap();
        assert_eq!(found, Installed { folder: good, version: "7.0.15".to_owned() });
        assert_eq!(find_in(&[none, old]), None);
    }

    #[test]
    fn what_is_no_version_is_no_version() {
        assert_eq!(version("command not found"), None);
    }
}
