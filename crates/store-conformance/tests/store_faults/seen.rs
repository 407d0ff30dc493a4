//! Faults of the seen URLs.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{SeenUrls, seen::*};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    TermIsTwiceAsLong,
    ClaimHasTwoOwners,
    AnyoneMayRelease,
    NotesEndAtOnce,
    FoldsCase,
    SweepsWithoutLimit,
    AgeIsIgnored,
}
use Fault::*;

faulty! { SeenUrls {
        contains(urls: &[String]) -> Answer<Vec<bool>>;
        forget(urls: &[String]) -> Answer<u64>;
    }

    async fn claim(&self, claims: &[Claim], term: Duration) -> Answer<Vec<ClaimOutcome>> {
        let mut claims = claims.to_vec();
        for claim in &mut claims {
            match self.fault {
                ClaimHasTwoOwners => claim.owner = "one".to_owned(),
                FoldsCase => claim.url = claim.url.to_lowercase(),
                AgeIsIgnored => claim.max_age = Duration::MAX,
                _ => {}
            }
        }
        self.store.claim(&claims, term * (1 + u32::from(self.fault == TermIsTwiceAsLong))).await
    }

    async fn mark(&self, seen: &[SeenUrl]) -> Answer<()> {
        let mut seen = seen.to_vec();
        if self.fault == NotesEndAtOnce {
            seen.iter_mut().for_each(|seen| seen.ttl = Duration::ZERO);
        }
        self.store.mark(&seen).await
    }

    async fn release(&self, claims: &[Claim]) -> Answer<()> {
        if self.fault == AnyoneMayRelease {
            let urls: Vec<String> = claims.iter().map(|claim| claim.url.clone()).collect();
            return self.store.forget(&urls).await.map(drop);
        }
        self.store.release(claims).await
    }

    async fn purge_expired(&self, most: usize) -> Answer<u64> {
        self.store.purge_expired(if self.fault == SweepsWithoutLimit { 1000 } else { most }).await
    }
}

finds! { seen on dyn SeenUrls, Sqlite::new();
    TermIsTwiceAsLong: claims::a_claim_is_one_owners_for_its_term, load::any_schedule_agrees_with_the_model;
    ClaimHasTwoOwners: load::racing_claims_have_one_winner;
    AnyoneMayRelease: claims::a_claim_is_released_by_its_owner_alone;
    NotesEndAtOnce: claims::a_marked_url_is_seen_for_its_time;
    FoldsCase: batches::odd_urls_are_kept_apart;
    SweepsWithoutLimit: marks::sweeping_takes_no_more_than_asked;
    AgeIsIgnored: marks::a_claim_may_pass_over_marks_of_an_age;
}
