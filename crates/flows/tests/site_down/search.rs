//! Outages of sites in the flow `search`: pages are crawled later, and none becomes a dead letter.

use crate::{
    site::{PAGES, Site},
    world::{MINUTE, World},
};
use crawlway_store::{
    CrawlId, Frontier, Trails,
    frontier::{CrawlState, Entry, NewSettings},
};
use std::time::Duration;

/// Waits until the crawl is finished, and checks that every page was crawled.
pub(crate) async fn wait_finished(world: &World, crawl: &CrawlId, site: &Site) {
    let finished = async || world.look(crawl).await.state == CrawlState::Finished;
    world.pass(30 * MINUTE, finished).await;
    let crawl = world.look(crawl).await;
    assert_eq!((crawl.state, crawl.counts.dead, crawl.counts.waiting), (CrawlState::Finished, 0, 0));
    assert_eq!(crawl.counts.outcomes.get("published"), Some(&(PAGES as u64 + 1)), "{:?}", crawl.counts);
    for page in 0..PAGES {
        assert!(site.requests(&format!("/{page}")) >= 1, "page {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_down_for_ten_minutes_is_crawled_later() {
    let (world, site) = (World::embedded().await, Site::down());
    let crawl = world.begin(&site.url("/")).await;
    let flow = world.crawl(true).await;
    world.pass_all(10 * MINUTE).await;
    assert_no_attempt_counts(&world, &site).await;
    assert_eq!(world.look(&crawl).await.counts.dead, 0);
    site.comes_up();
    wait_finished(&world, &crawl, &site).await;
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_robots_txt_with_503_for_ten_minutes_is_probed_with_back_off() {
    let (world, site) = (World::embedded().await, Site::up());
    site.robots_answers(503);
    let crawl = world.begin(&site.url("/")).await;
    let flow = world.crawl(true).await;
    world.pass_all(10 * MINUTE).await;
    let probes = site.requests("/robots.txt");
    assert!((5..=10).contains(&probes), "5 s, doubled each time up to 5 min: {probes} probes in 10 min");
    assert_eq!((site.page_requests(), world.look(&crawl).await.counts.dead), (0, 0));
    site.robots_answers(200);
    wait_finished(&world, &crawl, &site).await;
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_resumed_during_a_503_of_robots_txt_loses_no_page() {
    let (world, site) = (World::embedded().await, Site::up());
    let crawl = world.begin(&site.url("/")).await;
    let flow = world.crawl(true).await;
    world.pass(5 * MINUTE, async || world.look(&crawl).await.counts.done >= 2).await;
    flow.end().await;
    let before = world.look(&crawl).await;
    assert_eq!((before.state, before.counts.dead), (CrawlState::Running, 0), "{:?}", before.counts);
    site.robots_answers(503);
    let flow = world.crawl(true).await;
    world.pass_all(Duration::from_secs(3)).await;
    site.robots_answers(200);
    wait_finished(&world, &crawl, &site).await;
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_ten_minutes_during_a_crawl_loses_no_page() {
    let (world, site) = (World::embedded().await, Site::up());
    let crawl = world.begin(&site.url("/")).await;
    let flow = world.crawl(true).await;
    world.pass(5 * MINUTE, async || world.look(&crawl).await.counts.done >= 2).await;
    site.goes_down().await;
    world.pass_all(10 * MINUTE).await;
    assert_eq!(world.look(&crawl).await.counts.dead, 0);
    site.comes_up();
    wait_finished(&world, &crawl, &site).await;
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_robots_txt_the_attempts_outlast_ten_minutes_of_refused_connections() {
    let (world, site) = (World::embedded().await, Site::down());
    let crawl = world.begin(&site.url("/")).await;
    let flow = world.crawl(false).await;
    world.pass_all(10 * MINUTE).await;
    assert_eq!(world.look(&crawl).await.counts.dead, 0);
    site.comes_up();
    wait_finished(&world, &crawl, &site).await;
    assert_eq!(site.requests("/robots.txt"), 0);
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_leaves_crawls_of_a_newer_version_to_others() {
    let (world, site) = (World::embedded().await, Site::up());
    let crawl = world.begin(&site.url("/")).await;
    let readable = world.look(&crawl).await.definition;
    let newer = readable.replacen('{', "{\"since_a_later_version\":true,", 1);
    let set = async |definition: &str| {
        let replaces = world.look(&crawl).await.revision;
        let new =
            NewSettings { expected_revision: replaces, definition: definition.to_owned(), max_pages: None };
        world.records.update_settings(&crawl, &new).await.unwrap().expect("no concurrent change");
    };
    set(&newer).await;
    let flow = world.crawl(true).await;
    let waited =
        async || !world.records.of_item(&seed_of(&world, &site).await.item).await.unwrap().is_empty();
    world.pass(MINUTE, waited).await;
    world.pass_all(2 * MINUTE).await;
    let seed = seed_of(&world, &site).await;
    let trail = world.records.of_item(&seed.item).await.unwrap();
    let error = trail.last().and_then(|entry| entry.error.clone()).unwrap_or_default();
    assert!(error.contains("newer version") && error.contains("since_a_later_version"), "{trail:?}");
    assert_no_attempt_counts(&world, &site).await;
    let counts = world.look(&crawl).await.counts;
    assert_eq!((counts.dead, site.page_requests()), (0, 0), "{counts:?}");
    set(&readable).await;
    wait_finished(&world, &crawl, &site).await;
    flow.end().await;
}

/// Checks that deferrals of the seed are no attempts. An attempt in progress counts until it is deferred.
async fn assert_no_attempt_counts(world: &World, site: &Site) {
    let mut attempts = u32::MAX;
    let none = async || {
        attempts = seed_of(world, site).await.attempts;
        attempts == 0
    };
    world.pass(5 * MINUTE, none).await;
    assert_eq!(attempts, 0);
}

async fn seed_of(world: &World, site: &Site) -> Entry {
    world.records.find(&site.url("/")).await.unwrap().remove(0)
}
