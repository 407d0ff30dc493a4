//! Environment for the commands of a document: a web for the documented hosts, an empty working directory, and the gateways
//! that commands have started.

use crate::document::Command;
use crawlway_demo_web::{Failure, Naming, Plan, Server, Web};
use serde_json::Value;
use std::{
    env,
    fs::{self, File},
    path::Path,
    process::{self, Child, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Upper bound for a command, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// `fetch.max_body`, so that `https://example.org/manual` is too large.
const MAX_BODY: usize = 64 << 10;

const HOME: &str = "<title>Bicycles</title><p>How bicycle repair is done, and what the workshop has to say.</p>\
    <a href=/repair>Repair</a> <a href=/manual>Manual</a> <a href=/news>News</a>";
const REPAIR: &str =
    "<title>Bicycle repair</title><p>An inner tube is mended with patience, a valve is not.</p>";
const NEWS: &str = "<title>News</title><p>The workshop is open on Sundays.</p>";

/// Environment in which the commands of a document run one after the other. Dropping it kills their background processes.
pub(crate) struct Environment {
    home: TempDir,
    server: Server,
    _runtime: Runtime,
    /// Host that replaces `example.org`.
    site: String,
    /// Host that replaces `example.com`. It never responds, so that no crawl of it ends.
    slow: String,
    gateways: Vec<Gateway>,
    /// Id in the last JSON output.
    id: Option<String>,
}

struct Gateway {
    child: Child,
    address: String,
}

impl Gateway {
    fn is_up(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until the process has exited with code 0.
    fn wait_exit(mut self, place: &str) {
        let began = Instant::now();
        while self.is_up() {
            assert!(began.elapsed() < TIMEOUT, "{place}: the process does not exit");
            thread::sleep(POLL_INTERVAL);
        }
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{place}: the process failed");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Environment {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        // Makes curl fail for an error status.
        fs::write(home.path().join(".curlrc"), "fail-with-body\n").unwrap();
        fs::create_dir(home.path().join("tmp")).unwrap();
        let runtime = Runtime::new().unwrap();
        let plan = Plan::demo().naming(Naming::Addresses);
        let server = runtime.block_on(Web::builder(plan).serve()).unwrap();
        let mut hosts = server.web().hosts().map(str::to_owned);
        let (site, slow) = (hosts.next().unwrap(), hosts.next().unwrap());
        drop(hosts);
        assert!(server.fail(&slow, Failure::Hang));
        let origin = origin(&server, &site);
        for (path, text) in [
            ("/robots.txt", "User-agent: *\nDisallow:\n"),
            ("/", HOME),
            ("/repair", REPAIR),
            ("/news", NEWS),
            ("/manual", &format!("<title>Manual</title><p>{}</p>", "too long ".repeat(MAX_BODY / 4))),
        ] {
            assert!(server.put(&format!("{origin}{path}"), text));
        }
        Self { home, server, _runtime: runtime, site, slow, gateways: Vec::new(), id: None }
    }

    /// Runs a command, which must have the documented exit code. Returns its standard output.
    pub(crate) fn run(&mut self, path: &str, command: &Command) -> String {
        let place = format!("{path}:{}", command.line);
        let line = self.replace_names(&command.text);
        self.gateways.retain_mut(Gateway::is_up);
        if command.is_background() {
            let gateway =
                self.start(&place, &self.replace_names(command.without_comment().trim_end_matches('&')));
            self.gateways.push(gateway);
            return String::new();
        }
        if ["search", "trail", "dead"].iter().any(|word| line.contains(word)) {
            self.gateways.last().into_iter().for_each(|gateway| self.wait_for_crawls(&place, gateway, 0));
        }
        let output = self.shell(&["timeout", &TIMEOUT.as_secs().to_string()], &line).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            output.status.code(),
            Some(command.exit_code()),
            "{place}: the exit code differs from the document\n{}\n(run as: {line})\n{}{}",
            command.text,
            text(&output.stdout),
            text(&output.stderr)
        );
        if line.starts_with("kill ") {
            let gateway = self.gateways.pop().unwrap();
            gateway.wait_exit(&place);
        }
        if let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) {
            let ids = [&answer["name"], &answer["id"], &answer["dead"][0]["id"], &answer["hits"][0]["item"]];
            self.id = ids.iter().find_map(|id| id.as_str()).map(str::to_owned).or(self.id.take());
        }
        text(&output.stdout)
    }

    /// Response of a new gateway to a path.
    pub(crate) fn get(&self, path: &str) -> String {
        let gateway = self.start(path, "crawlway up");
        let output = self.shell(&[], &format!("curl -s http://{}{path}", gateway.address)).output().unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Command with documented hosts, addresses and ids replaced by those of this environment.
    fn replace_names(&self, text: &str) -> String {
        let mut replaced = text.replace("cargo run --release -- ", "crawlway ");
        if let Some(gateway) = self.gateways.last() {
            for named in ["crawl.example.org:8081", "127.0.0.1:8081", "localhost:8081"] {
                replaced = replaced.replace(named, &gateway.address);
            }
        }
        for (named, host) in [("example.org", &self.site), ("example.com", &self.slow)] {
            replaced = replaced
                .replace(&format!("https://{named}"), &origin(&self.server, host))
                .replace(named, host);
        }
        replaced = replaced.replace("/var/lib/crawlway", "crawlway-data").replace("/var/backups", ".");
        match &self.id {
            Some(id) => replaced.replace("/ID", &format!("/{id}")).replace(" ID", &format!(" {id}")),
            None => replaced,
        }
    }

    /// Shell in which `crawlway` is the program under test, with short delays and access to the web.
    fn shell(&self, before: &[&str], line: &str) -> process::Command {
        let program = Path::new(env!("CARGO_BIN_EXE_crawlway")).parent().unwrap();
        let path = format!("{}:{}", program.display(), env::var("PATH").unwrap());
        let words: Vec<&str> = before.iter().copied().chain(["sh", "-c", line]).collect();
        let mut shell = process::Command::new(words[0]);
        shell.args(&words[1..]).current_dir(self.home.path()).env_clear().stdin(Stdio::null()).envs([
            ("PATH", path.as_str()),
            ("HOME", self.home.path().to_str().unwrap()),
            ("TMPDIR", self.home.path().join("tmp").to_str().unwrap()),
            ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0"),
            ("CRAWLWAY_FETCH__ALLOW", &format!("[\"127.0.0.0/8:{}\"]", self.server.web().port())),
            ("CRAWLWAY_FETCH__MIN_DELAY", "10ms"),
            ("CRAWLWAY_FETCH__MAX_BODY", &MAX_BODY.to_string()),
            ("CRAWLWAY_SEARCH__INDEX_LINGER", "20ms"),
            ("CRAWLWAY_SEARCH__DRAIN_TIMEOUT", "1s"),
        ]);
        shell
    }

    /// Starts a background command and waits until its gateway listens; for a demo also until its crawl has ended.
    fn start(&self, place: &str, line: &str) -> Gateway {
        let stdout = self.home.path().join(format!("stdout-{}", self.gateways.len()));
        let before = self.gateway_addresses();
        let mut shell = self.shell(&[], &format!("exec {line}"));
        shell
            .stdout(File::create(&stdout).unwrap())
            .stderr(File::create(stdout.with_extension("err")).unwrap());
        let mut gateway = Gateway { child: shell.spawn().unwrap(), address: String::new() };
        let began = Instant::now();
        while gateway.address.is_empty() {
            thread::sleep(POLL_INTERVAL);
            let printed = || {
                [stdout.clone(), stdout.with_extension("err")].map(|file| fs::read_to_string(file).unwrap())
            };
            let ended = gateway.child.try_wait().unwrap();
            assert!(ended.is_none(), "{place}: `{line}` ended ({ended:?}): {:?}", printed());
            assert!(began.elapsed() < TIMEOUT, "{place}: `{line}` does not serve: {:?}", printed());
            let new = self.gateway_addresses().into_iter().find(|address| !before.contains(address));
            gateway.address = new.unwrap_or_default();
        }
        if line.contains("demo") {
            self.wait_for_crawls(place, &gateway, 1);
        }
        gateway
    }

    /// Addresses of gateways, from the files in their data directories.
    fn gateway_addresses(&self) -> Vec<String> {
        let folders = [self.home.path().to_owned(), self.home.path().join("tmp")];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let texts =
            entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("gateway.json")).ok());
        let gateways = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
        gateways.filter_map(|gateway| Some(gateway["address"].as_str()?.to_owned())).collect()
    }

    /// Waits until there are at least this many crawls, and all of them are finished and indexed, paused or cancelled.
    fn wait_for_crawls(&self, place: &str, gateway: &Gateway, min_crawls: usize) {
        let began = Instant::now();
        loop {
            let url = format!("curl -s http://{}/api/crawls", gateway.address);
            let output = self.shell(&["timeout", "20"], &url).output().unwrap();
            let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let settled = |crawl: &Value| match crawl["state"].as_str() {
                Some("paused" | "cancelled") => true,
                state => state == Some("finished") && crawl["left"] == 0 && crawl["to_be_indexed"] == 0,
            };
            let crawls = list["crawls"].as_array();
            if crawls.is_some_and(|crawls| crawls.len() >= min_crawls && crawls.iter().all(settled)) {
                return;
            }
            assert!(began.elapsed() < TIMEOUT, "{place}: the crawls do not finish: {list}");
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn origin(server: &Server, host: &str) -> String {
    format!("http://{host}:{}", server.web().port())
}
