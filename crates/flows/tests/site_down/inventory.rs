//! Outages of sites in the flow `inventory`: no attempt is counted for fifteen minutes, then each probe is one.

use crate::{
    site::Site,
    world::{MINUTE, World},
};
use crawlway_store::{UrlRecords, inventory::RecordStatus};
use std::time::Duration;

/// Waits until the URL is completed.
async fn wait_completed(world: &World, url: &str) {
    let completed =
        async || world.record(url).await.is_some_and(|record| record.status == RecordStatus::Completed);
    world.pass(10 * MINUTE, completed).await;
    let record = world.record(url).await.expect("a record");
    assert_eq!(record.status, RecordStatus::Completed, "{record:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_of_a_site_that_is_down_for_ten_minutes_is_completed_later() {
    let (world, site) = (World::embedded().await, Site::down());
    let flow = world.fetch().await;
    let url = site.url("/");
    world.request(&url).await;
    world.pass_all(10 * MINUTE).await;
    let queued = world.record(&url).await.expect("an accepted URL has a record");
    assert_eq!(queued.status, RecordStatus::Queued, "a deferred URL is not in progress");
    site.comes_up();
    wait_completed(&world, &url).await;
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failed_robots_txt_fails_no_url() {
    let (world, site) = (World::embedded().await, Site::up());
    site.robots_answers(503);
    let flow = world.fetch().await;
    let urls: Vec<String> = (0..5).map(|page| site.url(&format!("/{page}"))).collect();
    for url in &urls {
        world.request(url).await;
    }
    world.pass(MINUTE, async || site.requests("/robots.txt") == 1).await;
    site.robots_answers(200);
    for url in &urls {
        wait_completed(&world, url).await;
        assert_eq!(world.record(url).await.expect("a record").processing.retry_count, 0, "{url}");
    }
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_ten_minutes_costs_a_url_one_attempt() {
    let (world, site) = (World::embedded().await, Site::up());
    let flow = world.fetch().await;
    world.request(&site.url("/1")).await;
    wait_completed(&world, &site.url("/1")).await;
    site.goes_down().await;
    let url = site.url("/2");
    world.request(&url).await;
    world.pass_all(10 * MINUTE).await;
    let record = world.record(&url).await.expect("a record");
    assert_eq!((record.status, record.processing.retry_count), (RecordStatus::FailedRetryable, 1));
    site.comes_up();
    wait_completed(&world, &url).await;
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_fifteen_minutes_each_probe_is_a_failed_attempt_of_every_url() {
    let (world, site) = (World::embedded().await, Site::up());
    site.robots_answers(503);
    let flow = world.fetch().await;
    let urls = [site.url("/1"), site.url("/2")];
    for url in &urls {
        world.request(url).await;
    }
    world.pass_all(14 * MINUTE).await;
    let counts = world.records.counts().await.unwrap();
    assert_eq!(counts.of(RecordStatus::FailedRetryable) + counts.of(RecordStatus::FailedPermanent), 0);
    let probes_before = site.requests("/robots.txt");
    let failed = async || world.records.counts().await.unwrap().of(RecordStatus::FailedPermanent) == 2;
    world.pass(60 * MINUTE, failed).await;
    for url in &urls {
        let record = world.record(url).await.expect("a record");
        assert_eq!(
            (record.status, record.processing.retry_count),
            (RecordStatus::FailedPermanent, 3),
            "{record:?}"
        );
        assert!(record.processing.error_message.expect("a reason").starts_with("robots.unreachable"));
    }
    let probes = site.requests("/robots.txt") - probes_before;
    assert!((3..=4).contains(&probes), "three attempts of two URLs are three requests, not {probes}");
    assert_eq!(site.page_requests(), 0);
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_url_that_is_fetched_is_in_progress() {
    let (world, site) = (World::embedded().await, Site::up());
    let flow = world.fetch().await;
    let urls: Vec<String> = (0..20).map(|page| site.url(&format!("/{page}"))).collect();
    for url in &urls {
        world.request(url).await;
    }
    let mut max = 0;
    let all_done = async || {
        let counts = world.records.counts().await.unwrap();
        max = max.max(counts.of(RecordStatus::InProgress));
        counts.of(RecordStatus::Completed) == urls.len() as u64
    };
    let took = world.pass(30 * MINUTE, all_done).await;
    assert_eq!(world.records.counts().await.unwrap().of(RecordStatus::Completed), urls.len() as u64);
    assert!(max <= 1, "{max} were in progress at the same time");
    assert!(took >= Duration::from_secs(19), "one a second");
    flow.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_of_a_site_that_is_down_leave_room_for_others() {
    let (world, down, healthy) = (World::embedded().await, Site::down(), Site::up_elsewhere());
    urls_of_a_site_that_is_down_leave_room(&world, &down, &healthy).await;
}

/// The queue holds ten URLs. Ten of a site that is down are requested, then ten of one that is up.
pub(crate) async fn urls_of_a_site_that_is_down_leave_room(world: &World, down: &Site, healthy: &Site) {
    let flow = world.fetch_up_to(10).await;
    let of = |site: &Site| -> Vec<String> { (0..10).map(|page| site.url(&format!("/{page}"))).collect() };
    for url in of(down) {
        world.pass(MINUTE, async || world.try_request(&url).await).await;
    }
    world.pass(2 * MINUTE, async || world.pending().await == 0).await;
    assert_eq!(world.pending().await, 0, "URLs of an unreachable host take no room");
    for url in of(healthy) {
        world.request(&url).await;
    }
    let completed = async |count| {
        let is_completed =
            async || world.records.counts().await.unwrap().of(RecordStatus::Completed) == count;
        world.pass(20 * MINUTE, is_completed).await;
        assert_eq!(world.records.counts().await.unwrap().of(RecordStatus::Completed), count);
    };
    completed(10).await;
    down.comes_up();
    completed(20).await;
    flow.end().await;
}
