//! The suite of the seen URLs.

mod batches;
mod claims;
mod load;
mod marks;
mod shared;
mod trial;

use crawlway_store::SeenUrls;

pub(crate) type Trial<'h> = crate::trial::Trial<'h, dyn SeenUrls>;

suite! { ($) seen for dyn SeenUrls:
    claims {
        an_unknown_url_is_ours,
        another_owner_is_told_who_has_it_and_until_when,
        a_claim_ends_with_its_term,
        claiming_again_renews_the_term,
        claiming_again_may_shorten_the_term,
        a_lost_claim_is_fenced_by_the_next_owner,
        a_refused_claim_renews_nothing,
        releasing_frees_a_url,
        releasing_what_another_has_changes_nothing,
        releasing_what_is_seen_changes_nothing,
        releasing_what_is_unknown_changes_nothing,
    }
    marks {
        a_marked_url_is_seen_by_all,
        even_its_own_owner_is_told,
        an_unclaimed_url_can_be_marked,
        marking_ends_the_claim_of_another,
        a_note_ends_with_its_ttl,
        a_claim_may_pass_over_marks_of_an_age,
        the_later_note_counts,
        marking_twice_changes_nothing_else,
        a_ttl_of_nothing_is_over_at_once,
        a_ttl_without_end_is_allowed,
        known_is_what_is_seen_or_claimed,
        forgetting_makes_a_url_unknown,
        forgetting_counts_what_was_known,
        sweeping_takes_only_what_is_over,
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
