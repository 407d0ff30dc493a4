//! What the commands of a document run in: a web for the hosts that documents name, an empty working directory, and
//! the gateways that were started on the way.

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

/// No command of a document takes this long, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(300);

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(50);

/// The largest page that is fetched, so that `https://example.org/manual` is too large.
const MAX_BODY: usize = 64 << 10;

const HOME: &str = "<title>Bicycles</title><p>How bicycle repair is done, and what the workshop has to say.</p>\
    <a href=/repair>Repair</a> <a href=/manual>Manual</a> <a href=/news>News</a>";
const REPAIR: &str =
    "<title>Bicycle repair</title><p>An inner tube is mended with patience, a valve is not.</p>";
const NEWS: &str = "<title>News</title><p>The workshop is open on Sundays.</p>";

/// Where a document's commands are run, one after the other. Dropping it ends what they have started.
pub(crate) struct Scene {
    home: TempDir,
    server: Server,
    _runtime: Runtime,
    /// The host that `example.org` stands for.
    site: String,
    /// The host that `example.com` stands for. It takes its time: no crawl of it ever ends.
    slow: String,
    gateways: Vec<Gateway>,
    /// The id that was last told as JSON.
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

    /// Waits for its end.
    fn ended(mut self, place: &str) {
        let began = Instant::now();
        while self.is_up() {
            assert!(began.elapsed() < LIMIT, "{place}: it does not end");
            thread::sleep(PAUSE);
        }
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{place}: it did not end well");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        // An answer that is an error is then an exit code.
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

    /// Runs a command as the document says, and expects it to end as the document says. Answers what it
    /// printed.
    pub(crate) fn run(&mut self, path: &str, command: &Command) -> String {
        let place = format!("{path}:{}", command.line);
        let line = self.as_here(&command.text);
        self.gateways.retain_mut(Gateway::is_up);
        if command.stays_up() {
            let gateway = self.start(&place, &self.as_here(command.without_comment().trim_end_matches('&')));
            self.gateways.push(gateway);
            return String::new();
        }
        if ["search", "trail", "dead"].iter().any(|word| line.contains(word)) {
            self.gateways.last().into_iter().for_each(|gateway| self.wait_for_crawls(&place, gateway, 0));
        }
        let output = self.shell(&["timeout", &LIMIT.as_secs().to_string()], &line).output().unwrap();
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            output.status.code(),
            Some(command.exit_code()),
            "{place}: this command no longer does what the document says\n{}\n(run as: {line})\n{}{}",
            command.text,
            told(&output.stdout),
            told(&output.stderr)
        );
        if line.starts_with("kill ") {
            let gateway = self.gateways.pop().unwrap();
            gateway.ended(&place);
        }
        if let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) {
            let ids = [&answer["name"], &answer["id"], &answer["dead"][0]["id"], &answer["hits"][0]["item"]];
            self.id = ids.iter().find_map(|id| id.as_str()).map(str::to_owned).or(self.id.take());
        }
        told(&output.stdout)
    }

    /// What a gateway answers there.
    pub(crate) fn served(&self, path: &str) -> String {
        let gateway = self.start(path, "crawlway up");
        let output = self.shell(&[], &format!("curl -s http://{}{path}", gateway.address)).output().unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The command with what documents name replaced by what there is here.
    fn as_here(&self, text: &str) -> String {
        let mut here = text.replace("cargo run --release -- ", "crawlway ");
        if let Some(gateway) = self.gateways.last() {
            for named in ["crawl.example.org:8081", "127.0.0.1:8081", "localhost:8081"] {
                here = here.replace(named, &gateway.address);
            }
        }
        for (named, host) in [("example.org", &self.site), ("example.com", &self.slow)] {
            here =
                here.replace(&format!("https://{named}"), &origin(&self.server, host)).replace(named, host);
        }
        here = here.replace("/var/lib/crawlway", "crawlway-data").replace("/var/backups", ".");
        match &self.id {
            Some(id) => here.replace("/ID", &format!("/{id}")).replace(" ID", &format!(" {id}")),
            None => here,
        }
    }

    /// A shell in which `crawlway` is the program under test, with settings that make it quick and reach the web.
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

    /// Starts what stays up, and waits until its gateway answers. A demo has then crawled its web.
    fn start(&self, place: &str, line: &str) -> Gateway {
        let told = self.home.path().join(format!("told-{}", self.gateways.len()));
        let before = self.announced();
        let mut shell = self.shell(&[], &format!("exec {line}"));
        shell.stdout(File::create(&told).unwrap()).stderr(File::create(told.with_extension("err")).unwrap());
        let mut gateway = Gateway { child: shell.spawn().unwrap(), address: String::new() };
        let began = Instant::now();
        while gateway.address.is_empty() {
            thread::sleep(PAUSE);
            let said =
                || [told.clone(), told.with_extension("err")].map(|file| fs::read_to_string(file).unwrap());
            let ended = gateway.child.try_wait().unwrap();
            assert!(ended.is_none(), "{place}: `{line}` ended ({ended:?}): {:?}", said());
            assert!(began.elapsed() < LIMIT, "{place}: `{line}` does not serve: {:?}", said());
            let new = self.announced().into_iter().find(|address| !before.contains(address));
            gateway.address = new.unwrap_or_default();
        }
        if line.contains("demo") {
            self.wait_for_crawls(place, &gateway, 1);
        }
        gateway
    }

    /// Where gateways listen, by what they leave in data directories here.
    fn announced(&self) -> Vec<String> {
        let folders = [self.home.path().to_owned(), self.home.path().join("tmp")];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let texts =
            entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("gateway.json")).ok());
        let told = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
        told.filter_map(|told| Some(told["address"].as_str()?.to_owned())).collect()
    }

    /// Waits until there are so many crawls, and those that run have ended and their pages can be searched.
    fn wait_for_crawls(&self, place: &str, gateway: &Gateway, least: usize) {
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
            if crawls.is_some_and(|crawls| crawls.len() >= least && crawls.iter().all(settled)) {
                return;
            }
            assert!(began.elapsed() < LIMIT, "{place}: the crawls do not end: {list}");
            thread::sleep(PAUSE);
        }
    }
}

fn origin(server: &Server, host: &str) -> String {
    format!("http://{host}:{}", server.web().port())
}
