//! Benchmark of the stores with few and with many known URLs:
//! `cargo run --release -p crawlway-store-sql --example sql_speed [-- known batch hosts [postgres-address]]`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it prints what it measures, and stops at any failure"
)]

use crawlway_store::{
    AttemptEnd, Frontier, Group, RateLimitPolicy, RateLimiter, RateLimits, RequestOutcome, Reservation,
    SeenUrls, Ticket, Timestamp, TrailEntry, Trails,
    frontier::{CrawlId, NewCrawl, NewUrl, PageFacts, UrlVerdict},
    seen::{Claim, SeenUrl},
};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use std::time::{Duration, Instant};

/// Calls measured at each size.
const MEASURED: usize = 20_000;

struct Bench {
    store: SqlStore,
    crawl: CrawlId,
    batch: usize,
    hosts: usize,
    added: usize,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize, default: usize| arguments.get(place).map_or(default, |text| text.parse().unwrap());
    let (known, batch, hosts) = (number(0, 1_000_000), number(1, 128), number(2, 1000));
    let folder = tempfile::tempdir().unwrap();
    let place = match arguments.get(3) {
        Some(address) => Database::Postgres(address.clone()),
        None => Database::Sqlite(folder.path().join("store.db")),
    };
    let store = SqlStore::open(SqlOptions::new(place)).await.unwrap();
    let crawl = CrawlId::new(&format!("speed-{}", Timestamp::now().as_millis())).unwrap();
    store
        .open_crawl(&NewCrawl { id: crawl.clone(), definition: String::new(), max_pages: None })
        .await
        .unwrap();
    let mut bench = Bench { store, crawl, batch, hosts, added: 0 };
    println!("batches of {batch}, {hosts} hosts");
    for size in [10_000, known] {
        let begun = Instant::now();
        let from = bench.added;
        while bench.added < size {
            bench.add(1000).await;
        }
        let filled = (bench.added - from) as f64 / begun.elapsed().as_secs_f64();
        println!("\n{size} URLs known (filled at {filled:.0}/s)");
        bench.measure().await;
    }
    if arguments.get(3).is_some() {
        println!("\nrate limiter");
        permits(&bench.store).await;
    }
    if let Ok(about) = std::fs::metadata(folder.path().join("store.db")) {
        println!("\n{:.0} bytes of file a URL", about.len() as f64 / bench.added as f64);
    }
}

impl Bench {
    async fn measure(&mut self) {
        let begun = Instant::now();
        for _ in 0..MEASURED / self.batch {
            self.add(self.batch).await;
        }
        report("add, all new", begun);

        let links: Vec<NewUrl> = (0..MEASURED).map(|n| self.url(n * 7 % self.added)).collect();
        let begun = Instant::now();
        for links in links.chunks(self.batch) {
            self.store.add(&self.crawl, links).await.unwrap();
        }
        report("add, all known", begun);

        let begun = Instant::now();
        let mut many = 0;
        while many < MEASURED {
            let taken = self.store.claim_next(self.batch, 2).await.unwrap();
            assert!(!taken.is_empty(), "hosts do not rest here");
            many += taken.len();
            let facts = PageFacts { fetched: true, ..PageFacts::default() };
            let ending = || UrlVerdict::Done {
                outcome: "published".to_owned(),
                facts: facts.clone(),
                host_delay: Duration::ZERO,
            };
            let endings: Vec<_> = taken.iter().map(|taken| (taken.receipt, ending())).collect();
            self.store.settle(&endings).await.unwrap();
        }
        report("next + settle", begun);

        let begun = Instant::now();
        for from in (0..MEASURED).step_by(self.batch) {
            let owner = item(from);
            let claims: Vec<Claim> = (from..from + self.batch)
                .map(|n| Claim::new(self.url(self.added + n).url, owner.clone()))
                .collect();
            self.store.claim(&claims, Duration::from_secs(60)).await.unwrap();
            let seen = |claim: Claim| SeenUrl {
                url: claim.url,
                owner: claim.owner,
                ttl: Duration::from_secs(86_400),
            };
            self.store.mark(&claims.into_iter().map(seen).collect::<Vec<_>>()).await.unwrap();
        }
        report("claim + mark", begun);

        let begun = Instant::now();
        for from in (0..MEASURED).step_by(self.batch) {
            let entries: Vec<TrailEntry> = (from..from + self.batch).map(|n| self.entry(n)).collect();
            self.store.append(&entries).await.unwrap();
        }
        report("record (2 entries an item)", begun);
    }

    async fn add(&mut self, many: usize) {
        let urls: Vec<NewUrl> = (self.added..self.added + many).map(|n| self.url(n)).collect();
        self.store.add(&self.crawl, &urls).await.unwrap();
        self.added += many;
    }

    fn url(&self, n: usize) -> NewUrl {
        let host = format!("host-{}.example.org", n % self.hosts);
        NewUrl {
            item: item(n),
            url: format!("https://{host}/some/folder/of/pages/page-number-{n}.html"),
            host,
            depth: 3,
            chain: 1,
            found_on: Some(item(n / 20)),
            ignore_canonical: false,
            ignore_limit: false,
            budget: None,
        }
    }

    fn entry(&self, n: usize) -> TrailEntry {
        TrailEntry {
            item: item(self.added + n / 2),
            subject: Some(self.url(self.added + n / 2).url),
            flow: "search".to_owned(),
            stage: if n.is_multiple_of(2) { "crawl" } else { "index" }.to_owned(),
            at: Timestamp::now(),
            end: if n.is_multiple_of(2) { AttemptEnd::Passed } else { AttemptEnd::Done },
            outcome: "published".to_owned(),
            attempt: 1,
            took_ms: 12,
            worker: "worker-1".to_owned(),
            replays: 0,
            note: None,
            error: None,
        }
    }
}

fn item(n: usize) -> String {
    format!("019a8b2c-{:04x}-7{:03x}-8000-{n:012x}", n >> 12, n & 0xfff)
}

/// Permits of one process, each reserved and finished.
async fn permits(store: &SqlStore) {
    let policy = RateLimitPolicy { idle_ttl: Duration::ZERO, ..RateLimitPolicy::default() };
    let limiter = store.rate_limiter(policy).await.unwrap();
    let limits = RateLimits { concurrency: 64, min_delay: Duration::ZERO };
    for (callers, groups) in [(1, 1), (8, 8), (8, 1), (64, 64), (64, 1)] {
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..callers {
            let (limiter, group) =
                (limiter.clone(), Group::new(&format!("host-{}", caller % groups)).unwrap());
            tasks.spawn(async move {
                let mut done = 0;
                while begun.elapsed() < Duration::from_secs(3) {
                    let ticket = Ticket::from_u128((caller << 32 | done) as u128);
                    if let Reservation::Granted(permit) =
                        limiter.reserve(&group, ticket, &limits).await.unwrap()
                    {
                        limiter.finish(&permit, RequestOutcome::Success).await.unwrap();
                        done += 1;
                    }
                }
                done
            });
        }
        let done: usize = tasks.join_all().await.into_iter().sum();
        let rate = done as f64 / begun.elapsed().as_secs_f64();
        println!("  {callers} callers, {groups} groups: {rate:>9.0}/s");
    }
}

fn report(what: &str, begun: Instant) {
    println!("  {what:<28} {:>9.0}/s", MEASURED as f64 / begun.elapsed().as_secs_f64());
}
