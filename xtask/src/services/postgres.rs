//! PostgreSQL, for tests that make databases of their own on it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::docker::Image;
use super::install::{self, Packages};
use super::room::Room;
use super::server::{Installed, Server};

pub(super) struct Postgres;

const OLDEST: u32 = 13;

const PACKAGES: Packages = Packages {
    what: "PostgreSQL 13 or later",
    debian: &["postgresql"],
    fedora: &["postgresql-server"],
    homebrew: &["postgresql@17"],
};

/// What is set beside the port.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    // A socket's path may have 107 bytes, and that of a target directory is often longer.
    "unix_socket_directories=",
    "max_connections=200",
    "timezone=UTC",
    "log_timezone=UTC",
    // In the data directory rather than the system's shared memory, so that even a kill leaves nothing behind.
    "dynamic_shared_memory_type=mmap",
];

/// For tests. Commits still wait for their write, so that no test sees a server that loses them when it is killed; only
/// the wait for the disk is left out, which guards against power cuts.
const NOT_DURABLE: &[&str] = &["fsync=off", "full_page_writes=off"];

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn find(&self) -> Option<Installed> {
        find_in(&folders(), |postgres| said_by(postgres, "--version"))
    }

    fn install(&self) -> Result<()> {
        install::packages(&PACKAGES)
    }

    fn image(&self, durable: bool) -> Option<Image> {
        // What is set for a server of this machine is about its paths and addresses, which a container has its own of.
        let mut arguments = vec!["-c", "max_connections=200", "-c", "timezone=UTC", "-c", "log_timezone=UTC"];
        let more = if durable { &[] } else { NOT_DURABLE };
        arguments.extend(more.iter().flat_map(|&setting| ["-c", setting]));
        Some(Image {
            reference: "postgres:17-bookworm",
            ports: &[5432],
            environment: &[("POSTGRES_HOST_AUTH_METHOD", "trust")],
            arguments,
        })
    }

    fn instead_of_root(&self) -> &'static [&'static str] {
        &["postgres", "nobody"]
    }

    fn prepare(&self, room: &Room) -> Result<()> {
        let options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "-D"];
        let mut args: Vec<&OsStr> = options.map(OsStr::new).to_vec();
        args.push(room.data.as_os_str());
        room.run("initdb", &args)
    }

    fn command(&self, room: &Room) -> Command {
        let mut command = room.command("postgres");
        command.arg("-D").arg(&room.data).arg("-p").arg(room.port().to_string());
        let more = if room.durable { &[] } else { NOT_DURABLE };
        command.args(SETTINGS.iter().chain(more).flat_map(|setting| ["-c", setting]));
        command
    }

    fn check(&self, room: &Room) -> Result<()> {
        if room.container {
            return log_in(room.port());
        }
        // Its own file says that it is this server that is ready, and not another on the same port.
        let state = fs::read_to_string(room.data.join("postmaster.pid")).context("it has no process yet")?;
        ensure!(state.lines().nth(7).is_some_and(|line| line.trim() == "ready"), "it is not ready yet");
        log_in(room.port())
    }

    fn variables(&self, room: &Room) -> Vec<(&'static str, String)> {
        vec![("CRAWLWAY_TEST_POSTGRES", format!("postgres://postgres@127.0.0.1:{}/postgres", room.port()))]
    }

    /// Its fast shutdown. What it does on SIGTERM is to wait for clients to leave.
    fn stop_signal(&self) -> Signal {
        Signal::INT
    }
}

/// Where its programs may be, best first.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    if let Some(said) = said_by(Path::new("pg_config"), "--bindir") {
        folders.push(said.into());
    }
    // Out of PATH, a folder for each version: Debian, PostgreSQL's own packages for Fedora, and Homebrew.
    for (place, prefix) in [
        ("/usr/lib/postgresql", ""),
        ("/usr", "pgsql-"),
        ("/opt/homebrew/opt", "postgresql"),
        ("/usr/local/opt", "postgresql"),
        ("/home/linuxbrew/.linuxbrew/opt", "postgresql"),
    ] {
        let Ok(entries) = fs::read_dir(place) else { continue };
        let mut found: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
            .map(|entry| entry.path().join("bin"))
            .collect();
        found.sort();
        folders.extend(found.into_iter().rev());
    }
    folders
}

/// The first folder with all programs in a version that will do, which `ask` gets from the program.
fn find_in(folders: &[PathBuf], ask: impl Fn(&Path) -> Option<String>) -> Option<Installed> {
    folders.iter().filter(|folder| folder.join("initdb").is_file()).find_map(|folder| {
        let version = version(&ask(&folder.join("postgres"))?)?;
        let major: u32 = version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        (major >= OLDEST).then(|| Installed { folder: folder.clone(), version })
    })
}

/// `15.18` of `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version(said: &str) -> Option<String> {
    Some(said.split_once("(PostgreSQL) ")?.1.split_whitespace().next()?.to_owned())
}

fn said_by(program: &Path, question: &str) -> Option<String> {
    let output =
        Command::new(program).arg(question).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Logs in as tests will, and waits until the server is ready for a query.
fn log_in(port: u16) -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(5);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("it does not listen")?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(&start_up())?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).context("it does not answer")?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = Vec::new();
        Read::by_ref(&mut stream).take(u64::from(length.saturating_sub(4))).read_to_end(&mut body)?;
        match head[0] {
            b'Z' => break,
            b'E' => bail!("it refuses: {}", String::from_utf8_lossy(&body).replace('\0', " ")),
            _ => {}
        }
    }
    // A polite goodbye, or the log would complain about each check.
    stream.write_all(&[b'X', 0, 0, 0, 4]).context("it hung up")
}

/// The first message of the protocol, version 3.0: its length, the version, and who wants which database.
fn start_up() -> Vec<u8> {
    let rest = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(rest.len() + 4).unwrap_or(0);
    [&length.to_be_bytes(), rest.as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files in the place of programs, which hold what the programs would say.
    fn installation(place: &Path, name: &str, says: &str) -> PathBuf {
        let folder = place.join(name);
        fs::create_dir(&folder).unwrap();
        for program in ["postgres", "initdb"] {
            fs::write(folder.join(program), format!("{program} (PostgreSQL) {says}\n")).unwrap();
        }
        folder
    }

    #[test]
    fn the_first_installation_that_is_new_enough_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let old = installation(place.path(), "old", "12.22");
        let half = installation(place.path(), "half", "17.1");
        fs::remove_file(half.join("initdb")).unwrap();
        let good = installation(place.path(), "good", "13.4 (Debian 13.4-1)");
        let newer = installation(place.path(), "newer", "16.2");
        let none = place.path().join("none");

        let find_in =
            |folders: &[PathBuf]| super::find_in(folders, |program| fs::read_to_string(program).ok());
        let found = find_in(&[none.clone(), old.clone(), half.clone(), good.clone(), newer]).unwrap();
        assert_eq!(found, Installed { folder: good, version: "13.4".to_owned() });
        assert_eq!(find_in(&[none, old, half]), None);
    }

    #[test]
    fn the_version_is_read_from_releases_and_previews() {
        assert_eq!(version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)").unwrap(), "15.18");
        assert_eq!(version("postgres (PostgreSQL) 18beta1").unwrap(), "18beta1");
        assert_eq!(version("command not found"), None);
    }

    #[test]
    fn the_first_message_counts_its_own_length() {
        let message = start_up();
        assert_eq!(u32::from_be_bytes(message[..4].try_into().unwrap()) as usize, message.len());
    }
}
