//! Suite of the seen-URL store.

mod batches;
mod claims;
mod fixture;
mod load;
mod marks;
mod shared;

use crawlway_store::SeenUrls;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn SeenUrls>;

suite! { ($) seen for dyn SeenUrls:
    claims {
        a_claim_is_one_owners_for_its_term,
        a_claim_is_released_by_its_owner_alone,
        a_marked_url_is_seen_for_its_time,
    }
    marks {
        a_claim_may_pass_over_marks_of_an_age,
        marking_twice_changes_nothing_else,
        a_ttl_without_end_is_allowed,
        a_url_is_known_while_seen_or_claimed,
        forgetting_makes_a_url_unknown,
        forgetting_counts_known_urls,
        sweeping_takes_only_expired_records,
        sweeping_takes_no_more_than_asked,
    }
    batches {
        empty_batches_are_answered_empty,
        answers_are_in_order,
        a_url_twice_in_a_batch_counts_one_after_the_other,
        odd_urls_are_kept_apart,
        odd_owners_are_kept,
        a_large_batch_is_answered_in_order,
    }
    shared {
        handles_share_their_state,
        everything_survives_a_reopening,
    }
    load {
        racing_claims_have_one_winner,
        batches_in_opposite_order_do_not_block_each_other,
        any_schedule_agrees_with_the_model,
    }
}
