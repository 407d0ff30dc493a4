//! The flow `inventory` and sites that are down: a wait counts nothing for fifteen minutes, and then each probe does.

use crate::{
    site::Site,
    world::{MINUTE, World},
};
use crawlway_store::{UrlRecords, inventory::Status};
use std::time::Duration;

/// Waits until the URL is completed, and expects that no try failed.
async fn it_is_completed(world: &World, url: &str) {
    let completed = async || world.record(url).await.is_some_and(|record| record.status == Status::Completed);
    world.pass(10 * MINUTE, completed).await;
    let record = world.record(url).await.expect("a record");
    assert_eq!(record.status, Status::Completed, "{record:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_of_a_site_that_is_down_for_ten_minutes_at_first_contact_is_completed_when_it_is_back() {
    let (world, site) = (World::embedded().await, Site::down());
    let going = world.fetch().await;
    let url = site.url("/");
    world.ask_for(&url).await;
    world.pass_all(10 * MINUTE).await;
    let queued = world.record(&url).await.expect("what was accepted has a record");
    assert_eq!(queued.status, Status::Queued, "what waits has not begun");
    site.comes_up();
    it_is_completed(&world, &url).await;
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failed_robots_txt_makes_no_url_of_a_healthy_host_fail() {
    let (world, site) = (World::embedded().await, Site::up());
    site.robots_answers(503);
    let going = world.fetch().await;
    let urls: Vec<String> = (0..5).map(|page| site.url(&format!("/{page}"))).collect();
    for url in &urls {
        world.ask_for(url).await;
    }
    world.pass(MINUTE, async || site.asked("/robots.txt") == 1).await;
    site.robots_answers(200);
    for url in &urls {
        it_is_completed(&world, url).await;
        assert_eq!(world.record(url).await.expect("a record").processing.retry_count, 0, "{url}");
    }
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_that_goes_down_for_ten_minutes_costs_a_url_one_try() {
    let (world, site) = (World::embedded().await, Site::up());
    let going = world.fetch().await;
    world.ask_for(&site.url("/1")).await;
    it_is_completed(&world, &site.url("/1")).await;
    site.goes_down().await;
    let url = site.url("/2");
    world.ask_for(&url).await;
    world.pass_all(10 * MINUTE).await;
    let record = world.record(&url).await.expect("a record");
    assert_eq!((record.status, record.processing.retry_count), (Status::FailedRetryable, 1));
    site.comes_up();
    it_is_completed(&world, &url).await;
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_fifteen_minutes_each_probe_is_a_failed_try_of_every_url_and_three_tries_are_three_requests() {
    let (world, site) = (World::embedded().await, Site::up());
    site.robots_answers(503);
    let going = world.fetch().await;
    let urls = [site.url("/1"), site.url("/2")];
    for url in &urls {
        world.ask_for(url).await;
    }
    world.pass_all(14 * MINUTE).await;
    let counts = world.records.counts().await.unwrap();
    assert_eq!(counts.of(Status::FailedRetryable) + counts.of(Status::FailedPermanent), 0);
    let probes_before = site.asked("/robots.txt");
    let failed = async || world.records.counts().await.unwrap().of(Status::FailedPermanent) == 2;
    world.pass(60 * MINUTE, failed).await;
    for url in &urls {
        let record = world.record(url).await.expect("a record");
        assert_eq!(
            (record.status, record.processing.retry_count),
            (Status::FailedPermanent, 3),
            "{record:?}"
        );
        assert!(record.processing.error_message.expect("a reason").starts_with("robots.unreachable"));
    }
    let probes = site.asked("/robots.txt") - probes_before;
    assert!((3..=4).contains(&probes), "three tries of two URLs are three requests, not {probes}");
    assert_eq!(site.pages_asked(), 0);
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_urls_of_one_host_only_the_one_that_is_fetched_is_in_progress() {
    let (world, site) = (World::embedded().await, Site::up());
    let going = world.fetch().await;
    let urls: Vec<String> = (0..20).map(|page| site.url(&format!("/{page}"))).collect();
    for url in &urls {
        world.ask_for(url).await;
    }
    let mut most = 0;
    let all_done = async || {
        let counts = world.records.counts().await.unwrap();
        most = most.max(counts.of(Status::InProgress));
        counts.of(Status::Completed) == urls.len() as u64
    };
    let took = world.pass(30 * MINUTE, all_done).await;
    assert_eq!(world.records.counts().await.unwrap().of(Status::Completed), urls.len() as u64);
    assert!(most <= 1, "{most} were in progress at a time");
    assert!(took >= Duration::from_secs(19), "one a second");
    going.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_wait_for_a_site_that_is_down_leave_room_for_those_of_other_sites() {
    let (world, down, healthy) = (World::embedded().await, Site::down(), Site::up_elsewhere());
    urls_of_a_site_that_is_down_leave_room(&world, &down, &healthy).await;
}

/// The queue takes ten URLs. Ten of a site that is down are asked for, and then ten of one that is up.
pub(crate) async fn urls_of_a_site_that_is_down_leave_room(world: &World, down: &Site, healthy: &Site) {
    let going = world.fetch_up_to(10).await;
    let of = |site: &Site| -> Vec<String> { (0..10).map(|page| site.url(&format!("/{page}"))).collect() };
    for url in of(down) {
        world.pass(MINUTE, async || world.takes(&url).await).await;
    }
    world.pass(2 * MINUTE, async || world.waiting().await == 0).await;
    assert_eq!(world.waiting().await, 0, "what waits for its host takes up no room");
    for url in of(healthy) {
        world.ask_for(&url).await;
    }
    let completed = async |count| {
        let is_so = async || world.records.counts().await.unwrap().of(Status::Completed) == count;
        world.pass(20 * MINUTE, is_so).await;
        assert_eq!(world.records.counts().await.unwrap().of(Status::Completed), count);
    };
    completed(10).await;
    down.comes_up();
    completed(20).await;
    going.end().await;
}
