//! Cases: concurrent workers.

use super::fixture::*;

const WORKERS: usize = 6;
/// Polls of a worker after which its case fails.
const MAX_POLLS: usize = 5000;

pub(super) async fn racing_workers_share_without_overlap((mut t, id): Crawling<'_>) {
    const HOSTS: usize = 12;
    let new: Vec<NewUrl> =
        (0..120).map(|number| url(&format!("{}.example", number % HOSTS), &number.to_string())).collect();
    t.adds(&id, &new).await;
    // Nothing is settled, so that each host gives two and no more, whichever worker asks.
    let taken = t.race(WORKERS, |_, frontier| async move {
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.extend(expect_ok(frontier.claim_next(3, 2).await, "taking in a race"));
        }
        taken
    });
    let taken = taken.await.concat();
    let mut urls: HashMap<&str, usize> = HashMap::new();
    let mut hosts: HashMap<&str, usize> = HashMap::new();
    for taken in &taken {
        *urls.entry(&taken.url).or_default() += 1;
        *hosts.entry(&taken.host).or_default() += 1;
    }
    assert!(urls.values().all(|times| *times == 1), "each is handed out once: {urls:?}");
    assert!(hosts.values().all(|times| *times <= 2), "two in flight per host and no more: {hosts:?}");
    let more = t.next(1000, 2).await.len();
    assert_eq!(taken.len() + more, HOSTS * 2, "each host gives two, now or later");
    assert_eq!(t.four(&id).await, [120 - 24, 24, 0, 0], "counted right");
}

/// Observations of all workers of a crawl.
#[derive(Default)]
struct CrawlLog {
    in_flight: HashMap<String, u32>,
    done: HashMap<String, u32>,
    settled: u64,
}

/// A worker that crawls a binary tree of pages, some of which fail at first.
async fn crawl_tree(frontier: Arc<dyn Frontier>, id: CrawlId, log: Arc<Mutex<CrawlLog>>) {
    let log = || log.lock().expect("no worker panicked");
    for _ in 0..MAX_POLLS {
        let taken = expect_ok(frontier.claim_next(3, 1).await, "taking");
        if taken.is_empty() {
            let crawl =
                expect_ok(frontier.crawl(&id).await, "reading the crawl").expect("the crawl is known");
            if crawl.state == CrawlState::Finished {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        for taken in taken {
            *log().in_flight.entry(taken.url.clone()).or_default() += 1;
            assert_eq!(log().in_flight[&taken.url], 1, "{} is in flight once", taken.url);
            let path = taken.url.rsplit('/').next().unwrap_or_default().to_owned();
            let links: Vec<NewUrl> = ["0", "1"]
                .iter()
                .filter(|_| taken.depth < 6)
                .map(|turn| {
                    let path = format!("{path}{turn}");
                    let host = format!("{}.example", path.len() + path.matches('1').count());
                    NewUrl { depth: taken.depth + 1, ..url(&host, &path) }
                })
                .collect();
            expect_ok(frontier.add(&id, &links).await, "adding links");
            let ending = match (path.len() + path.matches('1').count()) % 4 {
                0 if taken.attempt == 1 => fails("timed out"),
                1 if taken.attempt == 1 && log().settled.is_multiple_of(2) => {
                    UrlVerdict::Defer { until: taken.lease_until - frontier.policy().lease }
                }
                _ => done(),
            };
            log().in_flight.remove(&taken.url);
            let settled = expect_ok(frontier.settle(&[(taken.receipt, ending)]).await, "settling");
            let mut log = log();
            log.settled += 1;
            match settled[..] {
                [Some(UrlSettleOutcome::Done)] => *log.done.entry(taken.url).or_default() += 1,
                [Some(UrlSettleOutcome::Retrying { .. } | UrlSettleOutcome::Deferred)] => {}
                ref other => panic!("{} is held, and was settled as {other:?}", taken.url),
            }
        }
    }
    panic!("the crawl must come to its end within {MAX_POLLS} polls");
}

pub(super) async fn a_crawl_by_many_ends_with_everything_done_once((mut t, id): Crawling<'_>) {
    t.adds(&id, &[url("1.example", "r")]).await;
    let log = Arc::new(Mutex::new(CrawlLog::default()));
    t.race(WORKERS, |_, frontier| crawl_tree(frontier, id.clone(), log.clone())).await;
    let done = std::mem::take(&mut log.lock().expect("no worker panicked").done);
    // A tree of depth 6 has 127 pages.
    assert_eq!(done.len(), 127, "every page is done");
    assert!(done.values().all(|times| *times == 1), "and once: {done:?}");
    assert_eq!(t.four(&id).await, [0, 0, 127, 0], "counted right");
    let counts = t.counts(&id).await;
    assert_eq!(counts.fetched, 127, "all were fetched");
    assert_eq!(counts.outcomes.get("published"), Some(&127), "all were published");
    t.is(&id, CrawlState::Finished, "nothing is left").await;
}
