//! The same crawl by several processes on RabbitMQ, Redis and PostgreSQL, until every page can be searched in PostgreSQL.

use crate::{
    measured::{self, Spent},
    ours,
    site::Site,
};
use anyhow::{Context, bail, ensure};
use crawlway_testkit::servers;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// How often PostgreSQL is asked how many pages it has.
const LOOK: Duration = Duration::from_millis(50);

/// Crawls the whole site with so many `crawlway up --only worker:crawl`, an indexer and a gateway, on a database of its own,
/// and makes sure that every page can be found. Time runs from the start of `crawlway crawl` until the last page is in
/// PostgreSQL; computing time is that of all our processes, until the crawl is known to have ended.
pub(crate) fn crawl(
    program: &Path,
    site: &Site,
    place: &Path,
    processes: usize,
    limit: Duration,
) -> anyhow::Result<Spent> {
    std::fs::create_dir_all(place)?;
    let mut database = Database::create(place)?;
    let settings = settings(site, &database);
    let start = |name: &str, parts: &str| {
        let mut command = ours::command(program, name, &place.join("data"));
        command.envs(settings.iter().map(|(name, value)| (*name, value.as_str())));
        if !parts.is_empty() {
            command.args(["--only", parts]);
        }
        command
    };
    let gateway = Process::start(start("up", "gateway"))?;
    let url = gateway.told["url"].as_str().context("the gateway tells where it listens")?.to_owned();
    // The database is new, and the queue is whoever's ran before.
    let mut purge = start("queues", "");
    let purged = purge.args(["purge", "crawler_queue", "--yes", "--gateway", &url]).output()?;
    ensure!(purged.status.success(), "{purge:?} failed: {}", String::from_utf8_lossy(&purged.stderr));
    let mut running = vec![gateway, Process::start(start("up", "worker:index"))?];
    for _ in 0..processes {
        running.push(Process::start(start("up", "worker:crawl"))?);
    }

    let before = running.iter().map(Process::cpu).sum::<anyhow::Result<Duration>>()?;
    let mut command = start("crawl", "");
    command.args(["--gateway", &url]).arg(&site.start);
    let began = Instant::now();
    let follower = std::thread::spawn(move || measured::run(&mut command, limit));
    let wall = loop {
        let pages = database.pages()?;
        if pages >= site.pages {
            break began.elapsed();
        }
        if began.elapsed() > limit {
            bail!(
                "expected {} pages in PostgreSQL; after {:?} there were {pages}",
                site.pages,
                began.elapsed()
            );
        }
        std::thread::sleep(LOOK);
    };
    let followed = match follower.join() {
        Ok(followed) => followed?,
        Err(_) => bail!("following the crawl broke off"),
    };
    let cpu = running.iter().map(Process::cpu).sum::<anyhow::Result<Duration>>()? - before + followed.cpu;
    let peak = running.iter().filter_map(Process::peak).max().unwrap_or_default();
    ours::check_told(&followed.stdout, site)?;
    ours::check(site, |query| {
        let mut search = start("search", "");
        search.args(["--gateway", &url, "--all", "--limit", "1", query]);
        search
    })?;
    for process in running {
        process.end()?;
    }
    database.drop()?;
    Ok(Spent { wall, cpu, peak, stdout: followed.stdout })
}

fn settings(site: &Site, database: &Database) -> Vec<(&'static str, String)> {
    let server = servers::rabbitmq();
    vec![
        ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
        ("CRAWLWAY_BROKER__RABBITMQ__HOST", server.host),
        ("CRAWLWAY_BROKER__RABBITMQ__PORT", server.port.to_string()),
        ("CRAWLWAY_BROKER__RABBITMQ__MANAGEMENT", server.management),
        ("RABBITMQ_USER", server.user),
        ("RABBITMQ_PASSWORD", server.password),
        ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
        ("CRAWLWAY_GATE__KIND", "redis".to_owned()),
        ("CRAWLWAY_REDIS__URL", servers::redis()),
        ("CRAWLWAY_REDIS__PREFIX", database.name.clone()),
        ("CRAWLWAY_RECORDS__KIND", "postgresql".to_owned()),
        ("CRAWLWAY_RECORDS__POSTGRESQL__URL", database.url()),
        ("CRAWLWAY_SEARCH__INDEX", "postgresql".to_owned()),
        ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
        ("CRAWLWAY_FETCH__ALLOW", format!("[\"{}\"]", ours::allowed(site))),
        ("CRAWLWAY_FETCH__IN_FLIGHT", crate::IN_FLIGHT.to_string()),
        ("CRAWLWAY_FETCH__GAP", "0s".to_owned()),
    ]
}

/// A process that runs some of the parts. Dropped, it is killed.
struct Process {
    child: Child,
    /// What it said when it was up.
    told: Value,
    /// Held open, since the process may write more.
    _stdout: BufReader<ChildStdout>,
}

impl Process {
    fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("a process without output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let told = serde_json::from_str(&line).context("a process did not start; it said why above")?;
        Ok(Self { child, told, _stdout: stdout })
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        measured::cpu_of(self.child.id())
    }

    fn peak(&self) -> Option<u64> {
        measured::most_memory(Pid::from_child(&self.child))
    }

    fn end(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a process ended with {status}; expected it to end well when asked to");
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A database of one run.
struct Database {
    name: String,
    runtime: Runtime,
    connection: PgConnection,
}

impl Database {
    fn create(place: &Path) -> anyhow::Result<Self> {
        let run = place.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
        let name = format!("bench_{}_{run}", std::process::id());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        on_server(&runtime, format!("CREATE DATABASE {name}"))?;
        let connection = runtime.block_on(PgConnection::connect(&address(&name)))?;
        Ok(Self { name, runtime, connection })
    }

    fn url(&self) -> String {
        address(&self.name)
    }

    /// How many pages can be searched.
    fn pages(&mut self) -> anyhow::Result<usize> {
        let pages: i64 = self
            .runtime
            .block_on(sqlx::query_scalar("SELECT count(*) FROM pages").fetch_one(&mut self.connection))?;
        Ok(usize::try_from(pages)?)
    }

    fn drop(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.connection.close())?;
        on_server(&self.runtime, format!("DROP DATABASE {} WITH (FORCE)", self.name))
    }
}

fn on_server(runtime: &Runtime, statement: String) -> anyhow::Result<()> {
    runtime.block_on(async {
        let mut server = PgConnection::connect(&servers::postgres()).await?;
        server.execute(AssertSqlSafe(statement)).await?;
        server.close().await?;
        Ok(())
    })
}

fn address(database: &str) -> String {
    let server = servers::postgres();
    let place = server.rsplit_once('/').map_or(server.as_str(), |(place, _)| place);
    format!("{place}/{database}")
}
