//! A scope that was widened takes in what was left out: the links of known pages are looked at again under the new terms.

use super::{
    Definition,
    crawl::{follow_kept, out_of_scope},
    scope::Scope,
};
use crawlway_clock::Timestamp;
use crawlway_store::{
    CrawlId, Frontier, StoreError,
    frontier::{Added, NewTerms, Reopen},
};

/// How many pages are looked at together.
const TOGETHER: usize = 200;

/// Adds the links of all known pages that are in the scope now, and makes what was left out for being out of it wait
/// again. Pages whose links were not kept wait to be fetched again. Says how many URLs were new or wait again.
pub(super) async fn rescan(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    definition: &Definition,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let scope = Scope::new(definition);
    let mut taken_in = frontier.reopen(crawl, &Reopen::Outcome(out_of_scope().to_owned())).await?;
    let mut after = 0;
    loop {
        let pages = frontier.pages(crawl, after, TOGETHER).await?;
        let Some(last) = pages.last() else { break };
        after = last.place;
        let links: Vec<_> = pages.iter().flat_map(|page| follow_kept(page, &scope, now)).collect();
        let answers = frontier.add(crawl, &links).await?;
        taken_in += answers.iter().filter(|answer| **answer == Added::New).count() as u64;
    }
    taken_in += frontier.reopen(crawl, &Reopen::WithoutLinks).await?;
    Ok(taken_in)
}

/// Changes the stored terms of a crawl by this, whatever else is changing them meanwhile. Says what they are then; `None`
/// if there is no such crawl, or its terms cannot be read.
pub(super) async fn change_terms(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    change: impl Fn(&mut Definition),
) -> Result<Option<Definition>, StoreError> {
    loop {
        let Some(stored) = frontier.crawl(crawl).await? else { return Ok(None) };
        let Ok(mut definition) = serde_json::from_str::<Definition>(&stored.definition) else {
            return Ok(None);
        };
        let before = definition.clone();
        change(&mut definition);
        if definition == before {
            return Ok(Some(definition));
        }
        let terms = NewTerms {
            replaces: stored.revision,
            definition: definition.to_json(),
            max_pages: definition.max_pages,
        };
        if frontier.set_terms(crawl, &terms).await?.is_some() {
            return Ok(Some(definition));
        }
    }
}
