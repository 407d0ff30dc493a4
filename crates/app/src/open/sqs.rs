//! Opens the SQS broker with the options of the settings, and its ledger.

use super::ledger;
use crate::{
    config::{Config, SqsSettings},
    process::worker_name,
};
use anyhow::Context;
use crawlway_broker::{QueueBackend, QueueSpec};
use crawlway_broker_sqs::Options;
use std::sync::Arc;

/// Connects to the endpoint.
pub(super) async fn open(config: &Config, settings: &SqsSettings) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let ledger = ledger::open(config, settings.ledger).await?;
    let broker = crawlway_broker_sqs::connect(options(settings), ledger).await;
    Ok(Arc::new(broker.context("cannot use SQS")?))
}

/// Connects to the endpoint in the background, as soon as it can be reached.
pub(super) fn open_later(config: &Config, settings: &SqsSettings) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let ledger = ledger::open_later(config, settings.ledger);
    Ok(Arc::new(crawlway_broker_sqs::connect_later(options(settings), ledger)))
}

/// Refuses settings and queues that SQS would refuse, without asking a server.
pub(super) fn check(
    config: &Config,
    settings: &SqsSettings,
    table: &str,
    queues: &[QueueSpec],
) -> Result<(), String> {
    ledger::check(config, settings.ledger, &format!("{table}.sqs.ledger"))?;
    let options = options(settings);
    let checked = queues.iter().try_for_each(|queue| options.check(queue));
    checked.map_err(|error| format!("`[{table}]`: {error}"))
}

fn options(settings: &SqsSettings) -> Options {
    let set = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    Options {
        region: set(&settings.region),
        endpoint: set(&settings.endpoint),
        profile: set(&settings.profile),
        role: set(&settings.role),
        client_id: format!("crawlway {}", worker_name()),
        max_size: settings.max_message_size.0,
        visibility: settings.visibility.0,
        poll_wait: settings.poll_wait.0,
        pollers: settings.pollers.0.get() as usize,
        publish_timeout: settings.publish_timeout.0,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::given;

    #[test]
    fn settings_become_options() {
        let variables = [
            ("CRAWLWAY_BROKER__SQS__REGION", "eu-central-1"),
            ("CRAWLWAY_BROKER__SQS__ENDPOINT", "http://127.0.0.1:4578"),
            ("CRAWLWAY_BROKER__SQS__POLLERS", "2"),
        ];
        let config = given(&variables).unwrap().config;
        let options = super::options(&config.broker.sqs);
        assert_eq!(options.region.as_deref(), Some("eu-central-1"));
        assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:4578"));
        assert_eq!((options.role, options.pollers), (None, 2));
        for (key, value) in [("POLL_WAIT", "21s"), ("VISIBILITY", "1s"), ("ENDPOINT", "sqs:4578")] {
            let key = format!("CRAWLWAY_BROKER__SQS__{key}");
            assert!(given(&[(key.as_str(), value)]).is_err(), "{key}");
        }
    }
}
