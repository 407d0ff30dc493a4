//! Proof of the conformance suite: each injected fault fails the cases about it, and `LengthLimited` and `BrokerRouter` pass all cases.

mod faulty;
mod length_limited;
mod router;
#[path = "../support/mod.rs"]
mod support;

use faulty::{Fault, Faulty};
use std::{sync::Arc, time::Duration};
use support::EmbeddedHarness;

/// Defines a test per fault that expects each of these cases to fail.
macro_rules! detects {
    ($($test:ident, $fault:ident: $($module:ident::$case:ident),+;)*) => {
        $(#[test]
        fn $test() {
            $(assert_detected(Fault::$fault, stringify!($module), stringify!($case));)+
        })*
    };
}

fn assert_detected(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on a broker with {fault:?}"), || {
        crawlway_broker_conformance::run(module, case, async || {
            EmbeddedHarness::new(Duration::from_secs(1), move |inner| {
                Arc::new(Faulty { inner: Arc::new(inner), fault })
            })
        });
    });
}

detects! {
    a_header_is_lost, LosesAHeader: content::every_field_arrives, content::every_header_arrives;
    a_message_in_ten_is_lost, LosesOneInTen: load::nothing_is_lost_or_repeated;
    the_ordering_is_ignored, IgnoresOrdering:
        groups::a_fifo_queue_delivers_one_at_a_time_in_order, groups::a_head_that_waits_holds_up_its_group_alone;
    prefetch_is_ignored, IgnoresPrefetch: delivery::prefetch_bounds_what_is_unsettled;
    fenced_verdicts_are_accepted, AcceptsFencedVerdicts:
        leases::late_verdicts_extends_and_solo_marks_are_fenced,
        leases::settling_twice_is_fenced,
        leases::a_made_up_receipt_is_fenced,
        leases::a_receipt_from_before_an_outage_is_fenced;
    a_settled_message_comes_back_after_an_outage, ForgetsSettlesInAnOutage:
        durability::what_is_in_flight_comes_back_after_an_outage_and_what_is_settled_does_not;
    a_retry_counts_nothing, RetryCountsNothing:
        attempts::retries_are_counted_and_the_last_one_makes_a_dead_letter;
    a_lost_worker_counts_an_attempt, LostWorkerCounts:
        attempts::a_lost_lease_counts_no_attempt,
        attempts::a_crash_counts_no_attempt,
        durability::what_is_in_flight_comes_back_after_an_outage_and_what_is_settled_does_not;
    a_retry_is_early, RetryIsEarly:
        delay::a_retry_and_a_deferral_wait_for_their_time, groups::a_head_that_waits_holds_up_its_group_alone;
    not_before_is_ignored, IgnoresNotBefore:
        delay::not_before_is_kept, groups::a_head_that_waits_holds_up_its_group_alone;
    the_limit_is_one_too_high, LimitIsOneTooHigh:
        limit::exactly_the_limit_is_accepted, limit::the_limit_holds_after_an_outage;
    the_first_error_is_lost, LosesTheFirstError:
        dead::a_dead_letter_keeps_the_detail, attempts::retries_count_between_lost_workers;
    a_replay_keeps_attempts, ReplayKeepsAttempts: dead::a_replayed_message_starts_over;
    a_pause_does_nothing, PauseDoesNothing:
        admin::a_pause_stops_deliveries_only, durability::a_pause_survives_an_outage;
    the_depth_is_constant, DepthIsConstant:
        admin::depth_shows_each_state_and_the_oldest_age, delay::a_retry_and_a_deferral_wait_for_their_time;
}
