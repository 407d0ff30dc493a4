//! Test environment: a served web, a data directory, the program that crawls it, and the checks after a crawl.

use crate::site::json;
use crawlway_demo_web::{AccessLogEntry, Duplicates, GroundTruth, NotIndexed, Plan, Server, Web};
use crawlway_search_index::{IndexOptions, TantivyIndex};
use crawlway_store::{Frontier, PageIndex, Trails};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use crawlway_testkit::process;
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

/// Upper bound for a crawl, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) struct Lab {
    pub(crate) server: Server,
    pub(crate) home: TempDir,
    pub(crate) min_delay: Duration,
    pub(crate) runtime: Runtime,
    /// URL of the PostgreSQL database with the records, if they are not in the data directory.
    pub(crate) postgres: Option<String>,
    /// Additional settings, as environment variables.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Whether the search index is in the database of the records.
    pub(crate) pages_with_records: bool,
}

impl Lab {
    /// Serves a web. The crawl has this minimum delay per host, and a concurrency of 1.
    pub(crate) fn new(plan: Plan, min_delay: Duration) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(Web::builder(plan).serve()).unwrap();
        Self {
            server,
            home: tempfile::tempdir().unwrap(),
            min_delay,
            runtime,
            postgres: None,
            variables: Vec::new(),
            pages_with_records: false,
        }
    }

    /// Number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.server.log().unwrap().len()
    }

    pub(crate) fn ground_truth(&self) -> &GroundTruth {
        self.server.web().ground_truth()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The program with this command, short delays, and a high maximum of attempts, since each kill costs one.
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
        crawl
            .args(&self.ground_truth().start)
            .arg("--min-delay")
            .arg(format!("{}ms", self.min_delay.as_millis()));
        crawl.arg("--allow").arg(format!("127.0.0.0/8:{port}"));
        for host in self.server.web().hosts() {
            crawl.arg("--host").arg(host);
        }
        crawl
    }

    /// Runs the command to its end.
    pub(crate) fn finish(&self, mut command: Command) -> Output {
        process::output(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), TIMEOUT)
    }

    /// Crawls to the end, which must succeed. Returns the report.
    pub(crate) fn crawl_to_end(&self) -> serde_json::Value {
        json(&self.finish(self.crawl()), 0)
    }

    /// Removes the record of crashes, so that the next process does not wait; the back-off of a crash loop has tests of its own.
    pub(crate) fn forget_crashes(&self) {
        let _ = std::fs::remove_file(self.data().join("restarts.json"));
    }

    /// Starts a command without output.
    pub(crate) fn start(&self, mut command: Command) -> Child {
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn index(&self) -> TantivyIndex {
        TantivyIndex::open(self.data().join("index"), IndexOptions::default()).unwrap()
    }

    pub(crate) fn records(&self) -> SqlStore {
        let database = match &self.postgres {
            Some(url) => Database::Postgres(url.clone()),
            None => Database::Sqlite(self.data().join("records.db")),
        };
        self.runtime.block_on(SqlStore::open(SqlOptions::new(database))).unwrap()
    }

    /// URLs in the index, with duplicates.
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

    /// Completeness and politeness of a finished crawl, however often it was interrupted.
    pub(crate) fn check(&self) {
        self.check_outcome();
        self.check_politeness();
    }

    /// Completeness: index, trails and dead letters match the ground truth.
    pub(crate) fn check_outcome(&self) {
        let indexed = self.indexed();
        let differences = self.ground_truth().compare(indexed, Duplicates::Kept);
        assert!(
            differences.missing.is_empty()
                && differences.unexpected.is_empty()
                && differences.duplicated.is_empty(),
            "the index differs from the web: {differences:#?}"
        );
        self.check_trails();
    }

    /// Every trail is closed, and exactly the URLs that always fail are dead.
    fn check_trails(&self) {
        let records = self.records();
        self.runtime.block_on(async {
            let open = records.open_items(20).await.unwrap();
            for item in &open {
                eprintln!("{:#?}", records.of_item(item).await.unwrap());
            }
            assert!(open.is_empty(), "items whose trail is not closed: {open:?}");
            for url in self.ground_truth().indexed.keys() {
                let trails = records.of_subject(url, 50).await.unwrap();
                let indexed =
                    trails.iter().flatten().any(|entry| entry.stage == "index" && entry.outcome == "indexed");
                assert!(indexed, "{url} has no trail entry `indexed`: {trails:#?}");
            }
            let dead: BTreeSet<String> =
                records.dead(None, None, 1000).await.unwrap().urls.into_iter().map(|dead| dead.url).collect();
            let missing: Vec<_> = self.ground_truth().dead.difference(&dead).collect();
            assert!(missing.is_empty(), "these must be dead: {missing:?}");
            // Of a redirect loop, only the URLs that have a link are known.
            let in_loop =
                |url: &&String| self.ground_truth().not_indexed.get(*url) == Some(&NotIndexed::RedirectLoop);
            let others =
                dead.difference(&self.ground_truth().dead).filter(|url| !in_loop(url)).collect::<Vec<_>>();
            assert!(others.is_empty(), "these must not be dead: {others:?}");
            assert!(dead.iter().any(|url| in_loop(&url)), "a redirect loop is dead");
            let crawls = records.crawls(None, 10).await.unwrap();
            assert_eq!(crawls.len(), 1);
            assert_eq!((crawls[0].counts.waiting, crawls[0].counts.in_flight), (0, 0), "{crawls:#?}");
            records.close().await;
        });
    }

    /// Politeness by the access log: one request at a time per host, the minimum delay between two, and no request for a
    /// disallowed URL.
    pub(crate) fn check_politeness(&self) {
        let breaches = self.breaches();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    /// Hosts with concurrent requests or too short a delay: one entry for each breach, with a description.
    pub(crate) fn breaches(&self) -> Vec<(String, String)> {
        let requests = self.server.log().unwrap().entries();
        let forbidden: BTreeSet<&str> = self.ground_truth().never_requested().collect();
        let port = self.server.web().port();
        let mut last: BTreeMap<&str, &AccessLogEntry> = BTreeMap::new();
        let mut breaches = Vec::new();
        for request in &requests {
            let url = format!("http://{}:{port}{}", request.host, request.path);
            assert!(!forbidden.contains(url.as_str()), "{url} must never be requested");
            let concurrent = request.open > 1;
            if let Some(before) = last.insert(&request.host, request) {
                let delay = Duration::from_micros(request.started_us.saturating_sub(before.ended_us));
                // Tolerance for the rounding of two clocks.
                if concurrent || delay + Duration::from_millis(1) < self.min_delay {
                    let min_delay = self.min_delay;
                    let text = format!("{delay:?} instead of {min_delay:?}: {before:?} {request:?}");
                    breaches.push((request.host.clone(), text));
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
