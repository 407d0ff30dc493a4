//! A crawler and an indexer as two processes that share RabbitMQ and Redis alone: the frontier, the rate limiter, the index and
//! the trails are embedded in the process that owns them.

use crate::lab::Lab;
use crawlway_demo_web::{Plan, Web};
use crawlway_testkit::{
    private_redis::{Persistence, PrivateRedis},
    virtual_host::VirtualHost,
};
use rustix::process::Signal;
use serde_json::json;
use tokio::runtime::Runtime;

const CRAWLER: &[&str] = &["up", "--only", "gateway,search:crawl", "--json"];
const INDEXER: &[&str] = &["up", "--only", "gateway,search:index", "--json"];

#[test]
fn a_crawler_and_an_indexer_share_rabbitmq_and_redis_alone() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Web::builder(Plan::bench(60)).serve()).unwrap();
    let port = server.web().port();
    let host = VirtualHost::new("search_shared_queue");
    let redis = PrivateRedis::start(Persistence::None);
    let lab = || {
        let mut lab = Lab::new(&format!(
            "flows = [\"search\"]\none_process_per_stage = true\n[fetch]\nmin_delay = \"0s\"\n\
             allow = [\"127.0.0.0/8:{port}\"]"
        ));
        lab.variables = vec![
            ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
            ("CRAWLWAY_BROKER__RABBITMQ__HOST", host.server.host.clone()),
            ("CRAWLWAY_BROKER__RABBITMQ__PORT", host.server.port.to_string()),
            ("CRAWLWAY_BROKER__RABBITMQ__VHOST", host.name.clone()),
            ("RABBITMQ_USER", host.server.user.clone()),
            ("RABBITMQ_PASSWORD", host.server.password.clone()),
            ("CRAWLWAY_SEEN__KIND", "redis".to_owned()),
            ("CRAWLWAY_REDIS__URL", redis.url()),
        ];
        lab
    };
    let (crawler_lab, indexer_lab) = (lab(), lab());
    let crawler = crawler_lab.up_with(CRAWLER);
    let mut indexer = indexer_lab.up_with(INDEXER);
    let ready = |ready: &serde_json::Value| ready["ready"] == true;
    crawler.wait("/health/ready", ready);
    let health = indexer.wait("/health/ready", ready);
    let dependencies = health["dependencies"].as_array().unwrap();
    assert!(dependencies.iter().all(|dependency| dependency["name"] != "rate_limiter"), "{health}");
    let (status, accepted) =
        crawler.post("/api/crawls", &json!({ "seeds": server.web().ground_truth().start }));
    assert_eq!(status, 202, "{accepted}");
    indexer.signal(Signal::KILL);
    indexer.wait_exit();
    let crawl = format!("/api/crawls/{}", accepted["name"].as_str().unwrap());
    let finished = crawler.wait(&crawl, |crawl| crawl["state"] == "finished");
    let published = finished["counts"]["outcomes"]["published"].as_u64().unwrap();
    assert!(published >= 60, "{finished}");
    let indexer = indexer_lab.up_with(INDEXER);
    let pages = || {
        let exported = indexer_lab.run(&["export"]);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        exported.stdout.iter().filter(|byte| **byte == b'\n').count() as u64
    };
    indexer.wait("/api/queues/crawler_queue", |_| pages() == published);

    for (gateway, path, owner) in [
        (
            &indexer,
            "/api/crawls",
            "the frontier: it is in the data directory of the process with search:crawl",
        ),
        (
            &crawler,
            "/api/search?q=a",
            "the search index: it is in the data directory of the process with search:index",
        ),
    ] {
        let (status, elsewhere) = gateway.get(path);
        assert_eq!(status, 503, "{elsewhere}");
        assert!(elsewhere["detail"].as_str().unwrap().contains(owner), "{elsewhere}");
    }
    let start = &server.web().ground_truth().start[0];
    for (gateway, stage) in [(&crawler, "crawl"), (&indexer, "index")] {
        let (status, trail) = gateway.get(&format!("/api/trails?url={start}"));
        assert_eq!((status, &trail["items"][0]["entries"][0]["stage"]), (200, &json!(stage)), "{trail}");
    }
    let second = crawler_lab.run(CRAWLER);
    let stderr = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(stderr.contains("is in use by the gateway"), "{stderr}");
}
