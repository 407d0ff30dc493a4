//! The stages `compute` and `store`.

use crawlway_broker::{Delivery, Outgoing, QueueName};
use crawlway_flow::{Context, EffectError, Invalid, Item, Output, Stage, StageError};
use serde::{Deserialize, Serialize};
use std::{fs, path::PathBuf, sync::Arc};

/// Message of the queue `checksum_requests`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) text: String,
}

/// Message of the queue `checksum_results`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Checksum {
    pub(super) checksum: String,
}

/// Stage that computes checksums.
pub(super) struct Compute {
    pub(super) results: QueueName,
}

impl Compute {
    pub(super) const NAME: &str = "compute";
}

#[async_trait::async_trait]
impl Stage for Compute {
    type In = Request;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn decode(&self, delivery: &Delivery) -> Result<Request, Invalid> {
        serde_json::from_slice(&delivery.message.body).map_err(|error| Invalid(error.to_string()))
    }

    fn subject(&self, _: &Request) -> Option<String> {
        None
    }

    async fn run(&self, batch: Vec<Item<Request>>, _: &Context) -> Vec<Result<Output<(), ()>, StageError>> {
        let compute = |item: Item<Request>| {
            let result = Checksum { checksum: checksum(&item.value.text) };
            let body = serde_json::to_vec(&result)
                .map_err(|error| StageError::Permanent { reason: error.to_string() })?;
            let message = Outgoing::to_queue(&self.results, body).id(item.id);
            Ok(Output { publish: vec![message], ..Output::empty("computed") })
        };
        batch.into_iter().map(compute).collect()
    }
}

/// Checksum as hexadecimal text (FNV-1a).
fn checksum(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Stage that stores results as files.
pub(super) struct StoreResult {
    pub(super) directory: Arc<PathBuf>,
}

impl StoreResult {
    pub(super) const NAME: &str = "store";
}

#[async_trait::async_trait]
impl Stage for StoreResult {
    type In = Checksum;
    type Effect = (String, String);
    type Note = ();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn decode(&self, delivery: &Delivery) -> Result<Checksum, Invalid> {
        serde_json::from_slice(&delivery.message.body).map_err(|error| Invalid(error.to_string()))
    }

    fn subject(&self, _: &Checksum) -> Option<String> {
        None
    }

    async fn run(
        &self,
        batch: Vec<Item<Checksum>>,
        _: &Context,
    ) -> Vec<Result<Output<(String, String), ()>, StageError>> {
        let store = |item: Item<Checksum>| {
            let effect = Some((item.id.to_string(), item.value.checksum));
            Ok(Output { effect, ..Output::empty("stored") })
        };
        batch.into_iter().map(store).collect()
    }

    async fn after_publish(&self, effects: &[&(String, String)], _: &Context) -> Result<(), EffectError> {
        let write = |(id, checksum): &(String, String)| {
            fs::create_dir_all(&*self.directory)?;
            let (new, path) = (self.directory.join(format!("{id}.new")), self.directory.join(id));
            // Renamed, so that a reader never sees a part of it.
            fs::write(&new, checksum)?;
            fs::rename(new, path)
        };
        effects
            .iter()
            .try_for_each(|effect| write(effect))
            .map_err(|error| EffectError::Unavailable(error.to_string()))
    }
}
