//! Installation of missing packages: with apt-get as root on Debian and Ubuntu, else an error with the commands.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::docker;
use super::process;
use super::server::Server;

/// Package names of a program.
#[derive(Debug)]
pub(super) struct Packages {
    /// Name with the minimum version, such as `PostgreSQL 13 or later`.
    pub(super) what: &'static str,
    pub(super) debian: &'static [&'static str],
    pub(super) fedora: &'static [&'static str],
    pub(super) homebrew: &'static [&'static str],
}

/// Timeout of the lock of the package manager.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// Ensures that a server can be started: it is installed, or runs as a container.
pub(super) fn ensure_server(server: &dyn Server) -> Result<()> {
    if let Some(image) = server.image(false)
        && server.find().is_none()
        && !can_install()
        && docker::is_available()
    {
        println!("{} is not installed and runs as a container, {}", server.name(), image.reference);
        return Ok(());
    }
    ensure_installed(server.name(), || server.find(), || server.install()).map(drop)
}

/// Finds a program, and installs it if it is missing.
pub(super) fn ensure_installed<T>(
    name: &str,
    find: impl Fn() -> Option<T>,
    install: impl Fn() -> Result<()>,
) -> Result<T> {
    if let Some(found) = find() {
        return Ok(found);
    }
    install().with_context(|| format!("{name} is missing"))?;
    find().with_context(|| format!("{name} was installed and is still not found"))
}

fn can_install() -> bool {
    rustix::process::geteuid().is_root() && process::exists("apt-get")
}

/// Installs packages, if this machine allows it.
pub(super) fn packages(packages: &Packages) -> Result<()> {
    if !can_install() {
        bail!("{}", advice(packages, rustix::process::geteuid().is_root()));
    }
    println!("installing {} with apt-get …", packages.debian.join(" "));
    let start = Instant::now();
    let install = |quiet| {
        let mut args = vec!["install", "-y", "--no-install-recommends"];
        args.extend(packages.debian);
        apt_get(&args, quiet)
    };
    // A fresh container has no package lists, and old lists name removed packages.
    if !has_lists() || install(true).is_err() {
        apt_get(&["update"], false)?;
        install(false)?;
    }
    println!("installed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn has_lists() -> bool {
    let Ok(entries) = fs::read_dir(Path::new("/var/lib/apt/lists")) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

/// Runs apt-get; unless `quiet`, its output is printed if it fails.
fn apt_get(args: &[&str], quiet: bool) -> Result<()> {
    let start = Instant::now();
    loop {
        let output = Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "-o", &format!("DPkg::Lock::Timeout={}", LOCK_TIMEOUT.as_secs())])
            .args(args)
            .stdin(std::process::Stdio::null())
            .output()
            .context("starting apt-get")?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        // The option covers the dpkg lock; apt-get does not wait for the lock of the package lists.
        if stderr.contains("Could not get lock") && start.elapsed() < LOCK_TIMEOUT {
            thread::sleep(Duration::from_secs(1));
            continue;
        }
        if !quiet {
            eprint!("{}{stderr}", String::from_utf8_lossy(&output.stdout));
        }
        bail!("`apt-get {}` ended with {}", args.join(" "), output.status);
    }
}

/// Error message with the commands to install packages.
fn advice(packages: &Packages, root: bool) -> String {
    let why = if root { "this system has no apt-get" } else { "only root can install it" };
    format!(
        "tests need {what}, which was not found; {why}. Install it and run this again:\n  \
           Debian, Ubuntu:  sudo apt-get install --no-install-recommends {debian}\n  \
           Fedora:          sudo dnf install {fedora}\n  \
           macOS:           brew install {homebrew}\n\
         Or start a Docker engine to run it as a container.",
        what = packages.what,
        debian = packages.debian.join(" "),
        fedora = packages.fedora.join(" "),
        homebrew = packages.homebrew.join(" "),
    )
}
