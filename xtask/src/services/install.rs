//! Installing what is missing: with apt-get as root on Debian and Ubuntu, else by telling people what to do.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::docker::{self, Image, Way};
use super::process;
use super::server::Server;

/// What a server is called by package managers.
#[derive(Debug)]
pub(super) struct Packages {
    /// What is needed, such as `PostgreSQL 13 or later`.
    pub(super) what: &'static str,
    pub(super) debian: &'static [&'static str],
    pub(super) fedora: &'static [&'static str],
    pub(super) homebrew: &'static [&'static str],
}

/// Another package manager may be at work; it is waited for this long.
const PATIENCE: Duration = Duration::from_secs(300);

/// Sees to it that a server can be started: it is there, or is installed, or runs as a container.
pub(super) fn make_sure_of(server: &dyn Server) -> Result<()> {
    let way = |image: &Image| {
        (docker::way(server.find().is_some(), can_install(), docker::engine_answers), image.reference)
    };
    if let Some((Way::Container, reference)) = server.image(false).as_ref().map(way) {
        println!("{} is not installed and runs as a container, {reference}", server.name());
        return Ok(());
    }
    // Without a way to install it, this says what people have to do.
    make_sure(server.name(), || server.find(), || server.install()).map(drop)
}

/// Installs what is called so unless it is there, and says what was found.
pub(super) fn make_sure<T>(
    name: &str,
    find: impl Fn() -> Option<T>,
    install: impl Fn() -> Result<()>,
) -> Result<T> {
    if let Some(found) = find() {
        return Ok(found);
    }
    install().with_context(|| format!("{name} is missing"))?;
    find().with_context(|| format!("{name} was installed, and yet is not found"))
}

fn can_install() -> bool {
    rustix::process::geteuid().is_root() && process::exists("apt-get")
}

/// Installs the packages if this machine lets us.
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
    // A fresh container has no lists of packages, and old lists name packages that are gone.
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

/// Runs apt-get, whose output is shown only if it fails and nothing is tried after it.
fn apt_get(args: &[&str], quiet: bool) -> Result<()> {
    let start = Instant::now();
    loop {
        let output = Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "-o", &format!("DPkg::Lock::Timeout={}", PATIENCE.as_secs())])
            .args(args)
            .stdin(std::process::Stdio::null())
            .output()
            .context("starting apt-get")?;
        if output.status.success() {
            return Ok(());
        }
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        // That option covers installing; the lists have a lock of their own, for which apt-get does not wait.
        if complaint.contains("Could not get lock") && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_secs(1));
            continue;
        }
        if !quiet {
            eprint!("{}{complaint}", String::from_utf8_lossy(&output.stdout));
        }
        bail!("`apt-get {}` ended with {}", args.join(" "), output.status);
    }
}

/// What a person has to do.
fn advice(packages: &Packages, root: bool) -> String {
    let why = if root { "this system has no apt-get" } else { "only root can install it from here" };
    format!(
        "tests need {what}, which was not found, and {why}. Install it and run this again:\n  \
           Debian, Ubuntu:  sudo apt-get install --no-install-recommends {debian}\n  \
           Fedora:          sudo dnf install {fedora}\n  \
           macOS:           brew install {homebrew}\n\
         Or start a Docker engine, and it runs as a container.",
        what = packages.what,
        debian = packages.debian.join(" "),
        fedora = packages.fedora.join(" "),
        homebrew = packages.homebrew.join(" "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGES: Packages = Packages {
        what: "Example 2 or later",
        debian: &["example", "example-tools"],
        fedora: &["example-server"],
        homebrew: &["example@2"],
    };

    #[test]
    fn who_is_not_root_is_told_exactly_what_to_install() {
        assert_eq!(
            advice(&PACKAGES, false),
            "tests need Example 2 or later, which was not found, and only root can install it from here. \
             Install it and run this again:\n  \
               Debian, Ubuntu:  sudo apt-get install --no-install-recommends example example-tools\n  \
               Fedora:          sudo dnf install example-server\n  \
               macOS:           brew install example@2\n\
             Or start a Docker engine, and it runs as a container."
        );
    }

    #[test]
    fn root_on_another_system_is_told_why_nothing_was_installed() {
        assert!(advice(&PACKAGES, true).contains("this system has no apt-get"));
    }
}
