//! Declaring: queues are created, or verified and refused if they differ in what matters.

use crate::{
    connection::seconds,
    engine::Engine,
    error::Failure,
    local_queue::{Address, LocalQueue, QueueState},
    names::Names,
    options::{MAX_VISIBILITY, Options},
};
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use crawlway_broker::{Aspect, BrokerError, Ordering, QueueName, QueueSpec};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Retention of new queues: the longest of SQS.
const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Tags of a queue: its name in the contract, and its ordering or `dead`.
const NAME_TAG: &str = "crawlway-queue";
const ORDERING_TAG: &str = "crawlway-ordering";

impl Options {
    /// Refuses what this backend cannot guarantee, without asking a server.
    ///
    /// # Errors
    /// If the spec is invalid or refused.
    pub fn check(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        crate::guarantees::guarantees(self).check(spec)?;
        if spec.lease > MAX_VISIBILITY {
            return Err(spec.refused(Aspect::Lease, "SQS hides a message for 12 hours at most"));
        }
        Ok(())
    }
}

impl Engine {
    pub(crate) async fn declare(self: &Arc<Self>, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        self.check_reachable()?;
        for spec in queues {
            self.connection.options.check(spec)?;
        }
        let paused = self.ledger.paused().await?;
        for spec in queues {
            let known = self.queues.find(&spec.name);
            let url = match &known {
                Some(local) if local.spec().ordering == spec.ordering => local.url.clone(),
                _ => self.create_and_verify(spec).await?,
            };
            self.ledger.bind(spec).await?;
            let local = self.register(spec, paused.contains(spec.name.as_str()), || local_queue(spec, url));
            if known.is_none() {
                self.runtime.spawn(self.clone().keep(local));
            }
        }
        Ok(())
    }

    async fn create_and_verify(&self, spec: &QueueSpec) -> Result<String, BrokerError> {
        let name = Names::new(&spec.name).main;
        let created = self.create_queue(&name, spec.name.as_str(), spec.ordering.name()).await;
        let url = match created {
            Err(failure) if failure.is_existing_queue() => self.url(&name).await?,
            Err(Failure::Refused { code, message }) if code.ends_with("QueueDeletedRecently") => {
                let detail = format!("{message}: SQS creates a deleted queue again after 60 s");
                return Err(BrokerError::Unavailable { detail });
            }
            created => created?,
        };
        match self.difference(&url, spec).await? {
            None => Ok(url),
            Some(difference) => Err(BrokerError::Mismatch {
                queue: spec.name.clone(),
                difference: format!("SQS queue `{name}`: {difference}"),
            }),
        }
    }

    /// Creates a queue, if it does not exist, and returns its URL.
    pub(crate) async fn create_queue(
        &self,
        name: &str,
        queue: &str,
        ordering: &str,
    ) -> Result<String, Failure> {
        let options = &self.connection.options;
        let attributes = [
            (Attribute::FifoQueue, "true".to_owned()),
            (Attribute::DeduplicationScope, "messageGroup".to_owned()),
            (Attribute::FifoThroughputLimit, "perMessageGroupId".to_owned()),
            (Attribute::DelaySeconds, "0".to_owned()),
            (Attribute::MaximumMessageSize, options.max_size.to_string()),
            (Attribute::MessageRetentionPeriod, RETENTION.as_secs().to_string()),
            (Attribute::VisibilityTimeout, seconds(options.visibility).to_string()),
        ];
        let call = self.connection.client().await.create_queue().queue_name(name);
        let call = call.set_attributes(Some(attributes.into_iter().collect()));
        let call = call.tags(NAME_TAG, queue).tags(ORDERING_TAG, ordering);
        let answer = self.connection.note(call.send().await)?;
        answer.queue_url.ok_or_else(|| Failure::Unavailable(format!("SQS has no URL for the queue `{name}`")))
    }

    async fn url(&self, name: &str) -> Result<String, Failure> {
        let answer = self.connection.client().await.get_queue_url().queue_name(name).send().await;
        let answer = self.connection.note(answer)?;
        answer.queue_url.ok_or_else(|| Failure::Unavailable(format!("SQS has no URL for the queue `{name}`")))
    }

    async fn tags(&self, url: &str) -> Result<HashMap<String, String>, Failure> {
        let answer = self.connection.client().await.list_queue_tags().queue_url(url).send().await;
        Ok(self.connection.note(answer)?.tags.unwrap_or_default())
    }

    /// What is wrong with an existing queue. An attribute that the server does not show is not compared.
    async fn difference(&self, url: &str, spec: &QueueSpec) -> Result<Option<String>, Failure> {
        let call = self.connection.client().await.get_queue_attributes().queue_url(url);
        let answer = self.connection.note(call.attribute_names(Attribute::All).send().await)?;
        let attributes = answer.attributes.unwrap_or_default();
        let number = |name: Attribute| attributes.get(&name).and_then(|value| value.parse::<u64>().ok());
        if attributes.get(&Attribute::RedrivePolicy).is_some_and(|policy| !policy.is_empty()) {
            let text = "it has a redrive policy, which takes deferred messages away; remove it";
            return Ok(Some(text.to_owned()));
        }
        if let Some(delay) = number(Attribute::DelaySeconds).filter(|delay| *delay > 0) {
            return Ok(Some(format!("DelaySeconds is {delay}; set it to 0")));
        }
        let max_size = self.connection.options.max_size;
        if let Some(size) = number(Attribute::MaximumMessageSize).filter(|size| *size < max_size) {
            return Ok(Some(format!("MaximumMessageSize is {size}; expected {max_size} or more")));
        }
        if let Some(retention) =
            number(Attribute::MessageRetentionPeriod).filter(|found| *found < RETENTION.as_secs())
        {
            let wanted = RETENTION.as_secs();
            return Ok(Some(format!("MessageRetentionPeriod is {retention}; expected {wanted}: 14 days")));
        }
        let tags = self.tags(url).await?;
        let expected = [(NAME_TAG, spec.name.as_str()), (ORDERING_TAG, spec.ordering.name())];
        Ok(expected.into_iter().find_map(|(tag, expected)| {
            let found = tags.get(tag).filter(|found| *found != expected)?;
            Some(format!("its tag {tag} is `{found}`; expected `{expected}`"))
        }))
    }

    /// A queue that another process has declared.
    pub(crate) async fn existing_queue(&self, queue: &QueueName) -> Result<LocalQueue, Failure> {
        let url = self.url(&Names::new(queue).main).await?;
        let tags = self.tags(&url).await?;
        let all = [Ordering::None, Ordering::PerGroup, Ordering::Fifo];
        let named = all
            .into_iter()
            .find(|ordering| Some(ordering.name()) == tags.get(ORDERING_TAG).map(String::as_str));
        let spec = QueueSpec::new(queue.clone()).ordering(named.unwrap_or_default());
        Ok(local_queue(&spec, url))
    }
}

fn local_queue(spec: &QueueSpec, url: String) -> LocalQueue {
    LocalQueue::new(Address::new(Names::new(&spec.name), url), QueueState::new(spec.clone()))
}
