//! Deployments of the flow: one process on the embedded defaults, or a gateway and a worker on RabbitMQ and Redis.

use crate::{
    inventory::Site,
    lab::{Lab, Up},
};
use crawlway_testkit::{
    http,
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
const SETTINGS: &str =
    "flows = [\"requests\"]\none_process_per_stage = true\n[requests]\npublish_timeout = \"1s\"\n";

/// One process on the embedded defaults.
pub(crate) fn single_process(site: &Site, settings: &str) -> Lab {
    let settings = format!("flows = [\"requests\"]\n[requests]\npublish_timeout = \"1s\"\n{settings}");
    site.lab(&settings)
}

/// A gateway and a worker on RabbitMQ and Redis. The processes have data directories of their own.
pub(crate) struct Shared {
    pub(crate) gateway: Lab,
    /// For another gateway.
    pub(crate) second_gateway: Lab,
    pub(crate) worker: Lab,
    pub(crate) redis: PrivateRedis,
    pub(crate) host: VirtualHost,
}

impl Shared {
    pub(crate) fn new(site: &Site, settings: &str, name: &str) -> Self {
        Self::with(site, settings, name, Persistence::AppendOnly)
    }

    pub(crate) fn with(site: &Site, settings: &str, name: &str, keeps: Persistence) -> Self {
        let (redis, host) = (PrivateRedis::start(keeps), VirtualHost::new(&format!("requests-{name}")));
        let lab = || {
            let mut lab = site.lab(&format!("{SETTINGS}{settings}"));
            lab.variables = vec![
                ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
                ("CRAWLWAY_BROKER__RABBITMQ__HOST", host.server.host.clone()),
                ("CRAWLWAY_BROKER__RABBITMQ__PORT", host.server.port.to_string()),
                ("CRAWLWAY_BROKER__RABBITMQ__VHOST", host.name.clone()),
                ("RABBITMQ_USER", host.server.user.clone()),
                ("RABBITMQ_PASSWORD", host.server.password.clone()),
                ("CRAWLWAY_REDIS__URL", redis.url()),
                ("CRAWLWAY_REQUESTS__STORE", "redis".to_owned()),
                ("CRAWLWAY_RATE_LIMIT__KIND", "redis".to_owned()),
            ];
            lab
        };
        Self { gateway: lab(), second_gateway: lab(), worker: lab(), redis, host }
    }

    pub(crate) fn start_gateway(&self) -> Up {
        ready(self.gateway.up_with(GATEWAY))
    }

    pub(crate) fn start_worker(&self) -> Up {
        self.worker.start(&mut self.worker.program(WORKER))
    }

    /// JSON of a request in the hash of its user.
    pub(crate) fn hash_value(&self, id: &str) -> Option<String> {
        let reply = self.redis.command(&format!("HGET crawls:{EMAIL} {id}")).ok()?;
        reply.split_once("\r\n").and_then(|(_, rest)| rest.split("\r\n").next()).map(str::to_owned)
    }
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
