//! `gateway.json` in the data directory: address of the running gateway, for other commands.
//!
//! The gateway keeps the file locked, so that a file left behind by a kill does not count.

use crate::permissions;
use anyhow::{Context, bail};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions, TryLockError, remove_file},
    io::{Read, Seek, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};
use url::Url;

const FILE: &str = "gateway.json";
const ROOT: u32 = 0;

/// Gateway that runs on a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
}

impl Running {
    /// URL of the gateway, as seen from this machine.
    pub(crate) fn url(&self) -> anyhow::Result<Url> {
        url_on_this_machine(self.address)
    }
}

/// URL of a listening address, as seen from this machine. A process on all addresses also listens on loopback.
pub(crate) fn url_on_this_machine(mut address: SocketAddr) -> anyhow::Result<Url> {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Ok(Url::parse(&format!("http://{address}/"))?)
}

/// File of this process's gateway. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Presence {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let _ = remove_file(&self.path);
    }
}

/// Writes the address of this process's gateway.
pub(crate) fn announce(data: &Path, address: SocketAddr) -> anyhow::Result<Presence> {
    let path = data.join(FILE);
    let cannot = || format!("cannot write `{}`", path.display());
    // With all stores on servers the directory may not exist yet.
    permissions::data_directory(data)?;
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.with_context(cannot)?;
    lock(&file).with_context(cannot)?;
    file.set_len(0).with_context(cannot)?;
    file.rewind().with_context(cannot)?;
    let json = serde_json::to_vec(&Running { address, pid: process::id() })?;
    file.write_all(&json).with_context(cannot)?;
    Ok(Presence { path, _file: file })
}

/// Locks the file. A command that checks the lock holds it for a moment, hence the retries.
fn lock(file: &File) -> anyhow::Result<()> {
    for _ in 0..50 {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    bail!("another gateway has it locked")
}

/// Gateway that runs on this data directory, if any.
pub(crate) fn running(data: &Path) -> Option<Running> {
    let mut file = File::open(data.join(FILE)).ok()?;
    // The file decides where the token is sent, so that only its owner and root are trusted.
    let (user, owner) = (geteuid().as_raw(), file.metadata().ok()?.uid());
    if user != ROOT && owner != user && owner != ROOT {
        return None;
    }
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_on_all_addresses_is_reached_by_loopback() {
        for (address, url) in [
            ("127.0.0.1:8081", "http://127.0.0.1:8081/"),
            ("0.0.0.0:8081", "http://127.0.0.1:8081/"),
            ("[::]:80", "http://[::1]/"),
            ("192.0.2.7:1", "http://192.0.2.7:1/"),
        ] {
            let running = Running { address: address.parse().unwrap(), pid: 1 };
            assert_eq!(running.url().unwrap().as_str(), url);
        }
    }

    #[test]
    fn a_gateway_is_found_while_it_runs_and_not_after_a_kill() {
        let home = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:8081".parse().unwrap();
        assert_eq!(running(home.path()), None);
        let presence = announce(home.path(), address).unwrap();
        assert_eq!(running(home.path()), Some(Running { address, pid: process::id() }));
        drop(presence);
        assert_eq!(running(home.path()), None);
        assert!(!home.path().join(FILE).exists());
        // As after a kill.
        std::fs::write(home.path().join(FILE), "{\"address\":\"127.0.0.1:8081\",\"pid\":1}").unwrap();
        assert_eq!(running(home.path()), None);
        announce(home.path(), address).unwrap();
    }
}
