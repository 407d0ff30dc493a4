//! Discovery of installed programs, and connections for health checks.

use std::env;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::server::Installed;

/// Timeout of each read and write of a health check.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Folders of `PATH`, then these.
pub(super) fn search_path(more: &[&str]) -> Vec<PathBuf> {
    let path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    path.unwrap_or_default().into_iter().chain(more.iter().map(PathBuf::from)).collect()
}

/// First folder with this program in a sufficient version, as the closure reads it from the folder.
pub(super) fn find_in(
    folders: &[PathBuf],
    program: &str,
    min: (u32, u32),
    version: impl Fn(&Path) -> Option<String>,
) -> Option<Installed> {
    folders.iter().filter(|folder| folder.join(program).is_file()).find_map(|folder| {
        let version = version(folder)?;
        (major_and_minor(&version)? >= min).then(|| Installed { folder: folder.clone(), version })
    })
}

/// Version in the output of `PROGRAM --version`: the word after this prefix.
pub(super) fn version_of(program: &Path, prefix: &str) -> Option<String> {
    let output = output_of(program, "--version")?;
    Some(output.split_once(prefix)?.1.split_whitespace().next()?.to_owned())
}

/// Output of a program that succeeds.
pub(super) fn output_of(program: &Path, arg: &str) -> Option<String> {
    let output = Command::new(program).arg(arg).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Connection to a server on loopback.
pub(super) fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("it does not listen")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// `(15, 18)` of `15.18`, `(18, 0)` of `18beta1`.
fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_sufficient_version_is_found() {
        let parent = tempfile::tempdir().unwrap();
        let install = |version: &str| {
            let folder = parent.path().join(version);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("server"), version).unwrap();
            folder
        };
        let [old, unknown, good, newer] = ["3.8.9", "unknown", "3.10.8", "18beta1"].map(install);
        let find = |folders: &[PathBuf]| {
            find_in(folders, "server", (3, 10), |folder| fs::read_to_string(folder.join("server")).ok())
        };
        let missing = parent.path().join("missing");
        let found = find(&[missing.clone(), old.clone(), unknown.clone(), good.clone(), newer.clone()]);
        assert_eq!(found, Some(Installed { folder: good, version: "3.10.8".to_owned() }));
        assert_eq!(find(&[newer]).unwrap().version, "18beta1");
        assert_eq!(find(&[missing, old, unknown]), None);
    }
}
