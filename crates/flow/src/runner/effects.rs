//! Applying what must come after the publish.

use super::{
    engine::{Engine, Worked, out_of_time},
    outage::Backoff,
    panics::said,
};
use crate::{EffectError, Stage, StageError};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;

impl<S: Stage> Engine<S> {
    /// Applies effects, and again until they are. What can never be applied makes its item, and no other, a dead letter.
    pub(super) async fn apply(&self, items: &mut [Worked<S>]) {
        let has = |item: &Worked<S>| item.result.as_ref().is_ok_and(|output| output.effect.is_some());
        let all: Vec<usize> = (0..items.len()).filter(|place| has(&items[*place])).collect();
        let Err(first) = self.apply_these(items, &all).await else { return };
        match all[..] {
            [only] => items[only].result = Err(first),
            // One of them is at fault. They may be repeated, so find it one by one.
            _ => {
                for place in all {
                    if let Err(error) = self.apply_these(items, &[place]).await {
                        items[place].result = Err(error);
                    }
                }
            }
        }
    }

    async fn apply_these(&self, items: &[Worked<S>], places: &[usize]) -> Result<(), StageError> {
        let effects: Vec<&S::Effect> = places
            .iter()
            .filter_map(|place| items[*place].result.as_ref().ok().and_then(|output| output.effect.as_ref()))
            .collect();
        if effects.is_empty() {
            return Ok(());
        }
        let mut backoff = Backoff::default();
        loop {
            let applying = AssertUnwindSafe(self.stage.after_publish(&effects, &self.context));
            match applying.catch_unwind().await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(EffectError::Never(reason))) => return Err(StageError::Permanent { reason }),
                Ok(Err(EffectError::Ours(error))) => {
                    if !self.wait_out(&mut backoff, "the effects' stores", &error).await {
                        return Err(out_of_time(self.parts.clock.now()));
                    }
                }
                Err(panic) => {
                    let error = format!("the stage panicked after publishing: {}", said(&*panic));
                    tracing::error!(stage = self.stage.name(), error, "a stage panicked");
                    return Err(StageError::Transient { after: None, error });
                }
            }
        }
    }
}
