//! Opens the Kafka broker with the options of the settings, and its ledger.

use super::ledger;
use crate::{
    config::{Config, KafkaSettings},
    failure::UsageError,
    process::worker_name,
};
use anyhow::Context;
use crawlway_broker::{QueueBackend, QueueSpec};
use crawlway_broker_kafka::{Options, Sasl};
use std::sync::Arc;

/// Connects to the servers. `table` is the place of the broker in the settings, for errors.
pub(super) async fn open(
    config: &Config,
    settings: &KafkaSettings,
    table: &str,
) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let options = options(settings, table).map_err(UsageError)?;
    let ledger = ledger::open(config, settings.ledger).await?;
    let servers = options.servers.clone();
    let broker = crawlway_broker_kafka::connect(options, ledger).await;
    Ok(Arc::new(broker.with_context(|| format!("cannot use Kafka at {servers}"))?))
}

/// Connects to the servers in the background, as soon as they can be reached.
pub(super) fn open_later(
    config: &Config,
    settings: &KafkaSettings,
    table: &str,
) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let options = options(settings, table).map_err(UsageError)?;
    let ledger = ledger::open_later(config, settings.ledger);
    Ok(Arc::new(crawlway_broker_kafka::connect_later(options, ledger).context("cannot use Kafka")?))
}

/// Refuses settings and queues that Kafka would refuse, without asking a server.
pub(super) fn check(
    config: &Config,
    settings: &KafkaSettings,
    table: &str,
    queues: &[QueueSpec],
) -> Result<(), String> {
    let options = options(settings, table)?;
    ledger::check(config, settings.ledger, &format!("{table}.kafka.ledger"))?;
    let checked = queues.iter().try_for_each(|queue| options.check(queue));
    checked.map_err(|error| format!("`[{table}]`: {error}"))
}

fn options(settings: &KafkaSettings, table: &str) -> Result<Options, String> {
    if settings.servers.trim().is_empty() {
        return Err(format!(
            "`{table}.kind` is \"kafka\", but nothing says where it is; set `{table}.kafka.servers`"
        ));
    }
    let password = settings.password.expose();
    if settings.user.is_empty() != password.is_empty() {
        return Err(format!("`{table}.kafka.user` and `{table}.kafka.password` belong together; set both"));
    }
    let sasl = Sasl { user: settings.user.clone(), password: password.to_owned() };
    Ok(Options {
        servers: settings.servers.clone(),
        sasl: (!settings.user.is_empty()).then_some(sasl),
        group_prefix: settings.group_prefix.clone(),
        client_id: format!("crawlway {}", worker_name()),
        partitions: settings.partitions.0.get(),
        replication: settings.replication.0,
        retention: settings.retention.0,
        max_message: settings.max_message.0,
        session_timeout: settings.session_timeout.0,
        max_gap: settings.max_gap.0.get(),
        publish_timeout: settings.publish_timeout.0,
        ..Options::default()
    })
}

#[cfg(test)]
mod tests {
    use crate::config::tests::given;

    #[test]
    fn settings_become_options() {
        let config = given(&[
            ("CRAWLWAY_BROKER__KAFKA__SERVERS", "a:9092,b:9092"),
            ("CRAWLWAY_BROKER__KAFKA__USER", "me"),
            ("CRAWLWAY_BROKER__KAFKA__PASSWORD", "hunter2"),
            ("CRAWLWAY_BROKER__KAFKA__PARTITIONS", "3"),
        ]);
        let config = config.unwrap().config;
        let options = super::options(&config.broker.kafka, "broker").unwrap();
        assert_eq!((options.servers.as_str(), options.partitions), ("a:9092,b:9092", 3));
        let sasl = options.sasl.as_ref().expect("an account");
        assert_eq!((sasl.user.as_str(), sasl.password.as_str()), ("me", "hunter2"));
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn half_an_account_is_refused() {
        let config = given(&[("CRAWLWAY_BROKER__KAFKA__USER", "me")]).unwrap().config;
        let Err(refused) = super::options(&config.broker.kafka, "broker") else { panic!("no password") };
        assert!(refused.contains("`broker.kafka.password`"), "{refused}");
    }
}
