//! List of all test cases, from which the table of cases and every backend's tests are generated.

use crate::{
    Harness, admin, attempts, content, dead, delay, delivery, durability, groups, leases, limit, load,
    routing,
};

/// Generates one test per case, in modules by theme below a module `conformance`.
///
/// The expression creates a [`Harness`]; it is evaluated once per case and may `await`.
///
/// ```text
/// crawlway_broker_conformance::conformance_suite!(EmbeddedHarness::new());
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_suite! { @list tests ($crate::run, $make) }
    };
    (@list $what:ident $arguments:tt) => {
        $crate::suite! { $what $arguments
            delivery {
                publishes_are_answered_in_order_and_ids_are_not_keys, no_more_than_asked_for,
                a_receive_waits_for_a_message_and_no_longer, a_receive_that_is_cancelled_takes_nothing,
                prefetch_bounds_what_is_unsettled,
                a_settled_delivery_or_a_lost_lease_frees_its_place, receivers_share_without_overlap,
                settles_are_answered_in_order,
            }
            leases {
                a_lease_is_stated_and_its_end_brings_the_message_back, extending_keeps_a_delivery,
                extending_can_shorten_a_lease, late_verdicts_extends_and_solo_marks_are_fenced,
                settling_twice_is_fenced, a_made_up_receipt_is_fenced,
                a_receipt_from_before_an_outage_is_fenced,
            }
            attempts {
                retries_are_counted_and_the_last_one_makes_a_dead_letter,
                a_deferral_and_a_requeue_count_no_attempt, a_lost_lease_counts_no_attempt,
                a_crash_counts_no_attempt, retries_count_between_lost_workers,
                suspects_come_in_halving_groups, a_lease_that_ends_or_a_verdict_takes_the_solo_mark_away,
                what_crashes_its_worker_alone_ends_dead_until_it_is_replayed,
            }
            delay {
                a_retry_and_a_deferral_wait_for_their_time, what_is_not_delayed_comes_at_once,
                a_long_delay_holds_up_no_other_message, not_before_is_kept,
                a_waiting_receive_returns_when_a_delay_ends,
                a_retry_gets_its_turn_in_a_queue_that_never_runs_empty,
            }
            limit {
                exactly_the_limit_is_accepted, what_waits_counts_and_what_is_in_flight_does_not,
                what_comes_back_is_taken_by_a_full_queue, the_limit_holds_after_an_outage,
                an_approximate_limit_stays_within_its_slack,
            }
            routing {
                patterns_route, each_bound_queue_gets_a_copy_of_its_own, an_unroutable_message_is_an_error,
                a_topic_with_wildcards_is_invalid, a_full_bound_queue_rejects, bindings_survive_an_outage,
            }
            groups {
                a_head_that_waits_holds_up_its_group_alone, a_group_goes_on_after_a_dead_head,
                a_message_without_a_group_is_invalid, order_within_a_group_survives_a_crash,
                a_purged_group_goes_on, a_fifo_queue_delivers_one_at_a_time_in_order,
            }
            dead {
                a_dead_letter_keeps_the_detail, long_texts_are_cut, listing_is_oldest_first_and_pages,
                filters_select, dead_letters_stay_dead_and_survive_an_outage,
                dropping_takes_what_matches_and_nothing_else, what_matches_is_replayed_and_nothing_else,
                a_replayed_message_starts_over, a_full_queue_stops_a_replay,
            }
            durability {
                ready_messages_survive_an_outage, delayed_messages_survive_an_outage,
                a_pause_survives_an_outage,
                what_is_in_flight_comes_back_after_an_outage_and_what_is_settled_does_not,
                a_retry_and_a_replay_survive_an_outage_with_their_body, many_outages_lose_nothing,
            }
            content {
                every_field_arrives, every_body_arrives, a_body_too_large_is_refused, every_header_arrives,
                what_no_broker_can_carry_is_refused,
            }
            admin {
                the_core_of_the_contract_is_held, another_spec_is_not_quietly_ignored,
                invalid_specs_are_refused, declaring_again_changes_nothing_and_queues_are_listed_by_name,
                two_hundred_queues_are_kept_apart, unknown_queues_are_named, a_pause_stops_deliveries_only,
                purging_takes_what_waits, depth_shows_each_state_and_the_oldest_age, rates_follow_the_traffic,
                closing_is_final,
            }
            load {
                nothing_is_lost_or_repeated, nothing_is_lost_or_repeated_across_a_crash,
                nothing_is_lost_or_repeated_across_a_restart,
                every_group_gets_its_turn_and_stays_in_order_under_load,
            }
        }
    };
}

conformance_suite! { @list table () }
