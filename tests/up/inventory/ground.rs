//! Where the flow runs in a test: everything in one process on the embedded defaults, or the API and the worker apart, on
//! RabbitMQ and MongoDB.

use super::site::Site;
use crate::lab::{Lab, Up};
use crawlway_testkit::{private_mongodb::PrivateMongo, servers::RabbitMq, virtual_host::VirtualHost};
use rustix::process::Signal;

const WHOLE: &[&str] = &["up", "--json"];
const GATEWAY: &[&str] = &["up", "--only", "gateway", "--json"];
pub(crate) const WORKER: &[&str] = &["up", "--only", "worker:inventory", "--json"];

pub(crate) struct Ground {
    pub(crate) lab: Lab,
    apart: Option<Servers>,
}

/// Servers of a test's own.
pub(crate) struct Servers {
    pub(crate) host: VirtualHost,
    pub(crate) mongo: PrivateMongo,
}

impl Ground {
    /// One process on the embedded defaults.
    pub(crate) fn whole(site: &Site, settings: &str) -> Self {
        Self { lab: site.lab(settings), apart: None }
    }

    /// The API and the worker in processes of their own. No other test has a ground of this name.
    pub(crate) fn apart(site: &Site, settings: &str, name: &str) -> Self {
        let servers = Servers { host: VirtualHost::new(name), mongo: PrivateMongo::start() };
        let lab = lab_apart(site, settings, &servers.host.server, &servers.host.name, servers.mongo.url());
        Self { lab, apart: Some(servers) }
    }

    /// The servers that the processes share, if they are apart.
    pub(crate) fn servers(&mut self) -> &mut Servers {
        self.apart.as_mut().expect("servers of its own")
    }

    /// The command line of the process that fetches.
    pub(crate) fn worker_line(&self) -> &'static [&'static str] {
        if self.apart.is_some() { WORKER } else { WHOLE }
    }

    fn api(&self) -> Up {
        self.lab.up_with(if self.apart.is_some() { GATEWAY } else { WHOLE })
    }

    fn worker(&self) -> Option<Up> {
        self.apart.as_ref().map(|_| self.lab.start(&mut self.lab.program(WORKER)))
    }

    /// Starts everything, and returns when the API listens.
    pub(crate) fn start(&self) -> Running {
        Running { worker: self.worker(), api: self.api() }
    }
}

/// Settings with which the API and the worker are apart, on these servers.
pub(crate) fn lab_apart(site: &Site, settings: &str, broker: &RabbitMq, vhost: &str, mongo: String) -> Lab {
    let mut lab = site.lab(&format!("only_worker = true\n{settings}"));
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

/// Everything at work.
pub(crate) struct Running {
    pub(crate) api: Up,
    worker: Option<Up>,
}

impl Running {
    /// Kills one of the processes, whichever it falls on, and starts it again.
    pub(crate) fn kill_one(&mut self, ground: &Ground, random: u64) {
        let worker = self.worker.as_mut().filter(|_| random.is_multiple_of(2));
        let killed = worker.unwrap_or(&mut self.api);
        killed.signal(Signal::KILL);
        killed.ended();
        if killed.address.is_empty() {
            self.worker = ground.worker();
        } else {
            self.api = ground.api();
        }
    }
}
