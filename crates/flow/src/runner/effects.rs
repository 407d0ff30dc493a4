//! Step 5, effects: applied after the publish.

use super::{
    engine::{Engine, Processed, handed_back},
    panics::panic_message,
};
use crate::{EffectError, Stage, StageError};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;

impl<S: Stage> Engine<S> {
    /// Applies the effects of these items. One that can never be applied makes its own item a dead letter, and no other.
    pub(super) async fn apply_effects(&self, items: &mut [Processed<S>]) {
        let has_effect =
            |item: &Processed<S>| item.result.as_ref().is_ok_and(|output| output.effect.is_some());
        let all: Vec<usize> = (0..items.len()).filter(|index| has_effect(&items[*index])).collect();
        let Err(error) = self.apply(items, &all).await else { return };
        match all[..] {
            [only] => items[only].result = Err(error),
            // Effects are idempotent, so the failing one is found by applying them one by one.
            _ => {
                for index in all {
                    if let Err(error) = self.apply(items, &[index]).await {
                        items[index].result = Err(error);
                    }
                }
            }
        }
    }

    /// Applies the effects of the items at these indices with one call, retried while infrastructure is unavailable.
    async fn apply(&self, items: &[Processed<S>], indices: &[usize]) -> Result<(), StageError> {
        let effects: Vec<&S::Effect> = indices
            .iter()
            .filter_map(|index| items[*index].result.as_ref().ok().and_then(|output| output.effect.as_ref()))
            .collect();
        if effects.is_empty() {
            return Ok(());
        }
        let mut failures = 0;
        loop {
            let applying = AssertUnwindSafe(self.stage.after_publish(&effects, &self.context));
            match applying.catch_unwind().await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(EffectError::Permanent(reason))) => return Err(StageError::Permanent { reason }),
                Ok(Err(EffectError::Unavailable(error))) => {
                    if !self.back_off(&mut failures, "the stores of the effects", &error).await {
                        return Err(handed_back(self.services.clock.now()));
                    }
                }
                Err(panic) => {
                    let error = format!("the stage panicked after publishing: {}", panic_message(&*panic));
                    tracing::error!(stage = self.stage.name(), error, "the stage panicked");
                    return Err(StageError::Transient { after: None, error });
                }
            }
        }
    }
}
