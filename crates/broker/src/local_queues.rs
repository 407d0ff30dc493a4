//! Registry of the queues that are declared on a broker handle.

use crate::{BrokerError, PublishError, QueueName};
use parking_lot::RwLock;
use std::{collections::BTreeMap, sync::Arc};

/// Declared queues of a broker handle, by name, with the backend's local state of each.
#[derive(Debug)]
pub struct LocalQueues<Q>(RwLock<BTreeMap<QueueName, Arc<Q>>>);

impl<Q> Default for LocalQueues<Q> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<Q> LocalQueues<Q> {
    /// All queues, sorted by name.
    pub fn all(&self) -> Vec<Arc<Q>> {
        self.0.read().values().cloned().collect()
    }

    /// The queue of this name, if it is declared.
    pub fn find(&self, queue: &QueueName) -> Option<Arc<Q>> {
        self.0.read().get(queue).cloned()
    }

    /// The queue of this name.
    ///
    /// # Errors
    /// If it is not declared: with the names of similar ones.
    pub fn get(&self, queue: &QueueName) -> Result<Arc<Q>, BrokerError> {
        let unknown = || BrokerError::UnknownQueue { queue: queue.clone(), known: self.nearest(queue) };
        self.find(queue).ok_or_else(unknown)
    }

    /// Error of a publish to a queue that is not declared.
    pub fn unknown_target(&self, queue: &QueueName) -> PublishError {
        PublishError::UnknownQueue { queue: queue.clone(), known: self.nearest(queue) }
    }

    /// The queue of this name; a new one is added.
    pub fn get_or_insert(&self, queue: &QueueName, make: impl FnOnce() -> Q) -> Arc<Q> {
        self.0.write().entry(queue.clone()).or_insert_with(|| Arc::new(make())).clone()
    }

    fn nearest(&self, queue: &QueueName) -> Vec<QueueName> {
        queue.nearest(self.0.read().keys())
    }
}
