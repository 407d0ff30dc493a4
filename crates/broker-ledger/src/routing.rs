//! Routing: bindings of queues to topics, and the queues of a message.

use crate::{LedgerError, LedgerHandle};
use crawlway_broker::{
    LocalQueues, Outgoing, PublishError, QueueName, QueueSpec, Target, TopicPattern, limits,
};
use crawlway_store::ledger::ExchangeBinding;
use std::time::{Duration, Instant};

/// How long exchanges' bindings are used before they are read again.
const BINDINGS_AGE: Duration = Duration::from_secs(1);

impl LedgerHandle {
    /// Replaces the bindings of a queue.
    ///
    /// # Errors
    /// If the ledger is unavailable.
    pub async fn bind(&self, spec: &QueueSpec) -> Result<(), LedgerError> {
        let binding = |binding: &crawlway_broker::Binding| {
            ExchangeBinding::new(binding.exchange.as_str(), binding.pattern.to_string())
        };
        let bindings = spec.bindings.iter().map(binding).collect::<Result<Vec<_>, _>>()?;
        self.ledger.bind(spec.name.as_str(), &bindings).await?;
        self.bindings.lock().clear();
        Ok(())
    }

    /// Queues that a valid message of at most `max_message` bytes is routed to.
    ///
    /// # Errors
    /// If the message is invalid or too large, or no queue is found.
    pub async fn route<Q>(
        &self,
        message: &Outgoing,
        max_message: u64,
        declared: &LocalQueues<Q>,
    ) -> Result<Vec<QueueName>, PublishError> {
        limits::check(message)?;
        let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = (message.body.len() + headers) as u64;
        if size > max_message {
            return Err(PublishError::TooLarge { id: message.id.to_string(), size, limit: max_message });
        }
        match &message.to {
            Target::Queue(queue) if declared.find(queue).is_some() => Ok(vec![queue.clone()]),
            Target::Queue(queue) => Err(declared.unknown_target(queue)),
            Target::Topic { exchange, topic } => {
                let matches =
                    |pattern: &str| TopicPattern::new(pattern).is_ok_and(|found| found.matches(topic));
                let bindings = self.bindings(exchange.as_str()).await?;
                let bound = bindings.iter().filter(|(_, pattern)| matches(pattern));
                let mut queues: Vec<QueueName> =
                    bound.filter_map(|(queue, _)| QueueName::new(queue).ok()).collect();
                queues.sort();
                queues.dedup();
                if queues.is_empty() {
                    return Err(PublishError::Unroutable {
                        exchange: exchange.clone(),
                        topic: topic.clone(),
                    });
                }
                Ok(queues)
            }
        }
    }

    /// Bindings of an exchange. While the ledger is unavailable, those read last.
    async fn bindings(&self, exchange: &str) -> Result<Vec<(String, String)>, LedgerError> {
        let cached = self.bindings.lock().get(exchange).cloned();
        if let Some((read, bindings)) = &cached
            && read.elapsed() < BINDINGS_AGE
        {
            return Ok(bindings.clone());
        }
        match (self.ledger.bindings(exchange).await, cached) {
            (Ok(bindings), _) => {
                self.bindings.lock().insert(exchange.to_owned(), (Instant::now(), bindings.clone()));
                Ok(bindings)
            }
            (Err(_), Some((_, bindings))) => Ok(bindings),
            (Err(error), None) => Err(error.into()),
        }
    }
}
