//! Settings and flags that `up` and `config check` reject before any file is created.

use crate::lab::Lab;

fn rejected(lab: &Lab, line: &[&str], settings: &[(&str, &str)], expected: &[&str]) {
    let ran = lab.program(line).envs(settings.iter().copied()).output().unwrap();
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2), "{line:?} {settings:?}: {stderr}");
    assert!(expected.iter().all(|part| stderr.contains(part)), "{line:?} {settings:?}: {stderr}");
    assert!(!lab.data().exists(), "{line:?} {settings:?} created files");
}

#[test]
fn a_part_of_the_process_needs_shared_stores() {
    let lab = Lab::new("");
    rejected(
        &lab,
        &["up", "--only", "gateway"],
        &[],
        &["search:crawl and search:index", "owned by one process"],
    );
    rejected(&lab, &["up", "--only", "search:crawl,search:index"], &[], &["leaves out gateway"]);
    rejected(&lab, &["up", "--only", "worker:paint"], &[], &["worker:paint", "search:crawl"]);
}

#[test]
fn a_public_address_needs_a_token() {
    let lab = Lab::new("");
    let listen = ("CRAWLWAY_GATEWAY__LISTEN", "0.0.0.0:0");
    let expected = ["gateway.token", "gateway.allow_unauthenticated"];
    rejected(&lab, &["up"], &[listen], &expected);
    let short = ("CRAWLWAY_GATEWAY__TOKEN", "hunter2");
    rejected(&lab, &["up"], &[listen, short], &["CRAWLWAY_GATEWAY__TOKEN", "at least 16 characters"]);
}

#[test]
fn values_out_of_range() {
    let lab = Lab::new("");
    for (name, value, expected) in [
        ("CRAWLWAY_GATEWAY__LISTEN", "8081", "127.0.0.1:8081"),
        ("CRAWLWAY_METRICS__LISTEN", "9464", "an address with a port"),
        ("CRAWLWAY_GATEWAY__MAX_BODY", "1GiB", "1KiB to 64MiB"),
        ("CRAWLWAY_GATEWAY__REQUEST_TIMEOUT", "0s", "1s"),
    ] {
        rejected(&lab, &["up"], &[(name, value)], &[expected]);
    }
}

/// Settings, flags, and a part of the error message.
type Rejection = (&'static [(&'static str, &'static str)], &'static [&'static str], &'static str);

#[test]
fn config_check_reports_every_problem_that_stops_up() {
    const ONE: (&str, &str) = ("CRAWLWAY_ONLY_PROCESS", "true");
    const ONE_PER_STAGE: (&str, &str) = ("CRAWLWAY_ONE_PROCESS_PER_STAGE", "true");
    const RABBITMQ: (&str, &str) = ("CRAWLWAY_BROKER__KIND", "rabbitmq");
    const SEEN: (&str, &str) = ("CRAWLWAY_SEEN__KIND", "redis");
    const ON_REDIS: (&str, &str) = ("CRAWLWAY_REDIS__URL", "redis://localhost");
    const RECORDS: (&str, &str) = ("CRAWLWAY_RECORDS__KIND", "postgresql");
    const MONGODB: (&str, &str) = ("CRAWLWAY_INVENTORY__STORE", "mongodb");
    const AT: (&str, &str) = ("CRAWLWAY_BROKER__RABBITMQ__URL", "amqp://u:p@localhost");
    let rejections: &[Rejection] = &[
        (&[("CRAWLWAY_GATEWAY__LISTEN", "0.0.0.0:0")], &[], "`gateway.listen` is 0.0.0.0:0"),
        (&[("CRAWLWAY_GATEWAY__LISTEN", "8081")], &[], "an address with a port"),
        (&[("CRAWLWAY_GATEWAY__URL", "ftp://crawl.example.org")], &[], "the URL of a gateway"),
        (&[("CRAWLWAY_FETCH__ALLOW", "everywhere")], &[], "CRAWLWAY_FETCH__ALLOW"),
        (&[("CRAWLWAY_FETCH__USER_AGENT", "a\nb")], &[], "CRAWLWAY_FETCH__USER_AGENT"),
        (&[RABBITMQ], &[], "share them, too"),
        (&[RABBITMQ, ONE], &[], "there are no user name and password"),
        (&[RABBITMQ, ONE, ("CRAWLWAY_BROKER__RABBITMQ__URL", "localhost")], &[], "amqp://user:password@host"),
        (&[RABBITMQ, ONE, AT, ("CRAWLWAY_QUEUE__CRAWLER_QUEUE__LEASE", "1h")], &[], "its lease is 3600s"),
        (&[SEEN, ONE], &[], "`seen.kind` is \"redis\", but `redis.url` is empty"),
        (&[SEEN, ONE, ("CRAWLWAY_REDIS__URL", "redis://localhost:99999")], &[], "Redis URL is invalid"),
        (&[SEEN, ONE, ON_REDIS, ("CRAWLWAY_REDIS__PREFIX", "{a}")], &[], "without braces"),
        (&[RECORDS, ONE], &[], "`records.postgresql.url` is empty"),
        (
            &[RECORDS, ONE, ("CRAWLWAY_RECORDS__POSTGRESQL__URL", "postgres://localhost:99999/db")],
            &[],
            "PostgreSQL database cannot be read",
        ),
        (&[("CRAWLWAY_RATE_LIMIT__KIND", "postgresql"), ONE], &[], "`rate_limit.kind` is \"postgresql\""),
        (&[MONGODB, ONE], &[], "`inventory.mongodb.url` is empty"),
        (
            &[MONGODB, ONE, ("CRAWLWAY_INVENTORY__MONGODB__URL", "mongodb://localhost:99999")],
            &[],
            "MongoDB URL is invalid",
        ),
        (&[("CRAWLWAY_DATA_DIR", "crawlway.toml")], &[], "which is not a directory"),
        (&[], &["--only", "search:crawl"], "owned by one process"),
        (
            &[ONE_PER_STAGE, RABBITMQ, AT],
            &["--only", "search:crawl"],
            "the rate limiter is embedded and owned by one process, but inventory:fetch, inventory:fetch_waiting and requests:fetch would run",
        ),
        (&[ONE_PER_STAGE, RABBITMQ, AT], &["--only", "gateway"], "a gateway alone has no routes"),
        (&[("CRAWLWAY_ONLY_WORKER", "true")], &[], "renamed to `CRAWLWAY_ONE_PROCESS_PER_STAGE`"),
        (
            &[("CRAWLWAY_QUEUE__CRAWLER_QUEU__PREFETCH", "5")],
            &[],
            "no flow has a queue `crawler_queu`, as in `[queue.crawler_queu]`; there are `crawler_queue`",
        ),
        (&[("CRAWLWAY_FLOWS", "search,paint")], &[], "expected names of flows: search, inventory"),
        (
            &[],
            &["--flows", "search", "--only", "inventory"],
            "`--only inventory` is not among the flows that run: search",
        ),
        (&[], &["--only", "worker:crawl"], "`--only worker:crawl` is now `--only search:crawl`"),
    ];
    let lab = Lab::new("");
    for (settings, parts, expected) in rejections {
        for command in [&["up"][..], &["config", "check"]] {
            rejected(&lab, &[command, parts].concat(), settings, &[expected]);
        }
    }
    let several = [MONGODB, SEEN, ONE];
    rejected(
        &lab,
        &["config", "check"],
        &several,
        &["`redis.url` is empty", "`inventory.mongodb.url` is empty"],
    );
}
