//! What became of the seeds of a crawl: whether anything came of it at all.

use super::{Definition, crawl::has_no_page};
use crawlway_store::{
    Frontier, StoreError, Trails,
    frontier::{Crawl, EntryState},
};

/// The most failed seeds that are told.
const MOST: usize = 20;

/// A seed that could not be crawled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedSeed {
    /// The seed.
    pub url: String,
    /// What became of it, in a word: `dead`, or an outcome.
    pub outcome: String,
    /// Why.
    pub reason: String,
}

/// The seeds of a crawl in which no seed succeeded, up to 20 of them; none if one did, or if one is still to be tried.
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
        let told = entry.outcome.unwrap_or_default();
        let (outcome, reason) = match entry.state {
            EntryState::Dead => ("dead".to_owned(), told),
            EntryState::Done if has_no_page(&told) => {
                let steps = trails.of_item(&entry.item).await?;
                let why = steps
                    .into_iter()
                    .rev()
                    .find(|step| step.outcome == told)
                    .and_then(|step| step.error.or(step.note));
                (told, why.unwrap_or_default())
            }
            EntryState::Done | EntryState::Waiting | EntryState::InFlight => return Ok(Vec::new()),
        };
        if failed.len() < MOST {
            failed.push(FailedSeed { url: seed, outcome, reason });
        }
    }
    Ok(failed)
}
