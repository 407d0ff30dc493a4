//! Opens the Kafka broker with the options of the settings, and its ledger.

use super::ledger;
use crate::{
    config::{self, Config, KafkaSettings},
    failure::UsageError,
    process::worker_name,
};
use anyhow::Context;
use crawlway_broker::{QueueBackend, QueueSpec};
use crawlway_broker_kafka::{Options, Sasl, SaslMechanism};
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
    let protocol = settings.security_protocol;
    let tls = settings.tls.client(&format!("{table}.kafka.tls"))?;
    let how = format!("set `{table}.kafka.security_protocol` to \"ssl\" or \"sasl_ssl\"");
    tls.check_used(protocol.has_tls(), &how).map_err(|error| error.to_string())?;
    Ok(Options {
        servers: settings.servers.clone(),
        tls: protocol.has_tls().then_some(tls),
        sasl: sasl(settings, table)?,
        table: format!("{table}.kafka"),
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

/// Login of the settings.
fn sasl(settings: &KafkaSettings, table: &str) -> Result<Option<Sasl>, String> {
    let (user, password) = (settings.user.clone(), settings.password.expose().to_owned());
    match (settings.security_protocol.has_sasl(), user.is_empty(), password.is_empty()) {
        (true, false, false) => {}
        (false, true, true) => return Ok(None),
        (true, ..) => {
            return Err(format!(
                "`{table}.kafka.security_protocol` needs a login; set `{table}.kafka.user` and `{table}.kafka.password`"
            ));
        }
        (false, ..) => {
            return Err(format!(
                "`{table}.kafka.user` or `{table}.kafka.password` is set, but there is no login; set \
                 `{table}.kafka.security_protocol` to \"sasl_ssl\" or \"sasl_plaintext\""
            ));
        }
    }
    let mechanism = match settings.sasl_mechanism {
        config::SaslMechanism::Plain => SaslMechanism::Plain,
        config::SaslMechanism::ScramSha256 => SaslMechanism::ScramSha256,
        config::SaslMechanism::ScramSha512 => SaslMechanism::ScramSha512,
    };
    Ok(Some(Sasl { mechanism, user, password }))
}

#[cfg(test)]
mod tests {
    use super::SaslMechanism;
    use crate::config::tests::given;

    #[test]
    fn settings_become_options() {
        let config = given(&[
            ("CRAWLWAY_BROKER__KAFKA__SERVERS", "a:9092,b:9092"),
            ("CRAWLWAY_BROKER__KAFKA__SECURITY_PROTOCOL", "sasl_ssl"),
            ("CRAWLWAY_BROKER__KAFKA__SASL_MECHANISM", "SCRAM-SHA-512"),
            ("CRAWLWAY_BROKER__KAFKA__USER", "me"),
            ("CRAWLWAY_BROKER__KAFKA__PASSWORD", "hunter2"),
            ("CRAWLWAY_BROKER__KAFKA__PARTITIONS", "3"),
        ]);
        let config = config.unwrap().config;
        let options = super::options(&config.broker.kafka, "broker").unwrap();
        assert_eq!((options.servers.as_str(), options.partitions), ("a:9092,b:9092", 3));
        let sasl = options.sasl.as_ref().expect("an account");
        assert_eq!((sasl.user.as_str(), sasl.password.as_str()), ("me", "hunter2"));
        assert!(sasl.mechanism == SaslMechanism::ScramSha512 && options.tls.is_some());
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        const PROTOCOL: &str = "CRAWLWAY_BROKER__KAFKA__SECURITY_PROTOCOL";
        let certificates = crawlway_testkit::certificates::Certificates::new();
        let ca = certificates.path("ca.pem").display().to_string();
        for (variables, expected) in [
            (&[("CRAWLWAY_BROKER__KAFKA__USER", "me")][..], "`broker.kafka.security_protocol`"),
            (&[(PROTOCOL, "sasl_ssl"), ("CRAWLWAY_BROKER__KAFKA__USER", "me")], "`broker.kafka.password`"),
            (&[(PROTOCOL, "sasl_plaintext")], "`broker.kafka.user`"),
            (&[("CRAWLWAY_BROKER__KAFKA__TLS__CA", &ca)], "`broker.kafka.tls.ca`"),
            (&[(PROTOCOL, "ssl"), ("CRAWLWAY_BROKER__KAFKA__TLS__CA", "/none.pem")], "/none.pem"),
        ] {
            let config = given(variables).unwrap().config;
            let Err(refused) = super::options(&config.broker.kafka, "broker") else {
                panic!("{variables:?}")
            };
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
