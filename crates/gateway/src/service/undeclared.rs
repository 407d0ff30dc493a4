//! Queues of the settings that a broker does not list.

use super::Error;
use crate::dto::UnavailableQueue;
use crawlway_broker::{Broker, QueueName, QueueSpec};
use crawlway_flow::StageQueue;
use crawlway_flows::search::FRONTIER;

/// Queues that exist according to the settings, but may be undeclared, since their broker does not respond.
#[derive(Debug, Clone, Copy)]
pub enum Undeclared<'a> {
    /// Queues of the stages of a process, on a broker that connects later.
    OfStages(&'a [StageQueue], &'a dyn Broker),
    /// Queues of brokers that could not be opened, with the reason. Another broker may have a queue of the same name.
    OfClosedBrokers(&'a [UnavailableQueue]),
}

impl Undeclared<'_> {
    /// Removes the queues of closed brokers from the declared ones, and returns all that are missing.
    pub(super) fn split(self, declared: &mut Vec<QueueSpec>) -> Vec<UnavailableQueue> {
        match self {
            Self::OfClosedBrokers(closed) => {
                declared.retain(|spec| closed.iter().all(|queue| queue.name != spec.name.as_str()));
                closed.to_vec()
            }
            Self::OfStages(stages, broker) => {
                missing(stages, declared).map(|queue| unavailable(broker, queue)).collect()
            }
        }
    }

    /// Error of a queue if it is missing.
    pub(super) fn check(self, declared: &[QueueSpec], name: &QueueName) -> Result<(), Error> {
        let found = match self {
            Self::OfClosedBrokers(closed) => closed.iter().find(|queue| queue.name == name.as_str()).cloned(),
            Self::OfStages(stages, broker) => {
                missing(stages, declared).find(|queue| *queue == name).map(|queue| unavailable(broker, queue))
            }
        };
        found.map_or(Ok(()), |queue| Err(Error::unavailable(queue.to_string())))
    }
}

/// Queues of stages that are not declared. The frontier is no queue of a broker.
fn missing<'a>(stages: &'a [StageQueue], declared: &'a [QueueSpec]) -> impl Iterator<Item = &'a QueueName> {
    let is_declared = |queue: &QueueName| declared.iter().any(|spec| spec.name == *queue);
    let queues = stages.iter().map(|stage| &stage.queue);
    queues.filter(move |queue| queue.as_str() != FRONTIER && !is_declared(queue))
}

fn unavailable(broker: &dyn Broker, queue: &QueueName) -> UnavailableQueue {
    let reason = match broker.reachable_for(queue) {
        Err(error) => error.to_string(),
        Ok(()) => "it is not declared yet; see `/health/ready`".to_owned(),
    };
    UnavailableQueue { name: queue.to_string(), reason }
}
