//! Redis server for tests.

use std::io::{Read as _, Write as _};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::docker::Image;
use super::find;
use super::install::{self, Packages};
use super::instance::Instance;
use super::server::{Installed, Server};

pub(super) struct Redis;

const PROGRAM: &str = "redis-server";

const MIN_VERSION: (u32, u32) = (7, 0);

/// Folders besides `PATH`.
const FOLDERS: [&str; 4] =
    ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin"];

const PACKAGES: Packages = Packages {
    what: "Redis 7 or later",
    debian: &["redis-server"],
    fedora: &["redis"],
    homebrew: &["redis"],
};

/// Settings besides port and directory. Every write is synced before its reply, so that a killed server loses nothing.
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
        let folders = find::search_path(&FOLDERS);
        find::find_in(&folders, PROGRAM, MIN_VERSION, |folder| {
            // `Redis server v=7.0.15 sha=00000000:0 …`
            find::version_of(&folder.join(PROGRAM), " v=")
        })
    }

    fn install(&self) -> Result<()> {
        install::packages(&PACKAGES)
    }

    fn image(&self, _durable: bool) -> Option<Image> {
        // A container listens on all its addresses; one port is published.
        let settings = SETTINGS.iter().filter(|(name, _)| *name != "--bind");
        let arguments = ["redis-server"].into_iter().chain(settings.flat_map(|&(name, value)| [name, value]));
        let arguments = arguments.collect();
        Some(Image { reference: "redis:7.2-bookworm", ports: &[6379], environment: &[], arguments })
    }

    fn command(&self, instance: &Instance) -> Command {
        let mut command = instance.command(PROGRAM);
        command.arg("--port").arg(instance.port().to_string()).arg("--dir").arg(&instance.data);
        command.args(SETTINGS.iter().flat_map(|(name, value)| [name, value]));
        command
    }

    fn check(&self, instance: &Instance) -> Result<()> {
        // The directory identifies this server; another one may have taken the port.
        let answer = request(instance.port(), "CONFIG GET dir")?;
        ensure!(
            instance.container || answer.contains(&*instance.data.to_string_lossy()),
            "another server uses its port: {answer}"
        );
        Ok(())
    }

    fn variables(&self, instance: &Instance) -> Vec<(&'static str, String)> {
        let mut variables = vec![("CRAWLWAY_TEST_REDIS", format!("redis://127.0.0.1:{}", instance.port()))];
        if !instance.container {
            let program = instance.installed.folder.join(PROGRAM);
            variables.push(("CRAWLWAY_TEST_REDIS_SERVER", program.display().to_string()));
        }
        variables
    }
}

/// Reply of the server to an inline command.
fn request(port: u16, line: &str) -> Result<String> {
    let mut stream = find::connect(port)?;
    stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("it does not answer")?;
    Ok(answer)
}
