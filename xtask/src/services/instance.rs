//! The room that a server is given: its ports, its data directory, its log, and the account it runs under.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::docker::{self, Image};
use super::run_folder::RunFolder;
use super::server::{Installed, Server};

/// How much of a log is shown when a server fails.
const LAST_LINES: usize = 20;

/// What one server has to itself.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) installed: Installed,
    /// Exists, belongs to the account that the server runs under, and is empty at first.
    pub(super) data: PathBuf,
    pub(super) ports: Vec<u16>,
    pub(super) log: PathBuf,
    /// Whether the server is to wait for the disk, as it does where it is used in earnest.
    pub(super) durable: bool,
    /// Whether the server is a container, whose files are its own.
    pub(super) container: bool,
    account: Option<Account>,
}

/// Another account than ours.
#[derive(Debug)]
struct Account {
    name: &'static str,
    user: u32,
    group: u32,
}

impl Room {
    pub(super) fn furnish(server: &dyn Server, run: &RunFolder) -> Result<Self> {
        let found = server.find();
        let image = server.image(run.durable).filter(|_| found.is_none() && docker::engine_answers());
        let container = image.is_some();
        let as_image =
            |image: Image| Installed { folder: PathBuf::new(), version: image.reference.to_owned() };
        let installed = found
            .or_else(|| image.map(as_image))
            .with_context(|| format!("{} is not installed", server.name()))?;
        let account = if !container && rustix::process::geteuid().is_root() {
            Account::first_of(server.instead_of_root())?
        } else {
            None
        };
        let room = Room {
            installed,
            data: data_directory(server, run, account.as_ref())?,
            ports: free_ports(server.ports()).context("finding a free port")?,
            log: run.log(server.name()),
            durable: run.durable,
            container,
            account,
        };
        File::create(&room.log).with_context(|| format!("creating {}", room.log.display()))?;
        Ok(room)
    }

    /// One of the server's programs, run under its account, in its data directory, with none of our environment.
    pub(super) fn command(&self, program: &str) -> Command {
        let program = self.installed.folder.join(program);
        let mut command = match &self.account {
            Some(account) => account.command(&program),
            None => Command::new(program),
        };
        let locale = if cfg!(target_os = "linux") { "C.UTF-8" } else { "C" };
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.data)
            .env("LC_ALL", locale)
            .current_dir(&self.data);
        command
    }

    /// Has the command write to the log.
    pub(super) fn log_of(&self, command: &mut Command) -> Result<()> {
        let log = File::options().append(true).open(&self.log).context("opening the log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(())
    }

    /// Runs one of the server's programs to its end, to prepare something.
    pub(super) fn run(&self, program: &str, args: &[&OsStr]) -> Result<()> {
        let mut command = self.command(program);
        command.args(args);
        self.log_of(&mut command)?;
        let status = command.status().with_context(|| format!("starting {program}"))?;
        ensure!(status.success(), "{program} ended with {status}");
        Ok(())
    }

    /// The end of the log, for whoever has to find out what went wrong.
    pub(super) fn last_words(&self) -> String {
        match tail(&self.log) {
            Ok(lines) if lines.is_empty() => "its log is empty".to_owned(),
            Ok(lines) => {
                format!("the end of its log (`--keep` keeps all of it):\n  {}", lines.replace('\n', "\n  "))
            }
            Err(error) => format!("its log cannot be read: {error}"),
        }
    }

    /// Whether somebody holds one of the ports.
    pub(super) fn port_is_taken(&self) -> bool {
        self.ports.iter().any(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err())
    }

    pub(super) fn address(&self) -> String {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(" ")
    }

    /// The port, of a server that has one.
    pub(super) fn port(&self) -> u16 {
        self.ports.first().copied().unwrap_or(0)
    }
}

impl Account {
    fn first_of(names: &[&'static str]) -> Result<Option<Self>> {
        if names.is_empty() {
            return Ok(None);
        }
        for &name in names {
            if let (Some(user), Some(group)) = (number("-u", name), number("-g", name)) {
                return Ok(Some(Account { name, user, group }));
            }
        }
        bail!("it does not run as root, and none of these accounts exists: {}", names.join(", "));
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.user))
            .arg(format!("--regid={}", self.group))
            .arg("--init-groups")
            .arg(program);
        command
    }

    fn can_enter(&self, folder: &Path) -> Result<bool> {
        let status = self.command(Path::new("test")).arg("-x").arg(folder).status().with_context(|| {
            format!("starting `setpriv` (package util-linux), which runs the server as `{}`", self.name)
        })?;
        Ok(status.success())
    }
}

/// The number of an account or of its group, from `id`, which knows every source of accounts.
fn number(which: &str, account: &str) -> Option<u32> {
    let output = Command::new("id").args([which, account]).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn data_directory(server: &dyn Server, run: &RunFolder, account: Option<&Account>) -> Result<PathBuf> {
    let reachable = match account {
        Some(account) => account.can_enter(run.path())?,
        None => true,
    };
    // The home of root is closed to others, and so is a target directory in it.
    let data = if reachable {
        run.new_folder(server.name())?
    } else {
        run.new_folder_elsewhere(server.name(), &std::env::temp_dir())?
    };
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
    if let Some(account) = account {
        chown(&data, Some(account.user), Some(account.group))
            .with_context(|| format!("giving {} to `{}`", data.display(), account.name))?;
    }
    Ok(data)
}

/// Ports of the loopback interface that nobody has now. All are held until the last is found, so that they differ.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

fn tail(log: &Path) -> io::Result<String> {
    // A log can be long; its last lines are in its last bytes.
    const ENOUGH: u64 = 16 * 1024;
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(ENOUGH)))?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_can_be_bound() {
        let ports = free_ports(5).unwrap();
        let mut distinct = ports.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 5, "{ports:?}");
        assert!(!ports.contains(&0), "{ports:?}");
    }

    #[test]
    fn of_a_long_log_the_last_lines_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let lines: String = (0..5000).map(|line| format!("line {line}\n")).collect();
        fs::write(&log, lines).unwrap();
        let tail = tail(&log).unwrap();
        assert_eq!(tail.lines().count(), LAST_LINES);
        assert!(tail.ends_with("line 4999"), "{tail}");
    }

    #[test]
    fn an_account_that_nobody_has_is_not_found() {
        assert!(Account::first_of(&[]).unwrap().is_none());
        let error = Account::first_of(&["crawlway-nobody-has-this"]).unwrap_err().to_string();
        assert!(error.contains("crawlway-nobody-has-this"), "{error}");
    }
}
