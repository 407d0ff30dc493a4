//! Suite of the frontier. The clock is manual, so that every time is exact. Most cases are scripts, see `script.rs`.

mod adding;
mod again;
mod batches;
mod crawls;
mod dead;
mod fixture;
mod leases;
mod limit;
mod load;
mod model;
mod schedule;
mod script;
mod settling;
mod shared;
mod suspects;
mod taking;

pub(crate) use fixture::POLICY;

use crawlway_store::Frontier;

pub(crate) type Fresh<'h> = crate::fixture::Fresh<'h, dyn Frontier>;
pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn Frontier>;

suite! { ($) frontier for dyn Frontier:
    crawls {
        a_new_crawl_runs_and_is_empty,
        opening_again_changes_nothing,
        an_unknown_crawl_is_none,
        crawls_are_listed_newest_first_and_page,
        a_paused_crawl_hands_out_nothing,
        a_cancelled_crawl_stays_so_until_it_is_set_running,
        urls_in_flight_are_settled_in_a_paused_or_cancelled_crawl,
        a_crawl_is_finished_when_nothing_waits_or_flies,
        a_link_added_before_its_parent_is_settled_keeps_it_running,
        a_finished_crawl_stays_finished,
        a_crawl_is_not_finished_by_hand,
        a_new_url_sets_a_finished_crawl_running,
        two_crawls_are_kept_apart,
        terms_are_changed_only_from_their_current_revision,
        a_crawl_gets_another_name_if_it_is_free,
        a_deleted_crawl_leaves_nothing_behind,
        the_urls_of_a_crawl_are_listed_by_outcome,
    }
    adding {
        a_new_url_is_handed_out_as_it_was_added,
        a_known_url_stays_as_it_is,
        a_done_or_dead_url_is_known,
        a_url_twice_in_a_batch_is_known_the_second_time,
        a_budget_lets_in_so_many,
        a_known_url_charges_no_budget,
        a_url_over_budget_is_not_known,
        urls_left_out_are_counted_by_reason,
        an_unknown_crawl_is_refused,
        no_more_wait_than_a_crawl_may_have,
        no_more_of_one_host_wait_than_it_may_have,
        waiting_urls_are_counted_through_every_step,
        a_small_page_limit_keeps_few_waiting,
    }
    taking {
        no_more_than_asked_for,
        no_url_is_handed_out_twice,
        the_host_that_has_waited_longest_comes_first,
        a_host_that_was_served_queues_up_again,
        urls_of_a_host_come_in_the_order_they_became_due,
        no_more_of_a_host_than_allowed_in_flight,
        a_host_is_counted_per_crawl,
        a_slow_host_starves_no_other_host,
        a_resting_host_is_left_alone,
        a_longer_rest_is_not_cut_short,
        the_next_due_time_is_told,
    }
    limit {
        no_more_than_may_be_fetched_are_in_flight,
        a_url_that_was_not_fetched_uses_up_no_limit,
        a_url_that_comes_back_makes_room_in_the_limit,
        a_crawl_that_has_fetched_all_it_may_is_limited,
        a_limit_of_nothing_fetches_nothing,
        a_used_up_limit_keeps_a_crawl_limited,
        a_raised_limit_goes_on_with_waiting_urls,
    }
    settling {
        done_is_done,
        a_retry_waits_and_counts,
        a_deferral_counts_nothing,
        a_deferral_holds_its_host_back,
        a_deferred_url_comes_first_of_its_host,
        a_url_that_waits_by_itself_delays_no_other,
        the_last_attempt_is_dead_with_its_errors,
        a_dead_verdict_is_final,
        settling_twice_has_no_effect,
        a_made_up_receipt_has_no_effect,
        counts_follow_every_step,
        outcomes_are_counted,
    }
    leases {
        a_lease_is_stated_and_kept_and_extended,
        a_lost_lease_comes_back_and_fences_its_worker,
        settling_after_the_lease_counts_until_it_is_taken_over,
        extending_a_lost_lease_is_refused,
        taking_back_returns_all_at_once,
    }
    suspects {
        a_lost_worker_counts_no_attempt,
        retries_count_between_lost_workers,
        suspects_come_in_halving_groups,
        a_url_that_kills_its_worker_alone_ends_dead,
        a_url_settled_alone_counts_no_crash,
        a_lost_worker_ends_being_alone,
        solo_crashes_outlive_a_retry_and_end_with_a_replay,
        a_url_that_starts_over_is_no_suspect,
        suspicion_survives_a_reopening,
        alone_is_fenced_after_a_lost_lease,
    }
    again {
        insisting_counts_once_and_sets_a_finished_crawl_running,
        nothing_is_reopened_before_it_is_due_again,
        a_url_that_is_due_again_waits_again,
        a_reopened_url_starts_over,
        reopening_resumes_a_cancelled_crawl,
        urls_are_reopened_by_name_or_outcome,
        urls_reopened_to_be_sent_whole_have_no_validators,
        links_are_kept_with_their_page,
        validators_are_kept_and_handed_out,
        a_page_fetched_again_counts_once,
        insisting_makes_a_url_wait_again,
        urls_left_out_for_a_canonical_one_are_found_by_it,
        insisting_takes_a_url_from_its_worker,
        a_url_is_found_in_every_crawl,
    }
    dead {
        the_dead_are_listed_oldest_first_and_page,
        paging_goes_on_after_an_entry_that_is_gone,
        the_dead_of_one_crawl_are_listed,
        a_replayed_url_starts_over,
        replays_are_counted,
        a_replay_sets_a_finished_crawl_running,
        only_the_dead_are_replayed,
        a_dropped_url_is_known_as_done,
    }
    batches {
        empty_batches_are_answered_empty,
        answers_are_in_order,
        odd_urls_are_kept_apart,
        odd_texts_come_back,
        a_nul_does_not_fail_the_call,
        a_large_batch_is_taken,
    }
    shared {
        handles_share_their_state,
        everything_survives_a_reopening,
        leases_survive_a_reopening,
    }
    load {
        racing_workers_share_without_overlap,
        a_crawl_by_many_ends_with_everything_done_once,
    }
    schedule {
        any_schedule_agrees_with_the_model,
    }
}
