//! PostgreSQL server for tests.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::docker::Image;
use super::find;
use super::install::{self, Packages};
use super::instance::Instance;
use super::server::{Installed, Server};

pub(super) struct Postgres;

const MIN_VERSION: (u32, u32) = (13, 0);

const PACKAGES: Packages = Packages {
    what: "PostgreSQL 13 or later",
    debian: &["postgresql"],
    fedora: &["postgresql-server"],
    homebrew: &["postgresql@17"],
};

/// Settings besides the port.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    // The path of a socket is limited to 107 bytes, and the target directory may be longer.
    "unix_socket_directories=",
    "max_connections=200",
    "timezone=UTC",
    "log_timezone=UTC",
    // In the data directory, so that a killed server leaves no shared memory behind.
    "dynamic_shared_memory_type=mmap",
];

/// Settings for tests. Commits still survive a kill of the server; only a power failure could lose them.
const NOT_DURABLE: &[&str] = &["fsync=off", "full_page_writes=off"];

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn find(&self) -> Option<Installed> {
        find::find_in(&folders(), "initdb", MIN_VERSION, |folder| {
            // `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`
            find::version_of(&folder.join("postgres"), "(PostgreSQL) ")
        })
    }

    fn install(&self) -> Result<()> {
        install::packages(&PACKAGES)
    }

    fn image(&self, durable: bool) -> Option<Image> {
        // Paths and addresses are those of the image.
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

    fn accounts(&self) -> &'static [&'static str] {
        &["postgres", "nobody"]
    }

    fn prepare(&self, instance: &Instance) -> Result<()> {
        let options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "-D"];
        let mut args: Vec<&OsStr> = options.map(OsStr::new).to_vec();
        args.push(instance.data.as_os_str());
        instance.run("initdb", &args)
    }

    fn command(&self, instance: &Instance) -> Command {
        let mut command = instance.command("postgres");
        command.arg("-D").arg(&instance.data).arg("-p").arg(instance.port().to_string());
        let more = if instance.durable { &[] } else { NOT_DURABLE };
        command.args(SETTINGS.iter().chain(more).flat_map(|setting| ["-c", setting]));
        command
    }

    fn check(&self, instance: &Instance) -> Result<()> {
        if instance.container {
            return log_in(instance.port());
        }
        // The PID file identifies this server; another one may have taken the port.
        let state =
            fs::read_to_string(instance.data.join("postmaster.pid")).context("it has no process yet")?;
        ensure!(state.lines().nth(7).is_some_and(|line| line.trim() == "ready"), "it is not ready yet");
        log_in(instance.port())
    }

    fn variables(&self, instance: &Instance) -> Vec<(&'static str, String)> {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", instance.port());
        let mut variables = vec![("CRAWLWAY_TEST_POSTGRES", url)];
        if !instance.container {
            let programs = instance.installed.folder.display().to_string();
            variables.push(("CRAWLWAY_TEST_POSTGRES_PROGRAMS", programs));
        }
        variables
    }

    /// Fast shutdown; on SIGTERM it would wait for clients to disconnect.
    fn stop_signal(&self) -> Signal {
        Signal::INT
    }
}

/// Folders of its programs, the best first.
fn folders() -> Vec<PathBuf> {
    let mut folders = find::search_path(&[]);
    folders.extend(find::output_of(Path::new("pg_config"), "--bindir").map(PathBuf::from));
    // A folder for each version: Debian, PostgreSQL's own packages for Fedora, and Homebrew.
    for (parent, prefix) in [
        ("/usr/lib/postgresql", ""),
        ("/usr", "pgsql-"),
        ("/opt/homebrew/opt", "postgresql"),
        ("/usr/local/opt", "postgresql"),
        ("/home/linuxbrew/.linuxbrew/opt", "postgresql"),
    ] {
        let Ok(entries) = fs::read_dir(parent) else { continue };
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

/// Logs in like a test, and waits until the server is ready for a query.
fn log_in(port: u16) -> Result<()> {
    let mut stream = find::connect(port)?;
    stream.write_all(&startup_message())?;
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
    // Terminate; otherwise the server logs a warning for each check.
    stream.write_all(&[b'X', 0, 0, 0, 4]).context("it closed the connection")
}

/// Startup message of protocol 3.0: length, version, user and database.
fn startup_message() -> Vec<u8> {
    let rest = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = u32::try_from(rest.len() + 4).unwrap_or(0);
    [&length.to_be_bytes(), rest.as_slice()].concat()
}
