//! Declaration of the queues at the start of a process.

use super::Process;
use crate::opening::{self, Opening};
use crawlway_broker::QueueSpec;
use crawlway_gateway::{Later, Probe};
use futures::FutureExt;
use std::{collections::BTreeMap, sync::Arc};

impl Process<'_> {
    /// Declares the queues, each broker by itself, since another may be missing. A flow is declared with the last of its brokers.
    pub(super) async fn declare(&self, queues: &[QueueSpec], opening: &Opening<'_>) -> anyhow::Result<()> {
        let broker = &self.handles.broker;
        let in_use = self.config.brokers_in_use(&self.role.modules());
        let declared: BTreeMap<&str, Later<()>> =
            in_use.iter().map(|used| (used.name, Later::new())).collect();
        let brokers = futures::future::try_join_all(in_use.iter().map(async |used| {
            let is_here = |spec: &&QueueSpec| used.queues.contains(&spec.name);
            let specs: Vec<QueueSpec> = queues.iter().filter(is_here).cloned().collect();
            opening::declare(broker, used.dependency(), &specs, opening).await?;
            if let Some(QueueSpec { name, .. }) = specs.iter().min_by(|one, other| one.name.cmp(&other.name))
            {
                opening.readiness.opened(used.dependency(), Probe::broker(broker.clone(), name.clone()));
            }
            declared[used.name].set(Arc::new(()));
            anyhow::Ok(())
        }));
        let flows = futures::future::join_all(self.role.flows.iter().map(async |flow| {
            for used in self.config.brokers_in_use(&[flow.module]) {
                declared[used.name].connected().await;
            }
            self.handles.set_declared(flow.module.name());
            flow.module.connected(&self.handles);
        }));
        tokio::try_join!(brokers, flows.map(Ok))?;
        Ok(())
    }
}
