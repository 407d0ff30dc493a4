//! Third-party clients in Python (pika, redis), written from the contract alone (`tests/foreign`), on the same queue and Redis.

use crate::{
    lab::Lab,
    postgres::Database,
    processes::{Gateway, Process, Servers, wait_until},
};
use crawlway_clock::Timestamp;
use crawlway_demo_web::Plan;
use crawlway_testkit::{foreign_client::ForeignClient, virtual_host::VirtualHost};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../flows/schemas/crawler_queue.schema.json");

/// A client with the address and credentials of the broker in the variables of the contract.
fn client(host: &VirtualHost, program: &str, more: &[&str]) -> ForeignClient {
    ForeignClient::at(&host.server, &host.name, program, more)
}

#[test]
fn a_consumer_gets_every_page_once_with_the_schema_of_the_contract() {
    let mut lab = Lab::new(Plan::crash_of(200), Duration::from_millis(15));
    let (database, host) = (Database::new("consumer"), VirtualHost::new("consumer"));
    Servers::on(&host, &database).share(&mut lab);

    // The client declares the queue before Crawlway does.
    let consumer = client(&host, "consume.py", &["crawler_queue", SCHEMA]);
    assert_eq!(consumer.next_line(), json!({ "declared": "crawler_queue" }));
    let begun = Timestamp::now();
    let gateway = Gateway::start(&lab);
    let _workers = [(); 2].map(|()| Process::start_and_wait(&lab, "search:crawl"));
    let crawl = gateway.begin_crawl(&lab);
    gateway.await_fetched(&crawl);
    let messages = consumer.finish();
    let ended = Timestamp::now();

    let mut found = BTreeMap::new();
    for message in &messages {
        assert_eq!(message["problems"], json!([]), "{message}");
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        let (body, metadata) = (&message["body"], &message["body"]["metadata"]);
        let mut members = keys(body);
        members.remove("original_text");
        assert_eq!(members, ["metadata", "text", "url"].map(str::to_owned).into());
        let mut fields = ["status_code", "timestamp", "title"].map(str::to_owned).to_vec();
        fields.extend(metadata.get("description").map(|_| "description".to_owned()));
        assert_eq!(keys(metadata), fields.into_iter().collect());

        let url = body["url"].as_str().unwrap();
        let page =
            lab.ground_truth().indexed.get(url).unwrap_or_else(|| panic!("{url} must not be published"));
        assert_eq!(metadata["title"], page.title, "{url}");
        assert_eq!(metadata["status_code"], 200, "{url}");
        let text = body["text"].as_str().unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((text, text.to_lowercase().as_str()), (words.as_str(), text), "{url}");
        if let Some(original) = body.get("original_text") {
            let original = original.as_str().unwrap().to_lowercase();
            assert_eq!(original.split_whitespace().collect::<Vec<_>>().join(" "), text, "{url}");
        }
        assert!(page.word.as_ref().is_none_or(|word| text.contains(word)), "{url}: {text}");
        let timestamp = metadata["timestamp"].as_str().unwrap();
        let crawled_at = Timestamp::from_iso(timestamp).unwrap();
        assert!(timestamp.ends_with('Z') && begun <= crawled_at && crawled_at <= ended, "{timestamp}");

        assert_eq!((&message["exchange"], &message["routing_key"]), (&json!(""), &json!("crawler_queue")));
        let properties = &message["properties"];
        let expected = ["content_type", "delivery_mode", "message_id", "timestamp"].map(str::to_owned);
        assert_eq!(keys(properties), expected.into());
        assert_eq!(
            (&properties["delivery_mode"], &properties["content_type"]),
            (&json!(2), &json!("application/json"))
        );
        let id = properties["message_id"].as_str().unwrap();
        if let Some(other) = found.insert(url, id) {
            panic!("{url} was published twice, as {other} and as {id}");
        }
    }
    let missing: Vec<_> =
        lab.ground_truth().indexed.keys().filter(|url| !found.contains_key(url.as_str())).collect();
    assert!(missing.is_empty(), "these were not published: {missing:?}");
    lab.check_politeness();

    // The message id is the id of the item's trail.
    let (url, id) = found.first_key_value().unwrap();
    let (_, trail) = gateway.get(&format!("/api/trails?item={id}"));
    assert!(trail.to_string().contains(url), "{trail}");

    // The client's declaration is still compatible after Crawlway has declared the queue, too.
    let again = client(&host, "consume.py", &["crawler_queue", SCHEMA]).finish();
    assert_eq!(again, [json!({ "declared": "crawler_queue" })]);

    keys_begin_with_the_prefix_and_expire(&lab);
    drop((gateway, _workers));
    database.drop();
}

fn keys_begin_with_the_prefix_and_expire(lab: &Lab) {
    let setting = |name| lab.variables.iter().find(|(one, _)| *one == name).unwrap().1.as_str();
    let prefix = setting("CRAWLWAY_REDIS__PREFIX");
    let keys = ForeignClient::start("keys.py", &[setting("CRAWLWAY_REDIS__URL"), prefix]).finish();
    assert!(keys.len() > lab.ground_truth().indexed.len(), "only {} keys", keys.len());
    for key in keys {
        assert!(key["key"].as_str().unwrap().starts_with(&format!("{{{prefix}}}:")), "{key}");
        let persistent =
            ["limiter:life", "limiter:groups", "gate:life"].map(|name| format!("{{{prefix}}}:{name}"));
        let expires = key["left"].as_i64().unwrap() > 0;
        assert!(expires || persistent.iter().any(|one| key["key"] == **one), "a key without TTL: {key}");
    }
}

#[test]
fn urls_marked_as_seen_in_redis_are_not_fetched_and_invalid_values_delay_no_other_url() {
    let mut lab = Lab::new(Plan::tiny(30), Duration::from_millis(2));
    let (database, host) = (Database::new("marked"), VirtualHost::new("marked"));
    Servers::on(&host, &database).share(&mut lab);
    let setting = |name| lab.variables.iter().find(|(one, _)| *one == name).unwrap().1.as_str();
    let start = lab.ground_truth().start[0].clone();
    let seen = |call: &str, page: usize, more: &[&str]| {
        let url = format!("{start}{page}");
        let words = [&[setting("CRAWLWAY_REDIS__URL"), setting("CRAWLWAY_REDIS__PREFIX"), call, &url], more];
        ForeignClient::start("seen.py", &words.concat()).finish().remove(0)
    };
    // These pages have no link that is on no other page.
    assert_eq!(seen("mark", 20, &["3600"])["value"]["owner"], "third-party");
    for page in 21..24 {
        assert_eq!(seen("spoil", page, &[])["left"], -1, "no TTL");
    }

    let gateway = Gateway::start(&lab);
    let _worker = Process::start_and_wait(&lab, "search:crawl");
    let crawl = gateway.begin_crawl(&lab);
    gateway.await_fetched(&crawl);
    let requests = lab.server.log().unwrap().entries();
    for page in 1..30 {
        let count = requests.iter().filter(|request| request.path == format!("/{page}")).count();
        assert_eq!(count, usize::from(!(20..24).contains(&page)), "page {page}");
    }
    // The client reads values that Crawlway has written.
    let read = seen("read", 5, &[]);
    assert_eq!(read["value"]["seen"], true, "{read}");
    assert!(read["left"].as_i64().unwrap() > 0, "{read}");
    drop(gateway);
    database.drop();
}

#[test]
fn valid_messages_of_a_publisher_are_indexed_and_invalid_ones_become_dead_letters_with_a_reason() {
    let mut lab = Lab::new(Plan::tiny(1), Duration::from_millis(2));
    let (database, host) = (Database::new("publisher"), VirtualHost::new("publisher"));
    Servers::on(&host, &database).share(&mut lab);
    // Crawlway declares the queue first; the client's plain declaration must be compatible.
    let gateway = Gateway::start(&lab);
    let indexer = Process::start_and_wait(&lab, "search:index");
    let published = client(&host, "publish.py", &[]).finish();
    let of =
        |field: &str| published.iter().filter(|one| one.get(field).is_some()).cloned().collect::<Vec<_>>();
    let (good, bad) = (of("url"), of("reason"));
    assert!(good.len() >= 20 && bad.len() >= 20 && good.len() + bad.len() == published.len());

    wait_until("everything is settled", || {
        let (_, queue) = gateway.get("/api/queues/crawler_queue");
        let (dead, indexed) = (queue["dead"].as_u64().unwrap(), lab.indexed().len() as u64);
        if dead + indexed == published.len() as u64 {
            Ok(())
        } else {
            Err(format!("{indexed} indexed; {queue}"))
        }
    });
    let mut indexed = lab.indexed();
    indexed.sort();
    let mut expected: Vec<_> = good.iter().map(|one| one["url"].as_str().unwrap().to_owned()).collect();
    expected.sort();
    assert_eq!(indexed, expected);
    for one in &good {
        let name = one["name"].as_str().unwrap();
        let mut search = lab.program("search");
        search.arg(format!("zz{name}zz")).args(["--gateway", &gateway.url()]);
        let found: Value = serde_json::from_slice(&lab.finish(search).stdout).unwrap();
        let urls: Vec<_> = found["hits"].as_array().unwrap().iter().map(|hit| &hit["url"]).collect();
        assert_eq!(urls, [&one["url"]], "{name}: {found}");
    }

    let mut list = lab.program("dead");
    list.args(["list", "crawler_queue", "--limit", "1000", "--gateway", &gateway.url()]);
    let output = lab.finish(list);
    let listed: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let reasons: Vec<&str> =
        listed["dead"].as_array().unwrap().iter().map(|letter| letter["reason"].as_str().unwrap()).collect();
    assert_same_reasons(&reasons, &bad);

    // The dead-letter queue has the same reasons, and the original bodies.
    let letters = client(&host, "consume.py", &["crawler_queue.dead", SCHEMA]).finish();
    let letters = &letters[1..];
    let reason = |letter: &Value| {
        let reason = &letter["properties"]["headers"]["x-crawlway-dead-reason"];
        reason.as_str().unwrap_or_else(|| panic!("no reason: {}", letter["properties"])).to_owned()
    };
    let reasons: Vec<String> = letters.iter().map(reason).collect();
    assert_same_reasons(&reasons.iter().map(String::as_str).collect::<Vec<_>>(), &bad);
    let sizes = |sizes: &mut dyn Iterator<Item = u64>| {
        let mut sizes: Vec<u64> = sizes.collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(
        sizes(&mut letters.iter().map(|letter| decoded_size(letter["base64"].as_str().unwrap()))),
        sizes(&mut bad.iter().map(|one| one["size"].as_u64().unwrap()))
    );
    for letter in letters {
        // The schema does not cover valid URLs and the maximum size.
        let not_in_schema =
            ["`url` is not one", "the limit is"].iter().any(|part| reason(letter).contains(part));
        assert!(not_in_schema || letter["problems"] != json!([]), "a dead letter that is valid: {letter}");
        assert_eq!(letter["properties"]["delivery_mode"], 2, "dead letters are persistent");
    }
    drop((gateway, indexer));
    database.drop();
}

/// Each expected reason matches exactly one of the reasons.
fn assert_same_reasons(reasons: &[&str], bad: &[Value]) {
    assert_eq!(reasons.len(), bad.len(), "{reasons:#?}");
    let mut left = reasons.to_vec();
    // The longest first, since a short one may be part of several.
    let mut expected: Vec<&str> = bad.iter().map(|one| one["reason"].as_str().unwrap()).collect();
    expected.sort_by_key(|reason| std::cmp::Reverse(reason.len()));
    for reason in expected {
        let position = left.iter().position(|found| found.contains(reason));
        left.remove(position.unwrap_or_else(|| panic!("no dead letter has `{reason}`: {left:#?}")));
    }
}

fn decoded_size(base64: &str) -> u64 {
    (base64.len() / 4 * 3 - base64.bytes().filter(|byte| *byte == b'=').count()) as u64
}
