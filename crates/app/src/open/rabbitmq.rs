//! Opens the RabbitMQ broker with the options of the settings.

use super::stage_leases::LeaseStore;
use crate::{
    config::{RabbitAddress, RabbitSettings},
    failure::UsageError,
    process::worker_name,
};
use anyhow::Context;
use crawlway_broker::{QueueBackend, QueueSpec};
use crawlway_broker_rabbitmq::{Options, RabbitBroker, StageLocks};
use futures::future::{BoxFuture, FutureExt};
use std::{sync::Arc, time::Duration};

/// Timeout of a call during an outage, in a process that stays up: its caller waits for the answer.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(3);

/// Connects to the server. `table` is the place of the broker in the settings, for errors.
pub(super) async fn open(settings: &RabbitSettings, table: &str) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let options = options(settings, table).map_err(UsageError)?;
    let place = format!("{}:{}", options.host, options.port);
    let broker = RabbitBroker::connect(options).await;
    Ok(Arc::new(broker.with_context(|| format!("cannot use RabbitMQ at {place}"))?))
}

/// Connects to the server in the background, as soon as it can be reached.
pub(super) fn open_later(settings: &RabbitSettings, table: &str) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let options = options(settings, table).map_err(UsageError)?;
    Ok(Arc::new(RabbitBroker::connect_later(Options { connection_timeout: OUTAGE_TIMEOUT, ..options })))
}

/// Leases of stages; connects with the first one.
pub(super) fn leases(
    settings: &RabbitSettings,
    table: &str,
    owner: &str,
) -> anyhow::Result<Box<dyn LeaseStore>> {
    let mut options = options(settings, table).map_err(UsageError)?;
    options.connection_name.push_str(" (leases)");
    Ok(Box::new(StageLocks::new(options, owner.to_owned())))
}

impl LeaseStore for StageLocks {
    fn acquire<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        async move { Ok(StageLocks::acquire(self, name).await?) }.boxed()
    }

    /// The lease ends with the connection.
    fn valid(&self) -> Duration {
        Duration::ZERO
    }

    fn release<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, ()> {
        StageLocks::release(self).boxed()
    }
}

/// Refuses settings and queues that RabbitMQ would refuse, without asking the server.
pub(super) fn check(settings: &RabbitSettings, table: &str, queues: &[QueueSpec]) -> Result<(), String> {
    let options = options(settings, table)?;
    options.check_tls().map_err(|error| error.to_string())?;
    let checked = queues.iter().try_for_each(|queue| options.check(queue));
    checked.map_err(|error| format!("`[{table}]`: {error}"))
}

fn options(settings: &RabbitSettings, table: &str) -> Result<Options, String> {
    let RabbitAddress { host, port, amqps, vhost, user, password } = settings.address()?;
    if host.is_empty() {
        return Err(format!(
            "`{table}.kind` is \"rabbitmq\", but nothing says where it is; set `{table}.rabbitmq.url` or \
             `{table}.rabbitmq.host`"
        ));
    }
    if user.is_empty() || password.expose().is_empty() {
        // The variables of the contract are for the default broker alone.
        let variables = if table == "broker" { "RABBITMQ_USER and RABBITMQ_PASSWORD, or " } else { "" };
        return Err(format!(
            "`{table}.kind` is \"rabbitmq\", but there are no user name and password; set {variables}\
             `{table}.rabbitmq.user` and `{table}.rabbitmq.password`, or both in `{table}.rabbitmq.url`"
        ));
    }
    let RabbitSettings { management, max_message, confirm_timeout, .. } = settings;
    Ok(Options {
        host,
        port,
        amqps,
        tls: settings.tls.client(&format!("{table}.rabbitmq.tls"))?,
        user,
        password: password.expose().to_owned(),
        vhost,
        management_url: (!management.is_empty()).then(|| management.clone()),
        // Messages of all flows are JSON.
        content_type: Some("application/json".to_owned()),
        connection_name: format!("crawlway {}", worker_name()),
        max_message: max_message.0,
        confirm_timeout: confirm_timeout.0,
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use crate::config::tests::given;

    fn reached(variables: &[(&str, &str)]) -> String {
        let config = given(variables).unwrap().config;
        let options = super::options(&config.broker.rabbitmq, "broker").unwrap();
        let super::Options { user, password, host, port, vhost, .. } = options;
        format!("{user} {password} {host} {port} {vhost}")
    }

    #[test]
    fn an_address_says_where_rabbitmq_is_and_as_whom_and_leaves_the_rest_to_the_other_settings() {
        const URL: &str = "CRAWLWAY_BROKER__RABBITMQ__URL";
        let whole = "amqp://crawl:p%40ss%2Fw%C3%B6rd@broker.example:5673/my%2Fhost";
        assert_eq!(reached(&[(URL, whole)]), "crawl p@ss/wörd broker.example 5673 my/host");
        let account = [("RABBITMQ_USER", "u"), ("RABBITMQ_PASSWORD", "p")];
        let with = |url: &str| reached(&[&account[..], &[(URL, url)]].concat());
        assert_eq!(with("amqp://broker.example"), "u p broker.example 5672 /");
        assert_eq!(with("amqp://broker.example/"), "u p broker.example 5672 /");
        assert_eq!(with("amqp://other:q@[::1]/crawl"), "other q ::1 5672 crawl");
        assert_eq!(with(""), "u p rabbitmq 5672 /");
        assert_eq!(with("amqps://broker.example"), "u p broker.example 5671 /");
        assert_eq!(with("amqps://broker.example:5673"), "u p broker.example 5673 /");
    }

    #[test]
    fn a_wrong_address_of_rabbitmq_is_refused_without_its_password() {
        for wrong in [
            "broker.example:5672",
            "http://u:hunter2@broker.example",
            "amqp://u:hunter2@",
            "amqps://u:hunter2@broker.example?verify=none",
            "amqp://u:hunter2@broker.example?heartbeat=5",
            "amqp://u:hunter2@broker.example/%ff",
        ] {
            let told = given(&[("CRAWLWAY_BROKER__RABBITMQ__URL", wrong)]).unwrap_err().to_string();
            assert!(told.contains("CRAWLWAY_BROKER__RABBITMQ__URL") && told.contains("amqp://"), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
