//! Resources of one server instance: ports, data directory, log and account.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::docker::{self, Image};
use super::run_directory::RunDirectory;
use super::server::{Installed, Server};

/// Number of log lines in an error.
const LOG_LINES: usize = 20;

/// Resources of one server instance.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) installed: Installed,
    /// Data directory, initially empty, owned by the account of the server.
    pub(super) data: PathBuf,
    pub(super) ports: Vec<u16>,
    pub(super) log: PathBuf,
    /// Whether writes are synced to disk, as in production.
    pub(super) durable: bool,
    /// Whether the server runs as a container.
    pub(super) container: bool,
    account: Option<Account>,
}

/// Account that runs a server instead of root.
#[derive(Debug)]
struct Account {
    name: &'static str,
    user: u32,
    group: u32,
}

impl Instance {
    pub(super) fn allocate(server: &dyn Server, run: &RunDirectory) -> Result<Self> {
        let found = server.find();
        let image = server.image(run.durable).filter(|_| found.is_none() && docker::is_available());
        let container = image.is_some();
        let as_image =
            |image: Image| Installed { folder: PathBuf::new(), version: image.reference.to_owned() };
        let installed = found
            .or_else(|| image.map(as_image))
            .with_context(|| format!("{} is not installed", server.name()))?;
        let account = if !container && rustix::process::geteuid().is_root() {
            Account::first_of(server.accounts())?
        } else {
            None
        };
        let instance = Instance {
            installed,
            data: data_directory(server, run, account.as_ref())?,
            ports: free_ports(server.ports()).context("finding a free port")?,
            log: run.log(server.name()),
            durable: run.durable,
            container,
            account,
        };
        File::create(&instance.log).with_context(|| format!("creating {}", instance.log.display()))?;
        Ok(instance)
    }

    /// Command for a program of the server, with its account, data directory and a clean environment.
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

    /// Redirects the output of a command to the log.
    pub(super) fn redirect_to_log(&self, command: &mut Command) -> Result<()> {
        let log = File::options().append(true).open(&self.log).context("opening the log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(())
    }

    /// Runs a program of the server to its end.
    pub(super) fn run(&self, program: &str, args: &[&OsStr]) -> Result<()> {
        let mut command = self.command(program);
        command.args(args);
        self.redirect_to_log(&mut command)?;
        let status = command.status().with_context(|| format!("starting {program}"))?;
        ensure!(status.success(), "{program} ended with {status}");
        Ok(())
    }

    /// Last lines of the log, for an error message.
    pub(super) fn log_excerpt(&self) -> String {
        match tail(&self.log) {
            Ok(lines) if lines.is_empty() => "its log is empty".to_owned(),
            Ok(lines) => {
                format!(
                    "last lines of its log (`--keep` keeps the whole log):\n  {}",
                    lines.replace('\n', "\n  ")
                )
            }
            Err(error) => format!("its log cannot be read: {error}"),
        }
    }

    /// Whether one of the ports is in use.
    pub(super) fn port_is_taken(&self) -> bool {
        self.ports.iter().any(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err())
    }

    pub(super) fn address(&self) -> String {
        self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(" ")
    }

    /// First port.
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
            if let (Some(user), Some(group)) = (numeric_id("-u", name), numeric_id("-g", name)) {
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

/// Numeric id of an account (`-u`) or of its group (`-g`).
fn numeric_id(which: &str, account: &str) -> Option<u32> {
    let output = Command::new("id").args([which, account]).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn data_directory(server: &dyn Server, run: &RunDirectory, account: Option<&Account>) -> Result<PathBuf> {
    let reachable = match account {
        Some(account) => account.can_enter(run.path())?,
        None => true,
    };
    // Other accounts cannot enter a target directory in the home of root.
    let data = if reachable {
        run.new_folder(server.name())?
    } else {
        run.new_external_folder(server.name(), &std::env::temp_dir())?
    };
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
    if let Some(account) = account {
        chown(&data, Some(account.user), Some(account.group))
            .with_context(|| format!("giving {} to `{}`", data.display(), account.name))?;
    }
    Ok(data)
}

/// Free ports of the loopback interface. All are bound until the last is found, so that they differ.
pub(super) fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

fn tail(log: &Path) -> io::Result<String> {
    const MAX_BYTES: u64 = 16 * 1024;
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_BYTES)))?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
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
}
