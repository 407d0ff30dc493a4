//! Failed seeds of a crawl.

use super::{Definition, crawl::has_no_page};
use crawlway_store::{
    Frontier, StoreError, Trails,
    frontier::{Crawl, EntryState},
};

/// Maximum number of failed seeds in a report.
const MAX_FAILED: usize = 20;

/// Seed that could not be crawled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedSeed {
    /// URL of the seed.
    pub url: String,
    /// `dead`, or the outcome.
    pub outcome: String,
    /// Reason.
    pub reason: String,
}

/// Failed seeds of a crawl in which all seeds failed, up to 20. Empty if a seed succeeded or is still pending.
pub async fn failed_seeds(
    frontier: &dyn Frontier,
    trails: &dyn Trails,
    crawl: &Crawl,
) -> Result<Vec<FailedSeed>, StoreError> {
    let mut failed = Vec::new();
    let Ok(definition) = serde_json::from_str::<Definition>(&crawl.definition) else { return Ok(failed) };
    for seed in definition.seeds {
        let entries = frontier.find(&seed).await?;
        let Some(entry) = entries.into_iter().find(|entry| entry.crawl == crawl.id) else { continue };
        let outcome = entry.outcome.unwrap_or_default();
        let (outcome, reason) = match entry.state {
            EntryState::Dead => ("dead".to_owned(), outcome),
            EntryState::Done if has_no_page(&outcome) => {
                let steps = trails.of_item(&entry.item).await?;
                let last = steps.into_iter().rev().find(|step| step.outcome == outcome);
                let reason = last.and_then(|step| step.error.or(step.note));
                (outcome, reason.unwrap_or_default())
            }
            EntryState::Done | EntryState::Waiting | EntryState::InFlight => return Ok(Vec::new()),
        };
        if failed.len() < MAX_FAILED {
            failed.push(FailedSeed { url: seed, outcome, reason });
        }
    }
    Ok(failed)
}
