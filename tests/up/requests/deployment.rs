//! Deployments of the flow: one process on the embedded defaults, or gateways and workers on Redis and RabbitMQ or Kafka.

use crate::{
    inventory::Site,
    lab::{Lab, Up},
};
use crawlway_testkit::{
    foreign_client::ForeignClient,
    http,
    private_kafka::PrivateKafka,
    private_redis::{Persistence, PrivateRedis},
    virtual_host::VirtualHost,
};
use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};

pub(crate) const EMAIL: &str = "lidor@example.com";
pub(crate) const GATEWAY: &[&str] = &["up", "--only", "gateway,requests:responses", "--json"];
pub(crate) const WORKER: &[&str] = &["up", "--only", "requests:fetch", "--json"];

/// Settings with short delays.
const SETTINGS: &str = "flows = [\"requests\"]\n[requests]\npublish_timeout = \"1s\"\n";

/// One process on the embedded defaults.
pub(crate) fn single_process(site: &Site, settings: &str) -> Lab {
    site.lab(&format!("{SETTINGS}{settings}"))
}

/// One process with the requests in Redis and everything else embedded.
pub(crate) fn single_process_on_redis(site: &Site, redis: &PrivateRedis) -> Lab {
    let mut lab = single_process(site, "");
    lab.variables = vec![
        ("CRAWLWAY_ONLY_PROCESS", "true".to_owned()),
        ("CRAWLWAY_REDIS__URL", redis.url()),
        ("CRAWLWAY_REQUESTS__STORE", "redis".to_owned()),
    ];
    lab
}

/// Broker of a deployment.
pub(crate) enum Broker {
    RabbitMq(VirtualHost),
    Kafka(PrivateKafka),
}

impl Broker {
    fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::RabbitMq(host) => vec![
                ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
                ("CRAWLWAY_BROKER__RABBITMQ__HOST", host.server.host.clone()),
                ("CRAWLWAY_BROKER__RABBITMQ__PORT", host.server.port.to_string()),
                ("CRAWLWAY_BROKER__RABBITMQ__VHOST", host.name.clone()),
                ("RABBITMQ_USER", host.server.user.clone()),
                ("RABBITMQ_PASSWORD", host.server.password.clone()),
            ],
            Self::Kafka(kafka) => vec![
                ("CRAWLWAY_BROKER__KIND", "kafka".to_owned()),
                ("CRAWLWAY_BROKER__KAFKA__SERVERS", kafka.address()),
                ("CRAWLWAY_BROKER__KAFKA__PARTITIONS", "6".to_owned()),
                ("CRAWLWAY_BROKER__KAFKA__SESSION_TIMEOUT", "2s".to_owned()),
                ("CRAWLWAY_BROKER__KAFKA__LEDGER", "redis".to_owned()),
            ],
        }
    }
}

/// A gateway and a worker on Redis and a broker. The processes have data directories of their own.
pub(crate) struct Shared {
    pub(crate) gateway: Lab,
    pub(crate) worker: Lab,
    pub(crate) redis: PrivateRedis,
    pub(crate) broker: Broker,
    settings: String,
}

impl Shared {
    pub(crate) fn new(site: &Site, settings: &str, name: &str) -> Self {
        Self::with(site, settings, name, Persistence::AppendOnly)
    }

    pub(crate) fn with(site: &Site, settings: &str, name: &str, keeps: Persistence) -> Self {
        Self::on(Broker::RabbitMq(VirtualHost::new(&format!("requests-{name}"))), site, settings, keeps)
    }

    /// On an empty Kafka of its own, with the ledger in Redis.
    pub(crate) fn on_kafka(site: &Site, settings: &str) -> Self {
        Self::on(Broker::Kafka(PrivateKafka::start("")), site, settings, Persistence::AppendOnly)
    }

    fn on(broker: Broker, site: &Site, settings: &str, keeps: Persistence) -> Self {
        let redis = PrivateRedis::start(keeps);
        let settings = format!("{SETTINGS}{settings}");
        let lab = || lab(site, &settings, &broker, &redis);
        Self { gateway: lab(), worker: lab(), redis, broker, settings }
    }

    /// Data directory and settings of one more process.
    pub(crate) fn another(&self, site: &Site) -> Lab {
        lab(site, &self.settings, &self.broker, &self.redis)
    }

    pub(crate) fn start_gateway(&self) -> Up {
        ready(self.gateway.up_with(GATEWAY))
    }

    pub(crate) fn start_worker(&self) -> Up {
        self.worker.start(&mut self.worker.program(WORKER))
    }

    /// Starts `crawl_requests.py` on the broker.
    pub(crate) fn foreign_client(&self, arguments: &[&str]) -> ForeignClient {
        const PROGRAM: &str = "crawl_requests.py";
        match &self.broker {
            Broker::RabbitMq(host) => ForeignClient::at(&host.server, &host.name, PROGRAM, arguments),
            Broker::Kafka(kafka) => {
                let address = kafka.address();
                ForeignClient::start(PROGRAM, &[&["kafka", &address], arguments].concat())
            }
        }
    }

    /// The server of a deployment on Kafka.
    pub(crate) fn kafka(&mut self) -> &mut PrivateKafka {
        match &mut self.broker {
            Broker::Kafka(kafka) => kafka,
            Broker::RabbitMq(_) => panic!("a deployment on Kafka"),
        }
    }

    /// JSON of a request in the hash of its user.
    pub(crate) fn hash_value(&self, id: &str) -> Option<String> {
        let reply = self.redis.command(&format!("HGET crawls:{EMAIL} {id}")).ok()?;
        reply.split_once("\r\n").and_then(|(_, rest)| rest.split("\r\n").next()).map(str::to_owned)
    }
}

fn lab(site: &Site, settings: &str, broker: &Broker, redis: &PrivateRedis) -> Lab {
    let mut lab = site.lab(settings);
    lab.variables = broker.variables();
    lab.variables.extend([
        ("CRAWLWAY_REDIS__URL", redis.url()),
        ("CRAWLWAY_REQUESTS__STORE", "redis".to_owned()),
        ("CRAWLWAY_RATE_LIMIT__KIND", "redis".to_owned()),
        // A killed worker blocks its host no longer than this.
        ("CRAWLWAY_RATE_LIMIT__LEASE", "5s".to_owned()),
    ]);
    lab
}

/// Waits until a gateway is ready.
pub(crate) fn ready(up: Up) -> Up {
    up.wait("/health/ready", |ready| ready["ready"] == true);
    up
}

impl Up {
    /// Requests a URL, which must be accepted. Returns the id.
    pub(crate) fn add_request(&self, url: &str) -> String {
        let (status, accepted) = self.post("/api/requests", &json!({ "url": url, "email": EMAIL }));
        assert_eq!(status, 202, "{accepted}");
        accepted["id"].as_str().unwrap().to_owned()
    }

    /// Requests a URL until it is accepted. Returns the id.
    pub(crate) fn wait_accepted_request(&self, url: &str) -> String {
        let begun = Instant::now();
        loop {
            let (status, response) = self.post("/api/requests", &json!({ "url": url, "email": EMAIL }));
            if status == 202 {
                return response["id"].as_str().unwrap().to_owned();
            }
            assert!(status == 503 && begun.elapsed() < Duration::from_secs(60), "{status}: {response}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a request has ended.
    pub(crate) fn wait_request(&self, id: &str) -> Value {
        let begun = Instant::now();
        loop {
            let path = format!("/api/requests/{id}?email={EMAIL}&wait=5s");
            if let Ok((200, body)) = http::request(&self.address, "GET", &path, &[], "") {
                let request: Value = serde_json::from_str(&body).unwrap();
                if request["status"] != "pending" {
                    return request;
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(90), "request {id} does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}
