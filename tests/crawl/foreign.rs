//! Programs of strangers on the same queue: Python with pika, written from the contract alone (`tests/foreign`).

use crate::{
    fleet::{Gateway, Process, Servers, wait_until},
    lab::Lab,
    postgres::Database,
};
use crawlway_clock::Timestamp;
use crawlway_demo_web::Plan;
use crawlway_testkit::{stranger::Stranger, virtual_host::VirtualHost};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../flows/schemas/crawler_queue.schema.json");

/// A program of a stranger, told where the queue is in the words of the contract.
fn stranger(host: &VirtualHost, program: &str, more: &[&str]) -> Stranger {
    Stranger::at(&host.server, &host.name, program, more)
}

#[test]
fn a_python_consumer_gets_every_page_once_and_each_is_as_the_contract_says() {
    let mut lab = Lab::new(Plan::crash_of(200), Duration::from_millis(15));
    let (database, host) = (Database::new("consumer"), VirtualHost::new("consumer"));
    Servers::on(&host, &database).share(&mut lab);

    // It declares the queue before anything of ours has seen it.
    let consumer = stranger(&host, "consume.py", &["crawler_queue", SCHEMA]);
    assert_eq!(consumer.next_line(), json!({ "declared": "crawler_queue" }));
    let begun = Timestamp::now();
    let gateway = Gateway::start(&lab);
    let _workers = [(); 2].map(|()| Process::at_work(&lab, "worker:crawl"));
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
        let page = lab.truth().indexed.get(url).unwrap_or_else(|| panic!("{url} must not be published"));
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
            panic!("{url} came twice, as {other} and as {id}");
        }
    }
    let missing: Vec<_> =
        lab.truth().indexed.keys().filter(|url| !found.contains_key(url.as_str())).collect();
    assert!(missing.is_empty(), "these were not published: {missing:?}");
    lab.check_politeness();

    // The id is the item's, by which its trail is known.
    let (url, id) = found.first_key_value().unwrap();
    let (_, trail) = gateway.get(&format!("/api/trails?item={id}"));
    assert!(trail.to_string().contains(url), "{trail}");

    // What was declared by others, and since by us, can be declared by others again.
    let again = stranger(&host, "consume.py", &["crawler_queue", SCHEMA]).finish();
    assert_eq!(again, [json!({ "declared": "crawler_queue" })]);

    keys_begin_with_the_prefix_and_expire(&lab);
    drop((gateway, _workers));
    database.drop();
}

fn keys_begin_with_the_prefix_and_expire(lab: &Lab) {
    let setting = |name| lab.variables.iter().find(|(one, _)| *one == name).unwrap().1.as_str();
    let prefix = setting("CRAWLWAY_REDIS__PREFIX");
    let keys = Stranger::start("keys.py", &[setting("CRAWLWAY_REDIS__URL"), prefix]).finish();
    assert!(keys.len() > lab.truth().indexed.len(), "only {} keys", keys.len());
    for key in keys {
        assert!(key["key"].as_str().unwrap().starts_with(&format!("{{{prefix}}}:")), "{key}");
        let stays = ["life", "groups"].map(|name| format!("{{{prefix}}}:gate:{name}"));
        let expires = key["left"].as_i64().unwrap() > 0;
        assert!(expires || stays.iter().any(|one| key["key"] == **one), "a key that stays for ever: {key}");
    }
}

#[test]
fn what_a_python_program_marks_in_redis_is_not_fetched_and_what_it_spoils_holds_up_nothing_else() {
    let mut lab = Lab::new(Plan::tiny(30), Duration::from_millis(2));
    let (database, host) = (Database::new("marked"), VirtualHost::new("marked"));
    Servers::on(&host, &database).share(&mut lab);
    let setting = |name| lab.variables.iter().find(|(one, _)| *one == name).unwrap().1.as_str();
    let start = lab.truth().start[0].clone();
    let seen = |call: &str, page: usize, more: &[&str]| {
        let url = format!("{start}{page}");
        let words = [&[setting("CRAWLWAY_REDIS__URL"), setting("CRAWLWAY_REDIS__PREFIX"), call, &url], more];
        Stranger::start("seen.py", &words.concat()).finish().remove(0)
    };
    // No link that is nowhere else is on these pages.
    assert_eq!(seen("mark", 20, &["3600"])["value"]["owner"], "a-stranger");
    for page in 21..24 {
        assert_eq!(seen("spoil", page, &[])["left"], -1, "it has no end");
    }

    let gateway = Gateway::start(&lab);
    let _worker = Process::at_work(&lab, "worker:crawl");
    let crawl = gateway.begin_crawl(&lab);
    gateway.await_fetched(&crawl);
    let visits = lab.server.log().unwrap().visits();
    for page in 1..30 {
        let asked = visits.iter().filter(|visit| visit.path == format!("/{page}")).count();
        assert_eq!(asked, usize::from(!(20..24).contains(&page)), "page {page}");
    }
    // And what ours write, it reads.
    let ours = seen("read", 5, &[]);
    assert_eq!(ours["value"]["seen"], true, "{ours}");
    assert!(ours["left"].as_i64().unwrap() > 0, "{ours}");
    drop(gateway);
    database.drop();
}

#[test]
fn of_what_a_python_program_publishes_the_good_is_indexed_and_the_bad_is_given_up_with_the_reason() {
    let mut lab = Lab::new(Plan::tiny(1), Duration::from_millis(2));
    let (database, host) = (Database::new("publisher"), VirtualHost::new("publisher"));
    Servers::on(&host, &database).share(&mut lab);
    // Ours declare first this time, and the stranger's plain declare must be content with what is there.
    let gateway = Gateway::start(&lab);
    let indexer = Process::at_work(&lab, "worker:index");
    let published = stranger(&host, "publish.py", &[]).finish();
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
    let told: Vec<&str> =
        listed["dead"].as_array().unwrap().iter().map(|letter| letter["reason"].as_str().unwrap()).collect();
    same_reasons(&told, &bad);

    // And a stranger finds the same in the queue of dead letters, with the bodies as they were.
    let letters = stranger(&host, "consume.py", &["crawler_queue.dead", SCHEMA]).finish();
    let letters = &letters[1..];
    let reason = |letter: &Value| {
        let reason = &letter["properties"]["headers"]["x-crawlway-dead-reason"];
        reason.as_str().unwrap_or_else(|| panic!("no reason: {}", letter["properties"])).to_owned()
    };
    let told: Vec<String> = letters.iter().map(reason).collect();
    same_reasons(&told.iter().map(String::as_str).collect::<Vec<_>>(), &bad);
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
        // The schema says all but which URLs a page can have, and how large a message may be.
        let closer = ["`url` is not one", "the limit is"].iter().any(|part| reason(letter).contains(part));
        assert!(closer || letter["problems"] != json!([]), "given up although it is valid: {letter}");
        assert_eq!(letter["properties"]["delivery_mode"], 2, "what is kept survives a restart of the server");
    }
    drop((gateway, indexer));
    database.drop();
}

/// Each reason is told once, and nothing else is.
fn same_reasons(told: &[&str], bad: &[Value]) {
    assert_eq!(told.len(), bad.len(), "{told:#?}");
    let mut left = told.to_vec();
    // The longest first: a short one may be part of several.
    let mut expected: Vec<&str> = bad.iter().map(|one| one["reason"].as_str().unwrap()).collect();
    expected.sort_by_key(|reason| std::cmp::Reverse(reason.len()));
    for reason in expected {
        let place = left.iter().position(|told| told.contains(reason));
        left.remove(place.unwrap_or_else(|| panic!("no dead letter says `{reason}`: {left:#?}")));
    }
}

fn decoded_size(base64: &str) -> u64 {
    (base64.len() / 4 * 3 - base64.bytes().filter(|byte| *byte == b'=').count()) as u64
}
