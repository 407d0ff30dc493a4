//! The flow `search` and sites that are down: what cannot be reached yet is crawled later, and nothing is given up.

use crate::{
    site::{PAGES, Site},
    world::{MINUTE, World},
};
use crawlway_store::{
    CrawlId, Frontier, Trails,
    frontier::{CrawlState, Entry, NewTerms},
};
use std::time::Duration;

/// Waits until the crawl is finished, for no longer than one more back-off and some, and expects every page.
pub(crate) async fn everything_is_crawled(world: &World, crawl: &CrawlId, site: &Site) {
    let finished = async || world.look(crawl).await.state == CrawlState::Finished;
    world.pass(30 * MINUTE, finished).await;
    let crawl = world.look(crawl).await;
    assert_eq!((crawl.state, crawl.counts.dead, crawl.counts.waiting), (CrawlState::Finished, 0, 0));
    assert_eq!(crawl.counts.outcomes.get("published"), Some(&(PAGES as u64 + 1)), "{:?}", crawl.counts);
    for page in 0..PAGES {
        assert!(site.asked(&format!("/{page}")) >= 1, "page {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_is_down_for_ten_minutes_at_first_contact_is_crawled_when_it_is_back() {
    let (world, site) = (World::embedded().await, Site::down());
    let crawl = world.begin(&site.url("/")).await;
    let going = world.crawl(true).await;
    world.pass_all(10 * MINUTE).await;
    let entry = world.records.find(&site.url("/")).await.unwrap().remove(0);
    assert_eq!((entry.attempts, world.look(&crawl).await.counts.dead), (0, 0), "nothing is counted");
    site.comes_up();
    everything_is_crawled(&world, &crawl, &site).await;
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_robots_txt_that_answers_503_for_ten_minutes_is_probed_with_back_off_and_the_site_is_crawled_then()
{
    let (world, site) = (World::embedded().await, Site::up());
    site.robots_answers(503);
    let crawl = world.begin(&site.url("/")).await;
    let going = world.crawl(true).await;
    world.pass_all(10 * MINUTE).await;
    let probes = site.asked("/robots.txt");
    assert!((5..=10).contains(&probes), "5 s, doubled each time up to 5 min: {probes} probes in 10 min");
    assert_eq!((site.pages_asked(), world.look(&crawl).await.counts.dead), (0, 0));
    site.robots_answers(200);
    everything_is_crawled(&world, &crawl, &site).await;
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_that_is_resumed_while_robots_txt_answers_503_for_three_seconds_loses_nothing() {
    let (world, site) = (World::embedded().await, Site::up());
    let crawl = world.begin(&site.url("/")).await;
    let going = world.crawl(true).await;
    world.pass(5 * MINUTE, async || world.look(&crawl).await.counts.done >= 2).await;
    going.end().await;
    let before = world.look(&crawl).await;
    assert_eq!((before.state, before.counts.dead), (CrawlState::Running, 0), "{:?}", before.counts);
    site.robots_answers(503);
    let going = world.crawl(true).await;
    world.pass_all(Duration::from_secs(3)).await;
    site.robots_answers(200);
    everything_is_crawled(&world, &crawl, &site).await;
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_goes_down_for_ten_minutes_in_the_middle_of_a_crawl_loses_no_page() {
    let (world, site) = (World::embedded().await, Site::up());
    let crawl = world.begin(&site.url("/")).await;
    let going = world.crawl(true).await;
    world.pass(5 * MINUTE, async || world.look(&crawl).await.counts.done >= 2).await;
    site.goes_down().await;
    world.pass_all(10 * MINUTE).await;
    assert_eq!(world.look(&crawl).await.counts.dead, 0);
    site.comes_up();
    everything_is_crawled(&world, &crawl, &site).await;
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_robots_txt_the_attempts_at_a_page_outlast_ten_minutes_of_refused_connections() {
    let (world, site) = (World::embedded().await, Site::down());
    let crawl = world.begin(&site.url("/")).await;
    let going = world.crawl(false).await;
    world.pass_all(10 * MINUTE).await;
    assert_eq!(world.look(&crawl).await.counts.dead, 0);
    site.comes_up();
    everything_is_crawled(&world, &crawl, &site).await;
    assert_eq!(site.asked("/robots.txt"), 0);
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_read_the_terms_of_a_newer_version_leaves_its_urls_to_others() {
    let (world, site) = (World::embedded().await, Site::up());
    let crawl = world.begin(&site.url("/")).await;
    let readable = world.look(&crawl).await.definition;
    let newer = readable.replacen('{', "{\"since_a_later_version\":true,", 1);
    let set = async |definition: &str| {
        let replaces = world.look(&crawl).await.revision;
        let terms = NewTerms { replaces, definition: definition.to_owned(), max_pages: None };
        world.records.set_terms(&crawl, &terms).await.unwrap().expect("nobody else changes them");
    };
    set(&newer).await;
    let going = world.crawl(true).await;
    let waited =
        async || !world.records.of_item(&seed_of(&world, &site).await.item).await.unwrap().is_empty();
    world.pass(MINUTE, waited).await;
    world.pass_all(2 * MINUTE).await;
    let seed = seed_of(&world, &site).await;
    let trail = world.records.of_item(&seed.item).await.unwrap();
    let told = trail.last().and_then(|entry| entry.error.clone()).unwrap_or_default();
    assert!(told.contains("newer version") && told.contains("since_a_later_version"), "{trail:?}");
    let counts = world.look(&crawl).await.counts;
    assert_eq!((seed.attempts, counts.dead, site.pages_asked()), (0, 0, 0), "{counts:?}");
    set(&readable).await;
    everything_is_crawled(&world, &crawl, &site).await;
    going.end().await;
}

async fn seed_of(world: &World, site: &Site) -> Entry {
    world.records.find(&site.url("/")).await.unwrap().remove(0)
}
