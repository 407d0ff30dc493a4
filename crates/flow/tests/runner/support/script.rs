//! Scripted stage. Items and effects are texts.

use super::queue;
use crawlway_broker::{Delivery, Outgoing};
use crawlway_flow::{Context, EffectError, Invalid, Item, Output, Stage, StageError};
use futures::future::{BoxFuture, join_all};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

pub(crate) type Done = Result<Output<String, ()>, StageError>;
type Run = dyn Fn(Vec<Item<String>>) -> BoxFuture<'static, Vec<Done>> + Send + Sync;
type Apply = dyn Fn(Vec<String>) -> BoxFuture<'static, Result<(), EffectError>> + Send + Sync;

pub(crate) struct Script {
    name: &'static str,
    run: Box<Run>,
    apply: Box<Apply>,
}

impl Script {
    /// Stage that runs this on each batch.
    pub(crate) fn batch<F>(
        name: &'static str,
        run: impl Fn(Vec<Item<String>>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<Done>> + Send + 'static,
    {
        let apply = |_| -> BoxFuture<'static, _> { Box::pin(async { Ok(()) }) };
        Self { name, run: Box::new(move |batch| Box::pin(run(batch))), apply: Box::new(apply) }
    }

    /// Stage that runs this on each item.
    pub(crate) fn each<F>(name: &'static str, run: impl Fn(Item<String>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Done> + Send + 'static,
    {
        let run = Arc::new(run);
        Self::batch(name, move |batch| {
            let run = run.clone();
            async move { join_all(batch.into_iter().map(|item| run(item))).await }
        })
    }

    /// Stage whose runs of this item, or of all, wait for a permit.
    pub(crate) fn blocked(permits: &Arc<Semaphore>, item: Option<&'static str>) -> Self {
        let permits = permits.clone();
        Self::each("stage", move |blocked| {
            let permits = permits.clone();
            async move {
                if item.is_none_or(|item| blocked.value == item) {
                    permits.acquire().await.unwrap().forget();
                }
                done()
            }
        })
    }

    /// Sets the function that applies effects.
    pub(crate) fn applying<F>(mut self, apply: impl Fn(Vec<String>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), EffectError>> + Send + 'static,
    {
        self.apply = Box::new(move |effects| Box::pin(apply(effects)));
        self
    }
}

#[async_trait::async_trait]
impl Stage for Script {
    type In = String;
    type Effect = String;
    type Note = ();

    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, delivery: &Delivery) -> Result<String, Invalid> {
        let text = String::from_utf8_lossy(&delivery.message.body).into_owned();
        assert!(!text.starts_with("unspeakable"), "cannot say {text}");
        if text.starts_with("invalid") {
            return Err(Invalid(format!("cannot read {text}")));
        }
        Ok(text)
    }

    fn subject(&self, input: &String) -> Option<String> {
        Some(format!("about {input}"))
    }

    async fn run(&self, batch: Vec<Item<String>>, _context: &Context) -> Vec<Done> {
        (self.run)(batch).await
    }

    async fn after_publish(&self, effects: &[&String], _context: &Context) -> Result<(), EffectError> {
        (self.apply)(effects.iter().map(ToString::to_string).collect()).await
    }
}

pub(crate) fn done() -> Done {
    Ok(Output::empty("looked_at"))
}

/// Passes the item on to this queue, with its text as the effect.
pub(crate) fn passed_on(item: &Item<String>, to: &str) -> Done {
    let outgoing = Outgoing::to_queue(&queue(to), item.value.clone()).id(item.id.clone());
    Ok(Output {
        publish: vec![outgoing],
        effect: Some(item.value.clone()),
        note: (),
        outcome: "sent_on",
        detail: None,
    })
}

pub(crate) fn transient(error: &str) -> Done {
    Err(StageError::Transient { after: Some(Duration::ZERO), error: error.to_owned() })
}

pub(crate) fn permanent(reason: &str) -> Done {
    Err(StageError::Permanent { reason: reason.to_owned() })
}

pub(crate) fn unavailable(error: &str) -> Done {
    Err(StageError::Unavailable { error: error.to_owned() })
}
