//! Private PostgreSQL of one test, with TLS.

use crate::{
    certificates::Certificates,
    server_process::{ServerProcess, free_port},
    servers::address,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Environment variable with the folder of PostgreSQL's programs.
pub const PROGRAMS: &str = "CRAWLWAY_TEST_POSTGRES_PROGRAMS";

/// Accounts that may run the server instead of root, which it refuses.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];
/// Every connection needs TLS and a client certificate.
const ACCESS: &str = "hostssl all all all trust clientcert=verify-ca\n";
const SETTINGS: [&str; 9] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "full_page_writes=off",
    "dynamic_shared_memory_type=mmap",
    "ssl=on",
    "ssl_cert_file=server.pem",
    "ssl_key_file=server.key",
    "ssl_ca_file=ca.pem",
];
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Private PostgreSQL with TLS. It stops on drop, and is killed with the process.
#[derive(Debug)]
pub struct PrivatePostgres {
    _running: ServerProcess,
    folder: TempDir,
    port: u16,
}

impl PrivatePostgres {
    /// Starts an empty server on a free port, with the server certificate of the folder. Clients need a certificate of its CA.
    ///
    /// # Panics
    /// If there are no programs of PostgreSQL, or it does not start.
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let account = Account::instead_of_root();
        account.own(folder.path());
        let data = data(&folder);
        let initialise = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "-D"];
        let mut initdb = account.command("initdb", folder.path());
        initdb.args(initialise).arg(&data).env("LC_ALL", "C");
        let status = initdb.status().expect("a shell");
        let log = folder.path().join("log");
        assert!(status.success(), "initdb: {}", fs::read_to_string(&log).unwrap_or_default());
        for name in ["ca.pem", "server.pem", "server.key"] {
            let copy = data.join(name);
            fs::copy(certificates.path(name), &copy).expect("a copy of the certificate");
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).expect("its mode");
            account.own(&copy);
        }
        fs::write(data.join("pg_hba.conf"), ACCESS).expect("the file of access rules");
        let port = free_port();
        let mut server = account.command("postgres", folder.path());
        server.arg("-D").arg(&data).arg("-p").arg(port.to_string());
        server.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        let running =
            ServerProcess::start(&server, &log, || state(&data).is_some_and(|state| state.is_ready));
        Self { _running: running, folder, port }
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A killed server would leave a segment of shared memory behind.
impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        let data = data(&self.folder);
        if let Some(pid) = state(&data).and_then(|state| Pid::from_raw(state.pid)) {
            let _ = kill_process(pid, Signal::INT);
        }
        let began = Instant::now();
        while state(&data).is_some() && began.elapsed() < STOP_TIMEOUT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn data(folder: &TempDir) -> PathBuf {
    folder.path().join("data")
}

/// State of a running server.
struct State {
    pid: i32,
    is_ready: bool,
}

fn state(data: &Path) -> Option<State> {
    let written = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let lines: Vec<&str> = written.lines().map(str::trim).collect();
    Some(State { pid: lines.first()?.parse().ok()?, is_ready: lines.get(7) == Some(&"ready") })
}

/// Account that runs the server: user and group instead of root, or none.
struct Account(Option<(u32, u32)>);

impl Account {
    fn instead_of_root() -> Self {
        let id = |which: &str, name: &str| -> Option<u32> {
            let output = Command::new("id").args([which, name]).output().ok()?;
            String::from_utf8_lossy(&output.stdout).trim().parse().ok()
        };
        let ids = || ACCOUNTS.into_iter().find_map(|name| Some((id("-u", name)?, id("-g", name)?)));
        Self(geteuid().is_root().then(|| ids().expect("an account `postgres` or `nobody`")))
    }

    fn own(&self, path: &Path) {
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group)).expect("another owner of the file");
        }
    }

    /// Program of the server, in a folder that the account can enter, with its output in `log` there.
    fn command(&self, program: &str, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"cd "$0" && exec "$@" > log 2>&1"#]).arg(folder);
        if let Some((user, group)) = self.0 {
            command.arg("setpriv").arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
            command.arg("--init-groups");
        }
        command.arg(Path::new(&address(PROGRAMS)).join(program));
        command
    }
}
