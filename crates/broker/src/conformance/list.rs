//! The case list, in one place: from it come the suite's table and every backend's tests.

use super::{
    Harness, admin, attempts, bodies, dead, delay, delivery, faults, groups, headers, leases, limit, load,
    replay, routing, suspects,
};

/// Writes one test per conformance case, in modules by theme below a module `conformance`.
///
/// The expression makes a [`Harness`]; it is evaluated once per case and
/// may `await`.
///
/// ```text
/// crawlway_broker::conformance_suite!(EmbeddedHarness::new());
/// ```
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr) => {
        $crate::conformance_suite! { @list tests ($crate::conformance::run, $make) }
    };
    (@list $what:ident $arguments:tt) => {
        $crate::conformance::suite! { $what $arguments
            delivery {
                every_field_arrives,
                what_was_not_set_stays_unset,
                one_outcome_per_message_in_order,
                empty_batches_are_answered_empty,
                asking_for_none_returns_at_once,
                no_more_than_asked_for,
                a_message_ends_the_wait,
                an_empty_wait_elapses,
                a_receive_that_is_given_up_takes_nothing,
                the_order_of_one_publisher_is_kept,
                an_id_published_twice_is_two_messages,
                prefetch_bounds_what_is_unsettled,
                settling_frees_the_allowance,
                a_lost_lease_frees_the_allowance,
                receivers_share_without_overlap,
                what_is_done_stays_done,
                settles_are_answered_in_order,
            }
            leases {
                the_lease_is_stated,
                an_unsettled_delivery_comes_back_when_its_lease_ends,
                extending_keeps_a_delivery,
                extending_can_shorten_a_lease,
                extending_is_answered_in_order,
                late_done_is_fenced,
                late_retry_is_fenced,
                late_requeue_is_fenced,
                late_defer_is_fenced,
                late_dead_is_fenced,
                a_settle_after_the_lease_is_fenced_though_nobody_took_over,
                a_late_extend_is_fenced,
                settling_twice_is_fenced,
                a_made_up_receipt_is_fenced,
                a_receipt_of_before_a_restart_is_fenced,
                a_receipt_of_before_a_cut_is_fenced,
            }
            attempts {
                retries_are_counted,
                the_last_retry_is_dead,
                a_single_attempt_is_dead_at_its_first_failure,
                deferrals_count_nothing,
                a_deferral_keeps_attempt_and_error,
                requeues_count_nothing,
                a_requeue_keeps_attempt_and_error,
                attempts_survive_a_restart,
            }
            suspects {
                a_lost_lease_counts_no_attempt,
                a_crash_counts_no_attempt,
                retries_count_between_lost_workers,
                suspects_come_in_halving_groups,
                what_kills_its_worker_alone_ends_dead,
                a_lease_that_ends_alone_counts_nothing,
                what_is_settled_alone_counts_nothing,
                solo_crashes_outlive_a_retry_and_end_with_a_replay,
                alone_is_fenced_like_a_verdict,
            }
            delay {
                a_retry_is_not_early,
                a_retry_without_delay_comes_at_once,
                a_retry_holds_up_nobody,
                a_short_retry_is_not_stuck_behind_a_long_one,
                a_requeue_comes_at_once,
                a_deferral_is_not_early,
                a_deferral_into_the_past_is_ready_now,
                a_short_deferral_is_not_stuck_behind_a_long_one,
                not_before_is_kept,
                not_before_in_the_past_is_ready_now,
                a_waiting_receive_wakes_when_a_delay_ends,
                a_retry_gets_its_turn_in_a_queue_that_never_runs_empty,
            }
            limit {
                exactly_the_limit_is_accepted,
                a_batch_is_cut_off_at_the_limit,
                racing_publishers_do_not_overshoot,
                taking_and_settling_makes_room,
                delayed_messages_count,
                a_retry_is_taken_by_a_full_queue,
                a_requeue_is_taken_by_a_full_queue,
                a_deferral_is_taken_by_a_full_queue,
                a_lost_lease_is_taken_by_a_full_queue,
                the_limit_holds_after_a_restart,
                an_approximate_limit_stays_within_its_slack,
                a_slack_that_cannot_be_kept_is_refused,
            }
            routing {
                patterns_route,
                each_bound_queue_gets_one_copy,
                two_matching_bindings_give_one_copy,
                copies_are_settled_apart,
                exchanges_are_apart,
                an_unroutable_message_is_an_error,
                a_topic_with_wildcards_is_invalid,
                a_full_bound_queue_rejects,
                bindings_survive_a_restart,
            }
            groups {
                one_in_flight_per_group,
                order_within_a_group,
                a_group_in_flight_holds_up_no_other,
                a_retrying_group_waits_alone,
                a_deferred_group_waits_alone,
                a_group_waiting_for_its_lease_waits_alone,
                a_group_whose_head_is_held_back_waits_alone,
                a_group_goes_on_after_a_dead_head,
                a_message_without_a_group_is_invalid,
                every_group_makes_progress,
                order_within_a_group_survives_a_cut,
                a_purged_group_goes_on,
            }
            dead {
                a_dead_verdict_keeps_the_detail,
                exhausted_attempts_keep_first_and_last_error,
                long_texts_are_cut,
                listing_is_oldest_first_and_pages,
                filters_select,
                times_select,
                filters_page,
                reading_takes_nothing,
                dead_letters_are_not_delivered,
                dead_letters_survive_a_restart,
                dropping_one_leaves_the_others,
                dropping_by_filter_leaves_the_others,
                dropping_all_leaves_none,
            }
            replay {
                one_is_replayed,
                those_that_match_are_replayed,
                all_are_replayed,
                a_replayed_message_starts_over,
                replays_are_counted,
                a_replay_survives_a_restart,
                a_full_queue_stops_a_replay,
            }
            faults {
                ready_messages_survive_a_restart,
                delayed_messages_survive_a_restart,
                a_pause_survives_a_restart,
                in_flight_comes_back_after_a_restart,
                settled_does_not_come_back_after_a_restart,
                ready_messages_survive_a_cut,
                delayed_messages_survive_a_cut,
                dead_letters_survive_a_cut,
                in_flight_comes_back_after_a_cut,
                settled_does_not_come_back_after_a_cut,
                many_cuts_lose_nothing,
            }
            bodies {
                an_empty_body_arrives,
                binary_bodies_arrive,
                a_large_body_arrives,
                bodies_survive_retries_and_restarts,
                a_body_too_large_is_refused,
            }
            headers {
                an_empty_value_arrives,
                any_text_arrives,
                long_names_arrive,
                many_headers_arrive,
                names_keep_their_case,
                an_empty_key_is_not_no_key,
                reserved_names_are_refused,
                bad_names_are_refused,
                bad_ids_are_refused,
                bad_keys_and_groups_are_refused,
            }
            admin {
                the_core_of_the_contract_is_held,
                declaring_again_changes_nothing,
                another_spec_is_not_quietly_ignored,
                invalid_specs_are_refused,
                queues_are_listed_by_name,
                names_are_kept_apart,
                unknown_queues_are_named,
                a_pause_stops_deliveries_only,
                a_pause_keeps_what_comes_back,
                purging_takes_what_waits,
                depth_shows_each_state,
                the_oldest_age_grows,
                rates_follow_the_traffic,
                closing_is_final,
                closing_ends_a_waiting_receive,
            }
            load {
                many_queues_work_side_by_side,
                a_slow_consumer_blocks_nobody,
                nothing_is_lost_or_repeated,
                nothing_is_lost_or_repeated_across_a_cut,
                nothing_is_lost_or_repeated_across_a_restart,
                groups_stay_in_order_under_load,
            }
        }
    };
}

conformance_suite! { @list table () }
