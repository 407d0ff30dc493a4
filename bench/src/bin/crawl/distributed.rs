//! Crawl by several processes on RabbitMQ, Redis and PostgreSQL, until every page is searchable in PostgreSQL.

use crate::{crawlway, site::Site};
use anyhow::{bail, ensure};
use crawlway_bench::{
    database::Database,
    measure::{self, Usage},
    program::{self, Running},
    server_settings::{postgres, rabbitmq},
};
use crawlway_testkit::servers;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Interval of page counts in PostgreSQL.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Crawls the whole site with several `crawlway up --only search:crawl`, an indexer and a gateway, and checks that every page is
/// searchable. The wall time is from the start of `crawlway crawl` until the last page is in PostgreSQL; the CPU time is that of
/// all `crawlway` processes.
pub(crate) fn crawl(
    program: &Path,
    site: &Site,
    place: &Path,
    processes: usize,
    limit: Duration,
) -> anyhow::Result<Usage> {
    std::fs::create_dir_all(place)?;
    let run = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut database = Database::create(&run)?;
    let settings = settings(site, &database);
    let start = |name: &str, parts: &str| {
        let mut command = program::command(program, name, &place.join("data"), &settings);
        if !parts.is_empty() {
            command.args(["--only", parts]);
        }
        command
    };
    let gateway = Running::start(start("up", "gateway"))?;
    let url = gateway.url()?.to_owned();
    // The queue may have messages of an earlier run.
    let mut purge = start("queues", "");
    let purged = purge.args(["purge", "crawler_queue", "--yes", "--gateway", &url]).output()?;
    ensure!(purged.status.success(), "{purge:?} failed: {}", String::from_utf8_lossy(&purged.stderr));
    let mut running = vec![gateway, Running::start(start("up", "search:index"))?];
    for _ in 0..processes {
        running.push(Running::start(start("up", "search:crawl"))?);
    }

    let before = running.iter().map(Running::cpu).sum::<anyhow::Result<Duration>>()?;
    let mut command = start("crawl", "");
    command.args(["--gateway", &url]).arg(&site.start);
    let began = Instant::now();
    let client = std::thread::spawn(move || measure::run(&mut command, limit));
    let wall = loop {
        let pages = database.count("SELECT count(*) FROM pages")?;
        if pages >= site.pages {
            break began.elapsed();
        }
        if began.elapsed() > limit {
            bail!("expected {} pages in PostgreSQL, got {pages} after {:?}", site.pages, began.elapsed());
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let client = match client.join() {
        Ok(client) => client?,
        Err(_) => bail!("`crawlway crawl` panicked"),
    };
    let cpu = running.iter().map(Running::cpu).sum::<anyhow::Result<Duration>>()? - before + client.cpu;
    let peak = running.iter().filter_map(Running::peak).max().unwrap_or_default();
    crawlway::check_report(&client.stdout, site)?;
    crawlway::check(site, |query| {
        let mut search = start("search", "");
        search.args(["--gateway", &url, "--all", "--limit", "1", query]);
        search
    })?;
    for process in running {
        process.stop()?;
    }
    database.drop()?;
    Ok(Usage { wall, cpu, peak, stdout: client.stdout })
}

fn settings(site: &Site, database: &Database) -> Vec<(&'static str, String)> {
    let mut settings = rabbitmq();
    settings.extend(postgres(database));
    settings.extend([
        ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
        ("CRAWLWAY_RATE_LIMIT__KIND", "redis".to_owned()),
        ("CRAWLWAY_REDIS__URL", servers::redis()),
        ("CRAWLWAY_REDIS__PREFIX", database.name().to_owned()),
        ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
        ("CRAWLWAY_FETCH__ALLOW", format!("[\"{}\"]", crawlway::allowed(site))),
        ("CRAWLWAY_FETCH__PER_HOST_CONCURRENCY", crate::IN_FLIGHT.to_string()),
        ("CRAWLWAY_FETCH__MIN_DELAY", "0s".to_owned()),
    ]);
    settings
}
