//! The suite of the seen URLs can fail: every case finds a deliberate breach of the contract, and every breach is
//! found.

mod seen_oracle;

use crawlway_store::conformance::seen::{CASES, run};
use seen_oracle::{Fault, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on a store with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(fault));
    });
}

crawlway_conformance::finds! {
    claims {
        an_unknown_url_is_ours: BlocksEverything;
        another_owner_is_told_who_has_it_and_until_when: GivesToAnyone, NamesTheAsker, ClaimsEndEarly;
        a_claim_ends_with_its_term: ClaimsNeverEnd, OwnerCountsAfterTheEnd;
        claiming_again_renews_the_term: NeverRenews;
        claiming_again_may_shorten_the_term: NeverShortens;
        a_lost_claim_is_fenced_by_the_next_owner: AnyoneReleases;
        a_refused_claim_renews_nothing: RefusedClaimsRenew;
        releasing_frees_a_url: ReleaseDoesNothing;
        releasing_what_another_has_changes_nothing: AnyoneReleases;
        releasing_what_is_seen_changes_nothing: ReleaseForgetsSeen;
        releasing_what_is_unknown_changes_nothing: ReleaseNeedsAClaim;
    }
    marks {
        a_marked_url_is_seen_by_all: MarkKeepsNothing, NamesTheAsker;
        even_its_own_owner_is_told: OwnSeenIsOurs;
        an_unclaimed_url_can_be_marked: MarksOnlyClaims;
        marking_ends_the_claim_of_another: MarkNeedsTheOwner, MarkKeepsClaims;
        a_note_ends_with_its_ttl: NotesNeverEnd;
        a_claim_may_pass_over_marks_of_an_age: EveryMarkCounts;
        the_later_note_counts: FirstNoteCounts, LongestNoteCounts;
        marking_twice_changes_nothing_else: SecondMarkForgets;
        a_ttl_of_nothing_is_over_at_once: ZeroIsForEver;
        a_ttl_without_end_is_allowed: RefusesLongTtls;
        known_is_what_is_seen_or_claimed: KnowsSeenOnly, KnowsWhatIsOver;
        forgetting_makes_a_url_unknown: ForgetsSeenOnly;
        forgetting_counts_what_was_known: ForgetCountsAll, ForgetsSeenOnly;
        sweeping_takes_only_what_is_over: SweepsEverything;
        sweeping_takes_no_more_than_asked: SweepsTooMany;
    }
    batches {
        empty_batches_are_answered_empty: RefusesEmpty;
        answers_are_in_order: SortsAnswers;
        a_url_twice_in_a_batch_counts_one_after_the_other: LastOfABatchWins;
        odd_urls_are_kept_apart: FoldsCase, CutsLongUrls;
        odd_owners_are_kept: TrimsOwners;
        a_large_batch_is_answered_in_order: ForgetsTheEndOfABatch;
    }
    shared {
        handles_share_their_state: HandlesApart;
        everything_survives_a_reopening: LosesEverything;
    }
    load {
        racing_claims_have_one_winner: RacesItself, HandlesApart;
        batches_in_opposite_order_do_not_block_each_other: BlocksOpposites;
        any_schedule_agrees_with_the_model: ClaimsNeverEnd, NeverRenews, SweepsEverything, AnyoneReleases;
    }
}
