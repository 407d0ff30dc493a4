//! `crawlway queues`: list, show, pause, resume and purge.

use crate::{
    home::Home,
    sample::{filled, name, three_minutes_ago},
};
use crawlway_broker_embedded::Options;
use serde_json::json;

#[test]
fn all_queues_in_a_table() {
    insta::assert_snapshot!(filled(three_minutes_ago()).run("queues").ok());
}

#[test]
fn all_queues_as_json() {
    let mut listed = filled(three_minutes_ago()).run("queues --json").json();
    for queue in listed["queues"].as_array_mut().unwrap() {
        // Depends on the duration of the test.
        if let Some(age) = queue["oldest_age_ms"].as_u64() {
            assert!((180_000..240_000).contains(&age), "{age}");
            queue["oldest_age_ms"] = json!("about three minutes");
        }
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&listed).unwrap());
}

#[test]
fn one_queue_with_its_spec() {
    let home = filled(three_minutes_ago());
    insta::assert_snapshot!("show_bound", home.run("queues show scraped.kijiji").ok());
    insta::assert_snapshot!("show_crawler", home.run("queues show crawler_queue").ok());
    let shown = home.run("queues show CrawlerQueue.fifo --json").json();
    assert_eq!(
        (&shown["lease_ms"], &shown["ordering"], &shown["oldest_age_ms"]),
        (&json!(90_000), &json!("per_group"), &json!(null))
    );
}

#[test]
fn a_data_directory_without_queues() {
    let home = Home::new();
    home.with_broker(Options::default(), async |_| {});
    assert_eq!(home.run("queues").ok(), "no queues\n");
    assert_eq!(home.run("queues --json").json(), json!({ "queues": [] }));
}

#[test]
fn a_pause_lasts_until_the_resume() {
    let home = filled(three_minutes_ago());
    assert_eq!(home.run("queues pause crawler_queue").ok(), "queue `crawler_queue` is paused\n");
    assert_eq!(home.run("queues show crawler_queue --json").json()["paused"], true);
    assert_eq!(
        home.run("queues resume crawler_queue --json").json(),
        json!({ "queue": "crawler_queue", "paused": false })
    );
    assert_eq!(home.run("queues resume crawler_queue").ok(), "queue `crawler_queue` is resumed\n");
    assert_eq!(home.run("queues show crawler_queue --json").json()["paused"], false);
}

#[test]
fn purging_deletes_only_pending_messages() {
    let home = filled(three_minutes_ago());
    assert_eq!(
        home.run("queues purge crawler_queue --yes").ok(),
        "deleted 3 pending messages of queue `crawler_queue`\n"
    );
    let depth =
        home.with_broker(Options::default(), async |broker| broker.depth(&name("crawler_queue")).await);
    let depth = depth.unwrap();
    assert_eq!((depth.pending(), depth.dead), (0, 3));
    assert_eq!(
        home.run("queues purge url_inventory --yes --json").json(),
        json!({ "queue": "url_inventory", "purged": 1 })
    );
}

#[test]
fn purging_without_yes_is_refused_without_a_terminal() {
    let home = filled(three_minutes_ago());
    let stderr = home.run("queues purge crawler_queue").refused(2);
    assert!(stderr.contains("--yes"), "{stderr}");
    assert_eq!(home.run("queues show crawler_queue --json").json()["ready"], 2);
}

#[test]
fn the_error_for_an_unknown_queue_lists_the_queues() {
    let home = filled(three_minutes_ago());
    for line in [
        "queues show craler_queue",
        "queues pause craler_queue",
        "queues resume craler_queue",
        "queues purge craler_queue --yes",
        "dead list craler_queue",
        "dead show craler_queue d1",
        "dead replay craler_queue --all",
        "dead drop craler_queue --all --yes",
    ] {
        let stderr = home.run(line).refused(1);
        assert!(
            stderr.starts_with("error: there is no queue `craler_queue`; there are `crawler_queue`, "),
            "{line}: {stderr}"
        );
    }
}

#[test]
fn an_unknown_queue_without_a_similar_one() {
    let stderr = filled(three_minutes_ago()).run("queues show nothing").refused(1);
    assert!(stderr.starts_with("error: there is no queue `nothing`; there are `"), "{stderr}");
    let home = Home::new();
    home.with_broker(Options::default(), async |_| {});
    assert!(home.run("queues show nothing").refused(1).contains("there are no queues at all yet"));
}

#[test]
fn an_invalid_queue_name_is_a_usage_error() {
    let home = filled(three_minutes_ago());
    let stderr = home.run("queues show a/b").refused(2);
    assert!(stderr.contains("a/b") && stderr.contains("letters, digits"), "{stderr}");
}

#[test]
fn another_data_directory_can_be_named() {
    let home = filled(three_minutes_ago());
    let elsewhere = Home::new();
    let line = format!("queues --json --data {}", home.data().display());
    assert_eq!(elsewhere.run(&line).json()["queues"].as_array().unwrap().len(), 4);
    let data = home.data();
    let variable = [("CRAWLWAY_DATA_DIR", data.to_str().unwrap())];
    assert!(elsewhere.run_with("queues", &variable).ok().contains("crawler_queue"));
}
