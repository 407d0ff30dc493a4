//! `crawlway dead`: list, show, replay and drop.

use crate::{
    home::Home,
    sample::{at, filled, name, publish, three_minutes_ago},
};
use crawlway_broker::{MaxLength, Outgoing, QueueSpec, Timestamp, Verdict};
use crawlway_broker_embedded::Options;
use serde_json::json;
use std::time::Duration;

/// 2026-11-15T09:30:00Z
const FIXED: Timestamp = Timestamp::from_millis(1_794_735_000_000);

fn ids(home: &Home, line: &str) -> Vec<String> {
    let listed = home.run(&format!("{line} --json")).json();
    let message = |letter: &serde_json::Value| letter["message"]["id"].as_str().unwrap().to_owned();
    listed["dead"].as_array().unwrap().iter().map(message).collect()
}

/// Id of the dead letter, which the broker chooses.
fn id_of(home: &Home, message: &str) -> String {
    let listed = home.run(&format!("dead list --message-id {message} --json")).json();
    listed["dead"][0]["id"].as_str().unwrap().to_owned()
}

fn dead(home: &Home) -> u64 {
    home.run("queues show crawler_queue --json").json()["dead"].as_u64().unwrap()
}

#[test]
fn all_dead_letters_in_a_table() {
    insta::assert_snapshot!(filled(three_minutes_ago()).run("dead list").ok());
}

#[test]
fn all_dead_letters_as_json() {
    insta::assert_snapshot!(filled(at(FIXED)).run("dead list crawler_queue --json").ok());
}

#[test]
fn an_empty_list_is_a_success() {
    let home = filled(three_minutes_ago());
    assert_eq!(home.run("dead list url_inventory").ok(), "no dead letters\n");
    assert_eq!(home.run("dead list url_inventory --json").json(), json!({ "dead": [], "next": [] }));
}

#[test]
fn all_conditions_of_a_filter_must_match() {
    let home = filled(at(FIXED));
    for (filter, expected) in [
        ("--reason NOT", &["page-1"][..]),
        ("--error timeout", &["page-2"]),
        ("--error timeout --reason boom", &[]),
        ("--message-id page-3", &["page-3"]),
        ("--since 2026-11-15T09:30:00Z", &["page-1", "page-2", "page-3"]),
        ("--since 2026-11-15T09:30:00.001Z", &[]),
        ("--until 2026-11-15T10:30:00+01:00", &[]),
        ("--until 2026-11-16", &["page-1", "page-2", "page-3"]),
    ] {
        let mut found = ids(&home, &format!("dead list crawler_queue {filter}"));
        found.sort();
        assert_eq!(found, expected, "{filter}");
    }
}

#[test]
fn ages_are_times_too() {
    let home = filled(three_minutes_ago());
    assert_eq!(ids(&home, "dead list --since 1h").len(), 3);
    assert_eq!(ids(&home, "dead list --since 1min").len(), 0);
    assert_eq!(ids(&home, "dead list --until 1min").len(), 3);
}

#[test]
fn a_list_has_a_pagination_cursor() {
    let home = filled(at(FIXED));
    let all = ids(&home, "dead list crawler_queue");
    let first = home.run("dead list --limit 2 --json").json();
    assert_eq!(first["dead"].as_array().unwrap().len(), 2);
    let after = first["next"][0]["after"].as_str().unwrap();
    assert_eq!(first["next"], json!([{ "queue": "crawler_queue", "after": after }]));
    assert_eq!(ids(&home, &format!("dead list crawler_queue --after {after}")), all[2..]);
    let table = home.run("dead list --limit 2").ok();
    let more = format!("more: crawlway dead list crawler_queue --after {after} --limit 2\n");
    assert!(table.ends_with(&more), "{table}");
    let filter =
        ["--cause", "attempts-used-up", "--error", "timeout 1", "--since", "2026-11-15", "--limit", "1"];
    let filtered = crate::home::Ran::of(home.command(&[&["dead", "list"], &filter[..]].concat())).ok();
    assert!(!filtered.contains("more:"), "one matches: {filtered}");
    let table =
        home.run("dead list --since 2026-11-15 --until 2026-11-16 --limit 1 --data crawlway-data").ok();
    let more =
        "--since 2026-11-15T00:00:00.000Z --until 2026-11-16T00:00:00.000Z --limit 1 --data crawlway-data\n";
    assert!(table.ends_with(more), "{table}");
    let again = table.lines().last().unwrap().strip_prefix("more: crawlway ").unwrap();
    assert_eq!(ids(&home, again), all[1..2], "the line can be used as it is");
    assert!(home.run("dead list --after d1").refused(2).contains("<QUEUE>"));
}

#[test]
fn a_list_that_gets_shorter_between_two_pages_goes_on_after_its_cursor() {
    let home = filled(at(FIXED));
    let all = ids(&home, "dead list crawler_queue");
    let first = home.run("dead list --limit 1 --json").json();
    let after = first["next"][0]["after"].as_str().unwrap();
    let drop = |message: &str| {
        home.run(&format!("dead drop crawler_queue {} --yes", id_of(&home, message))).ok();
    };
    // The one of the cursor, and the next one.
    drop(&all[0]);
    drop(&all[1]);
    assert_eq!(ids(&home, &format!("dead list crawler_queue --after {after}")), all[2..]);
    assert_eq!(ids(&home, "dead list"), all[2..]);
    drop(&all[2]);
    assert_eq!(home.run(&format!("dead list crawler_queue --after {after}")).ok(), "no dead letters\n");
}

#[test]
fn a_long_list_is_complete_and_in_order() {
    let home = Home::new();
    let queue = name("crawler_queue");
    home.with_broker(Options::default(), async |broker| {
        broker.declare(&[QueueSpec::new(queue.clone()).prefetch(1000)]).await.unwrap();
        let message = |number| Outgoing::to_queue(&queue, "{}").id(format!("page-{number}").as_str());
        broker.publish((0..330).map(message).collect()).await.into_iter().for_each(Result::unwrap);
        let deliveries = broker.receive(&queue, 1000, Duration::ZERO).await.unwrap();
        let verdict = Verdict::Dead { reason: "no".to_owned() };
        let verdicts = deliveries.into_iter().map(|delivery| (delivery.receipt, verdict.clone()));
        for settled in broker.settle(verdicts.collect()).await {
            settled.unwrap();
        }
    });
    let expected = |count: usize| (0..count).map(|number| format!("page-{number}")).collect::<Vec<_>>();
    assert_eq!(ids(&home, "dead list --limit 1000"), expected(330));
    assert_eq!(ids(&home, "dead list --limit 330"), expected(330));
    assert_eq!(ids(&home, "dead list --limit 301"), expected(301));
    assert_eq!(home.run("dead list --limit 330 --json").json()["next"], json!([]));
    assert_eq!(ids(&home, "dead list"), expected(50));
}

#[test]
fn one_dead_letter() {
    let home = filled(three_minutes_ago());
    let shown = |message: &str| {
        let id = id_of(&home, message);
        without_times(&home.run(&format!("dead show crawler_queue {id}")).ok())
    };
    insta::assert_snapshot!("show_text", shown("page-1"));
    insta::assert_snapshot!("show_empty_after_retries", shown("page-2"));
    insta::assert_snapshot!("show_binary", shown("page-3"));
}

#[test]
fn one_dead_letter_as_json() {
    let home = filled(at(FIXED));
    let shown =
        |message: &str| home.run(&format!("dead show crawler_queue {} --json", id_of(&home, message))).ok();
    insta::assert_snapshot!("show_json_text", shown("page-1"));
    insta::assert_snapshot!("show_json_binary", shown("page-3"));
}

#[test]
fn an_unknown_dead_letter() {
    let home = filled(three_minutes_ago());
    for line in [
        "dead show crawler_queue d99",
        "dead replay crawler_queue d99",
        "dead drop crawler_queue nonsense --yes",
    ] {
        let stderr = home.run(line).refused(1);
        assert!(stderr.contains("queue `crawler_queue` has no dead letter"), "{line}: {stderr}");
    }
    assert_eq!(dead(&home), 3);
}

#[test]
fn replaying_one_then_by_filter_then_all() {
    let home = filled(three_minutes_ago());
    let id = id_of(&home, "page-1");
    assert_eq!(
        home.run(&format!("dead replay crawler_queue {id}")).ok(),
        "replayed 1 dead letter into queue `crawler_queue`\nno worker runs; `crawlway up`, or the same `crawlway crawl` \
         command, processes them\n"
    );
    assert_eq!(
        home.run("dead replay crawler_queue --error timeout --json").json(),
        json!({ "queue": "crawler_queue", "replayed": 1, "stopped": null })
    );
    assert_eq!(
        home.run("dead replay crawler_queue --reason nothing-like-it").ok(),
        "replayed 0 dead letters into queue `crawler_queue`\n"
    );
    assert_eq!(dead(&home), 1);
    assert!(home.run("dead replay crawler_queue --all").ok().starts_with("replayed 1 dead letter "));
    let queue = home.run("queues show crawler_queue --json").json();
    assert_eq!((&queue["ready"], &queue["dead"]), (&json!(5), &json!(0)));
}

#[test]
fn a_replay_into_a_full_queue_stops_and_fails() {
    let home = Home::new();
    let queue = name("url_inventory");
    home.with_broker(Options::default(), async |broker| {
        broker.declare(&[QueueSpec::new(queue.clone()).max_length(MaxLength::Exact(1))]).await.unwrap();
        for _ in 0..2 {
            publish(broker, Outgoing::to_queue(&queue, "{}")).await;
            let delivery = broker.receive(&queue, 1, Duration::ZERO).await.unwrap().remove(0);
            let verdict = Verdict::Dead { reason: "no".to_owned() };
            broker.settle(vec![(delivery.receipt, verdict)]).await.remove(0).unwrap();
        }
    });
    let ran = home.run("dead replay url_inventory --all");
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.starts_with("replayed 1 dead letter into queue `url_inventory`\n"), "{}", ran.stdout);
    assert!(ran.stderr.contains("stopped early: queue `url_inventory` is full"), "{}", ran.stderr);
    let ran = home.run("dead replay url_inventory --all --json");
    assert_eq!(ran.code, 1);
    let replay: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(replay["replayed"], 0);
    assert!(replay["stopped"].as_str().unwrap().contains("full"), "{replay}");
}

#[test]
fn dropping_one_then_by_filter_then_all() {
    let home = filled(three_minutes_ago());
    let id = id_of(&home, "page-1");
    assert_eq!(
        home.run(&format!("dead drop crawler_queue {id} --yes")).ok(),
        "deleted 1 dead letter of queue `crawler_queue`\n"
    );
    assert_eq!(
        home.run("dead drop crawler_queue --error timeout --yes --json").json(),
        json!({ "queue": "crawler_queue", "dropped": 1 })
    );
    assert_eq!(ids(&home, "dead list"), ["page-3"]);
    assert!(home.run("dead drop crawler_queue --all --yes").ok().starts_with("deleted 1 dead letter "));
    assert_eq!(dead(&home), 0);
    assert!(home.run("dead drop crawler_queue --all --yes").ok().starts_with("deleted 0 dead letters "));
}

#[test]
fn dropping_without_yes_is_refused_without_a_terminal() {
    let home = filled(three_minutes_ago());
    assert!(home.run("dead drop crawler_queue --all").refused(2).contains("--yes"));
    assert_eq!(dead(&home), 3);
}

#[test]
fn a_selection_is_required_and_unambiguous() {
    let home = filled(three_minutes_ago());
    for line in [
        "dead replay crawler_queue",
        "dead replay crawler_queue d1 --all",
        "dead replay crawler_queue d1 --reason x",
        "dead replay crawler_queue --all --since 1h",
        "dead drop crawler_queue --yes",
        "dead list --since yesterday",
        "dead list --limit many",
        "dead list --limit 0",
    ] {
        let stderr = home.run(line).refused(2);
        assert!(stderr.starts_with("error: "), "{line}: {stderr}");
    }
    assert_eq!(dead(&home), 3);
}

/// Text with every ISO time replaced, since the times depend on the test run.
fn without_times(text: &str) -> String {
    let mut rest = text;
    let mut clean = String::new();
    while let Some(at) = rest.find("Z (") {
        let start = at.saturating_sub("2026-11-15T09:30:00.000".len());
        clean.push_str(&rest[..start]);
        clean.push_str("[time");
        rest = &rest[at + 1..];
        clean.push(']');
    }
    clean.push_str(rest);
    clean
}
