//! A web that is served, a data directory, the program that crawls the one into the other, and the checks afterwards.

use crawlway_demo_web::{Duplicates, Plan, Server, Truth, Visit, Web, Why};
use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{Frontier, PageIndex, Trails};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");

/// No crawl of a test takes this long, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(180);

pub(crate) struct Lab {
    pub(crate) server: Server,
    pub(crate) home: TempDir,
    pub(crate) gap: Duration,
    pub(crate) runtime: Runtime,
    /// Where the records are, if not in the data directory.
    pub(crate) postgres: Option<String>,
    /// Settings besides, as variables.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// The pages are with the records.
    pub(crate) pages_with_records: bool,
}

impl Lab {
    /// Serves a web. Each host is left alone for the gap between two requests, with one in flight.
    pub(crate) fn new(plan: Plan, gap: Duration) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Web::builder(plan).serve()).unwrap();
        Self {
            server,
            home: tempfile::tempdir().unwrap(),
            gap,
            runtime,
            postgres: None,
            variables: Vec::new(),
            pages_with_records: false,
        }
    }

    /// How many requests were made so far.
    pub(crate) fn visits(&self) -> usize {
        self.server.log().unwrap().len()
    }

    pub(crate) fn truth(&self) -> &Truth {
        self.server.web().truth()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The program with this command; waits are shortened, and attempts made many, since each kill costs one.
    pub(crate) fn program(&self, command: &str) -> Command {
        let mut program = Command::new(PROGRAM);
        program
            .arg(command)
            .args(["--json", "--data"])
            .arg(self.data())
            .current_dir(self.home.path())
            .env_clear()
            .envs([
                ("CRAWLWAY_RATE_LIMIT__BACKOFF_DELAY", "20ms"),
                ("CRAWLWAY_RATE_LIMIT__MAX_BACKOFF_DELAY", "40ms"),
                ("CRAWLWAY_RATE_LIMIT__BREAKER_FAILURES", "0"),
                ("CRAWLWAY_SEARCH__RETRY_DELAY", "20ms"),
                ("CRAWLWAY_SEARCH__MAX_RETRY_DELAY", "40ms"),
                ("CRAWLWAY_SEARCH__MAX_ATTEMPTS", "30"),
                ("CRAWLWAY_QUEUE__CRAWLER_QUEUE__MAX_ATTEMPTS", "30"),
                ("CRAWLWAY_SEARCH__INDEX_LINGER", "50ms"),
                ("CRAWLWAY_SEARCH__INDEX_BATCH", "200"),
            ])
            .stdin(Stdio::null());
        if let Some(url) = &self.postgres {
            program
                .envs([("CRAWLWAY_RECORDS__KIND", "postgresql"), ("CRAWLWAY_RECORDS__POSTGRESQL__URL", url)])
                .env("CRAWLWAY_ONLY_PROCESS", "true");
        }
        program.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        program
    }

    /// `crawlway crawl` of the whole web.
    pub(crate) fn crawl(&self) -> Command {
        let mut crawl = self.program("crawl");
        let port = self.server.web().port();
        crawl.args(&self.truth().start).arg("--min-delay").arg(format!("{}ms", self.gap.as_millis()));
        crawl.arg("--allow").arg(format!("127.0.0.0/8:{port}"));
        for host in self.server.web().hosts() {
            crawl.arg("--host").arg(host);
        }
        crawl
    }

    /// Runs to the end.
    pub(crate) fn finish(&self, mut command: Command) -> Output {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let (ended, watched) = std::sync::mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if watched.recv_timeout(LIMIT).is_err() {
                let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::ABORT);
            }
        });
        let output = child.wait_with_output().unwrap();
        let _ = ended.send(());
        watch.join().unwrap();
        output
    }

    /// Crawls to the end, and expects that to go well.
    pub(crate) fn crawl_to_the_end(&self) -> serde_json::Value {
        let output = self.finish(self.crawl());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            output.status.code(),
            Some(0),
            "the crawl must finish\n{}\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts a crawl that somebody is going to kill.
    pub(crate) fn start(&self, mut command: Command) -> Child {
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn index(&self) -> TantivyIndex {
        TantivyIndex::open(self.data().join("index"), IndexOptions::default()).unwrap()
    }

    pub(crate) fn records(&self) -> SqlStore {
        let place = match &self.postgres {
            Some(url) => Database::Postgres(url.clone()),
            None => Database::Sqlite(self.data().join("records.db")),
        };
        self.runtime.block_on(SqlStore::open(SqlOptions::new(place))).unwrap()
    }

    /// The URLs in the index, as often as they are there.
    pub(crate) fn indexed(&self) -> Vec<String> {
        if self.pages_with_records {
            let records = self.records();
            let pages = self.runtime.block_on(records.page_index().unwrap().scan(None, 1_000_000)).unwrap();
            return pages.into_iter().map(|page| page.url).collect();
        }
        let index = self.index();
        let pages = self.runtime.block_on(async {
            let pages = index.scan(None, 1_000_000).await.unwrap();
            index.close().await.unwrap();
            pages
        });
        pages.into_iter().map(|page| page.url).collect()
    }

    /// Everything that must hold after a crawl that went to the end, however often it was interrupted.
    pub(crate) fn check(&self) {
        self.check_outcome();
        self.check_politeness();
    }

    /// The same, but for how the hosts were treated.
    pub(crate) fn check_outcome(&self) {
        let found = self.indexed();
        let differences = self.truth().compare(found, Duplicates::Kept);
        assert!(
            differences.missing.is_empty()
                && differences.unexpected.is_empty()
                && differences.twice.is_empty(),
            "the index differs from the web: {differences:#?}"
        );
        self.check_trails();
    }

    /// Every item's trail is closed, and what can't be had is dead and nothing else.
    fn check_trails(&self) {
        let records = self.records();
        self.runtime.block_on(async {
            let open = records.open_items(20).await.unwrap();
            for item in &open {
                eprintln!("{:#?}", records.of_item(item).await.unwrap());
            }
            assert!(open.is_empty(), "items whose trail is not closed: {open:?}");
            for url in self.truth().indexed.keys() {
                let trails = records.of_subject(url, 50).await.unwrap();
                let indexed =
                    trails.iter().flatten().any(|entry| entry.stage == "index" && entry.outcome == "indexed");
                assert!(indexed, "no trail says that {url} was indexed: {trails:#?}");
            }
            let dead: BTreeSet<String> =
                records.dead(None, None, 1000).await.unwrap().urls.into_iter().map(|dead| dead.url).collect();
            let missing: Vec<_> = self.truth().dead.difference(&dead).collect();
            assert!(missing.is_empty(), "these must be given up: {missing:?}");
            // Of a circle of redirects only those are known that a link leads to.
            let circle = |url: &&String| self.truth().not_indexed.get(*url) == Some(&Why::RedirectLoop);
            let others = dead.difference(&self.truth().dead).filter(|url| !circle(url)).collect::<Vec<_>>();
            assert!(others.is_empty(), "these must not be given up: {others:?}");
            assert!(dead.iter().any(|url| circle(&url)), "a circle of redirects is given up");
            let crawls = records.crawls(None, 10).await.unwrap();
            assert_eq!(crawls.len(), 1);
            assert_eq!((crawls[0].counts.waiting, crawls[0].counts.in_flight), (0, 0), "{crawls:#?}");
            records.close().await;
        });
    }

    /// By the server's own log: never two at once at one host, nor two closer than the gap; and nothing was asked for
    /// that must not be.
    pub(crate) fn check_politeness(&self) {
        let breaches = self.breaches();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    /// The hosts that were asked too soon or twice at once, once for each time, and what happened.
    pub(crate) fn breaches(&self) -> Vec<(String, String)> {
        let visits = self.server.log().unwrap().visits();
        let untouched: BTreeSet<&str> = self.truth().untouched().collect();
        let port = self.server.web().port();
        let mut last: BTreeMap<&str, &Visit> = BTreeMap::new();
        let mut breaches = Vec::new();
        for visit in &visits {
            let url = format!("http://{}:{port}{}", visit.host, visit.path);
            assert!(!untouched.contains(url.as_str()), "{url} must never be asked for");
            let at_once = visit.open > 1;
            if let Some(before) = last.insert(&visit.host, visit) {
                let apart = Duration::from_micros(visit.started_us.saturating_sub(before.ended_us));
                // The server's clock and the crawler's round differently, by a millisecond at most.
                if at_once || apart + Duration::from_millis(1) < self.gap {
                    let gap = self.gap;
                    let told = format!("{apart:?} apart, the gap is {gap:?}: {before:?} {visit:?}");
                    breaches.push((visit.host.clone(), told));
                }
            }
        }
        breaches
    }
}

/// Whether the process was killed, as by `kill -9`.
pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}
