//! `[queue.…]`: defaults of all queues, and settings of single queues.

use super::value::{Count, Span};
use crawlway_broker::{QueueName, QueueSpec};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Name of the table with the defaults.
const DEFAULTS: &str = "defaults";

/// Settings of queues.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "BTreeMap<String, QueueTable>")]
pub(crate) struct QueueSettings {
    defaults: QueueTable,
    named: BTreeMap<QueueName, QueueTable>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTable {
    broker: Option<String>,
    prefetch: Option<Count>,
    lease: Option<Span>,
    max_attempts: Option<Count>,
    max_solo_crashes: Option<Count>,
}

impl QueueSettings {
    /// Specification of a queue from the settings, without additions of its flow.
    pub(crate) fn spec(&self, name: QueueName) -> QueueSpec {
        let table = self.named.get(&name);
        let spec = self.defaults.applied_to(QueueSpec::new(name));
        table.map_or(spec.clone(), |table| table.applied_to(spec))
    }

    /// Queues with a table of their own.
    pub(crate) fn names(&self) -> impl Iterator<Item = &QueueName> {
        self.named.keys()
    }

    /// `broker` in the table of a queue.
    pub(super) fn broker(&self, name: &QueueName) -> Option<&str> {
        self.named.get(name)?.broker.as_deref()
    }

    /// `queue.defaults.broker`.
    pub(super) fn default_broker(&self) -> Option<&str> {
        self.defaults.broker.as_deref()
    }

    pub(super) fn check(&self) -> Result<(), String> {
        for name in self.named.keys() {
            self.spec(name.clone()).check().map_err(|error| error.to_string())?;
        }
        // The defaults are checked with an arbitrary queue name.
        let any = QueueName::new(DEFAULTS).map_err(|error| error.to_string())?;
        self.spec(any).check().map_err(|error| error.to_string())
    }
}

impl QueueTable {
    fn applied_to(&self, mut spec: QueueSpec) -> QueueSpec {
        if let Some(Count(prefetch)) = self.prefetch {
            spec = spec.prefetch(prefetch.get());
        }
        if let Some(Span(lease)) = self.lease {
            spec = spec.lease(lease);
        }
        if let Some(Count(max_attempts)) = self.max_attempts {
            spec = spec.max_attempts(max_attempts.get());
        }
        if let Some(Count(max_solo_crashes)) = self.max_solo_crashes {
            spec = spec.max_solo_crashes(max_solo_crashes.get());
        }
        spec
    }
}

impl TryFrom<BTreeMap<String, QueueTable>> for QueueSettings {
    type Error = String;
    fn try_from(mut tables: BTreeMap<String, QueueTable>) -> Result<Self, String> {
        let defaults = tables.remove(DEFAULTS).ok_or("the table `[queue.defaults]` is missing")?;
        let named = tables
            .into_iter()
            .map(|(name, table)| Ok((QueueName::new(&name)?, table)))
            .collect::<Result<_, crawlway_broker::NameError>>();
        Ok(Self { defaults, named: named.map_err(|error| error.to_string())? })
    }
}
