//! Apache Kafka for tests, one node in KRaft mode.
//!
//! Its jars are downloaded from Maven Central to the target directory, each with a pinned checksum. Java is a package of the system.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::find;
use super::install::{self, Packages};
use super::instance::{Instance, free_ports};
use super::process;
use super::server::{Installed, Server};
use crate::workspace;

pub(super) struct Kafka;

const VERSION: &str = "4.3.1";

const JAVA: &str = "java";

const MIN_JAVA: (u32, u32) = (17, 0);

const PACKAGES: Packages = Packages {
    what: "Java 17 or later and Maven, for Apache Kafka",
    debian: &["openjdk-17-jre-headless", "maven"],
    fedora: &["java-17-openjdk-headless", "maven"],
    homebrew: &["openjdk@17", "maven"],
};

/// Checksum and name of each jar.
const JARS: &str = include_str!("kafka-jars.txt");

/// Project whose dependencies are a server and its log.
const POM: &str = include_str!("kafka-pom.xml");

/// Script that runs a server in the foreground; the testkit uses it for private servers.
const SCRIPT: &str = include_str!("kafka.sh");
const SCRIPT_NAME: &str = "start-kafka";

/// Maximum time of the start that makes the class data archive, on a busy machine.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(120);

impl Server for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn find(&self) -> Option<Installed> {
        java()?;
        let folder = folder().ok().filter(|folder| folder.is_dir())?;
        Some(Installed { folder, version: VERSION.to_owned() })
    }

    fn install(&self) -> Result<()> {
        if java().is_none() || !process::exists("mvn") {
            install::packages(&PACKAGES)?;
        }
        let java = java().context("Java was installed and is still not found")?;
        install_to(&folder()?, &java)
    }

    /// Clients and the controller.
    fn ports(&self) -> usize {
        2
    }

    fn prepare(&self, instance: &Instance) -> Result<()> {
        // The installation may have the script of another version of this file.
        fs::write(instance.installed.folder.join(SCRIPT_NAME), SCRIPT).context("writing the start script")
    }

    fn command(&self, instance: &Instance) -> Command {
        // Absolute, so that it is not resolved in the folder of the programs.
        let mut command = instance.command("/bin/sh");
        let kafka = &instance.installed.folder;
        command.arg(kafka.join(SCRIPT_NAME)).arg(instance.data.join("server")).arg(kafka);
        command.arg(java().unwrap_or_else(|| JAVA.into()));
        command.args(instance.ports.iter().map(ToString::to_string)).arg("");
        command
    }

    fn check(&self, instance: &Instance) -> Result<()> {
        check(instance.port())
    }

    fn variables(&self, instance: &Instance) -> Vec<(&'static str, String)> {
        let kafka = &instance.installed.folder;
        vec![
            ("CRAWLWAY_TEST_KAFKA", format!("127.0.0.1:{}", instance.port())),
            ("CRAWLWAY_TEST_KAFKA_HOME", kafka.display().to_string()),
            ("CRAWLWAY_TEST_JAVA", java().unwrap_or_else(|| JAVA.into()).display().to_string()),
        ]
    }

    fn stop_timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// Path of Java in a sufficient version.
fn java() -> Option<PathBuf> {
    let folders = find::search_path(&["/usr/bin", "/opt/homebrew/opt/openjdk@17/bin"]);
    // `openjdk 17.0.17 2025-10-21`
    let version = |folder: &Path| {
        Some(find::output_of(&folder.join(JAVA), "--version")?.split_whitespace().nth(1)?.to_owned())
    };
    find::find_in(&folders, JAVA, MIN_JAVA, version).map(|installed| installed.folder.join(JAVA))
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target_directory(&workspace::root()?)?.join(format!("kafka-{VERSION}")))
}

/// Downloads the jars, formats a data directory and makes the class data archive, which halves the time of a start.
fn install_to(folder: &Path, java: &Path) -> Result<()> {
    println!("downloading Apache Kafka {VERSION} from Maven Central …");
    let start = Instant::now();
    let parent = folder.parent().context("the target directory has no parent")?;
    fs::create_dir_all(parent).context("making the target directory")?;
    // In a temporary folder, so that the result is complete and concurrent downloads do not clash.
    let temporary = tempfile::tempdir_in(parent).context("creating a temporary folder")?;
    download(&temporary.path().join("jars"))?;
    let kafka = temporary.path().join("kafka");
    fs::create_dir(&kafka)?;
    fs::rename(temporary.path().join("jars"), kafka.join("jars"))?;
    fs::write(kafka.join(SCRIPT_NAME), SCRIPT)?;
    // The archive has the paths of the jars, so that it is made at their final place.
    if fs::rename(&kafka, folder).is_err() {
        ensure!(folder.is_dir(), "{} cannot be made", folder.display());
        return Ok(());
    }
    let data = temporary.path().join("data");
    if let Err(error) = archive_classes(folder, java, &data) {
        // Without it, each start takes longer.
        println!("no class data archive: {error:#}");
    }
    println!("installed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Resolves the dependencies of [`POM`] and checks them against the list.
fn download(jars: &Path) -> Result<()> {
    fs::create_dir(jars)?;
    let project = tempfile::tempdir().context("creating a temporary folder")?;
    fs::write(project.path().join("pom.xml"), POM.replace("VERSION", VERSION))?;
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
    // A repository of its own leaves nothing behind in the home directory.
    maven.arg(format!("-Dmaven.repo.local={}", project.path().join("repository").display()));
    maven.arg(format!("-DoutputDirectory={}", jars.display())).current_dir(project.path());
    run_with_input(&mut maven, "")?;
    run_with_input(Command::new("sha256sum").args(["--check", "--quiet"]).current_dir(jars), JARS)
}

fn run_with_input(command: &mut Command, input: &str) -> Result<()> {
    let program = command.get_program().display().to_string();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let text = [&output.stdout[..], &output.stderr].concat();
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&text)
    );
    Ok(())
}

/// Runs a server once, which writes the archive of its classes when it stops.
fn archive_classes(kafka: &Path, java: &Path, data: &Path) -> Result<()> {
    let ports = free_ports(2)?;
    let script = |last: &str| {
        let mut command = Command::new("/bin/sh");
        command.arg(kafka.join(SCRIPT_NAME)).arg(data).arg(kafka).arg(java);
        command.args(ports.iter().map(ToString::to_string)).args(["", last]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let formatted = script("format").status().context("formatting a data directory")?;
    ensure!(formatted.success(), "formatting a data directory ended with {formatted}");
    fs::rename(data.join("log"), kafka.join("formatted")).context("moving the formatted data directory")?;
    let archive = data.join("classes.jsa");
    let mut server = Running(script(&format!("-XX:ArchiveClassesAtExit={}", archive.display())).spawn()?);
    let start = Instant::now();
    while let Err(error) = check(ports[0]) {
        let ended = server.0.try_wait()?;
        if ended.is_some() || start.elapsed() > ARCHIVE_TIMEOUT {
            bail!("the first start failed: {error:#} ({ended:?})");
        }
        thread::sleep(Duration::from_millis(100));
    }
    process::send_to(&server.0, Signal::TERM);
    server.0.wait()?;
    fs::rename(archive, kafka.join("classes.jsa")).context("moving the class data archive")
}

/// Child that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks for the metadata of no topic, which a server answers once it is up.
fn check(port: u16) -> Result<()> {
    // Length; Metadata, version 1, correlation id 7, no client id; no topics.
    const REQUEST: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
    let mut stream = find::connect(port)?;
    stream.write_all(&REQUEST)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).context("it does not answer")?;
    let [.., brokers] = head;
    ensure!(head[4..8] == [0, 0, 0, 7] && brokers == 1, "it has no broker yet");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jars_are_pinned() {
        let mut names = std::collections::BTreeSet::new();
        for line in JARS.lines() {
            let (checksum, name) = line.split_once("  ").unwrap();
            assert!(checksum.len() == 64 && name.ends_with(".jar"), "{line}");
            assert!(names.insert(name), "{name} is there twice");
        }
        assert!(names.contains(format!("kafka_2.13-{VERSION}.jar").as_str()));
    }
}
