//! Deployments of the flow: one process on the embedded defaults, or gateway and worker as two processes on MongoDB and RabbitMQ or
//! Kafka.

use super::site::Site;
use crate::lab::{Lab, Up};
use crawlway_testkit::{
    private_kafka::PrivateKafka,
    private_mongodb::PrivateMongoDb,
    servers::{self, RabbitMq},
    virtual_host::VirtualHost,
};
use rustix::process::Signal;

const ALL_PARTS: &[&str] = &["up", "--json"];
const GATEWAY: &[&str] = &["up", "--only", "gateway", "--json"];
pub(crate) const WORKER: &[&str] = &["up", "--only", "inventory", "--json"];

pub(crate) struct Deployment {
    pub(crate) lab: Lab,
    servers: Option<Servers>,
    kafka: Option<PrivateKafka>,
}

/// Private servers of one test.
pub(crate) struct Servers {
    pub(crate) host: VirtualHost,
    pub(crate) mongo: PrivateMongoDb,
}

impl Deployment {
    /// One process on the embedded defaults.
    pub(crate) fn single_process(site: &Site, settings: &str) -> Self {
        Self { lab: site.lab(settings), servers: None, kafka: None }
    }

    /// Gateway and worker as two processes. The name is unique among the tests.
    pub(crate) fn two_processes(site: &Site, settings: &str, name: &str) -> Self {
        let servers = Servers { host: VirtualHost::new(name), mongo: PrivateMongoDb::start() };
        let lab =
            two_process_lab(site, settings, &servers.host.server, &servers.host.name, servers.mongo.url());
        Self { lab, servers: Some(servers), kafka: None }
    }

    /// Gateway and worker as two processes on Kafka, with the ledger in Redis.
    pub(crate) fn on_kafka(site: &Site, settings: &str, name: &str) -> Self {
        let kafka = PrivateKafka::start("");
        let mut deployment = Self::two_processes(site, settings, name);
        deployment.lab.variables.extend([
            ("CRAWLWAY_BROKER__KIND", "kafka".to_owned()),
            ("CRAWLWAY_BROKER__KAFKA__SERVERS", kafka.address()),
            ("CRAWLWAY_BROKER__KAFKA__PARTITIONS", "2".to_owned()),
            ("CRAWLWAY_BROKER__KAFKA__SESSION_TIMEOUT", "2s".to_owned()),
            ("CRAWLWAY_BROKER__KAFKA__LEDGER", "redis".to_owned()),
            ("CRAWLWAY_REDIS__URL", servers::redis()),
            ("CRAWLWAY_REDIS__PREFIX", format!("{name}-{}", std::process::id())),
        ]);
        deployment.kafka = Some(kafka);
        deployment
    }

    /// The servers that the two processes share.
    pub(crate) fn servers(&mut self) -> &mut Servers {
        self.servers.as_mut().expect("a deployment with two processes")
    }

    /// The command line of the process that fetches.
    pub(crate) fn worker_line(&self) -> &'static [&'static str] {
        if self.servers.is_some() { WORKER } else { ALL_PARTS }
    }

    fn api(&self) -> Up {
        self.lab.up_with(if self.servers.is_some() { GATEWAY } else { ALL_PARTS })
    }

    fn worker(&self) -> Option<Up> {
        self.servers.as_ref().map(|_| self.lab.start(&mut self.lab.program(WORKER)))
    }

    /// Starts all processes; returns when the gateway listens.
    pub(crate) fn start(&self) -> Running {
        Running { worker: self.worker(), api: self.api() }
    }
}

/// Settings for gateway and worker as two processes on these servers.
pub(crate) fn two_process_lab(
    site: &Site,
    settings: &str,
    broker: &RabbitMq,
    vhost: &str,
    mongo: String,
) -> Lab {
    let mut lab = site.lab(&format!("one_process_per_stage = true\nflows = [\"inventory\"]\n{settings}"));
    lab.variables = vec![
        ("CRAWLWAY_BROKER__KIND", "rabbitmq".to_owned()),
        ("CRAWLWAY_BROKER__RABBITMQ__HOST", broker.host.clone()),
        ("CRAWLWAY_BROKER__RABBITMQ__PORT", broker.port.to_string()),
        ("CRAWLWAY_BROKER__RABBITMQ__VHOST", vhost.to_owned()),
        ("RABBITMQ_USER", broker.user.clone()),
        ("RABBITMQ_PASSWORD", broker.password.clone()),
        ("CRAWLWAY_INVENTORY__STORE", "mongodb".to_owned()),
        ("CRAWLWAY_INVENTORY__MONGODB__URL", mongo),
        ("CRAWLWAY_INVENTORY__MONGODB__CONNECT_TIMEOUT", "1s".to_owned()),
    ];
    lab
}

/// Running processes of a deployment.
pub(crate) struct Running {
    pub(crate) api: Up,
    worker: Option<Up>,
}

impl Running {
    /// Kills a random process and starts it again.
    pub(crate) fn kill_one(&mut self, deployment: &Deployment, random: u64) {
        let worker = self.worker.as_mut().filter(|_| random.is_multiple_of(2));
        let killed = worker.unwrap_or(&mut self.api);
        killed.signal(Signal::KILL);
        killed.wait_exit();
        deployment.lab.forget_crashes();
        if killed.address.is_empty() {
            self.worker = deployment.worker();
        } else {
            self.api = deployment.api();
        }
    }
}
