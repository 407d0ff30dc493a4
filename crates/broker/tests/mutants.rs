//! The suite can fail: for every deliberate breach of the contract there is a case that finds it.

mod oracle;

use oracle::{Fault, OracleHarness};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    let run = || crawlway_broker::conformance::run(module, case, async || OracleHarness::with(fault));
    let Err(panic) = catch_unwind(AssertUnwindSafe(run)) else {
        panic!("{module}::{case} passes on a broker that has the fault {fault:?}");
    };
    let text = panic.downcast_ref::<String>().cloned();
    let text =
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
    assert!(!text.contains("hangs"), "{module}::{case} hangs on {fault:?} instead of failing");
    assert!(!text.contains("has no case"), "{text}");
}

macro_rules! mutants {
    ($($fault:ident => $module:ident::$case:ident,)*) => {
        const FOUND: &[Fault] = &[$(Fault::$fault),*];

        #[allow(non_snake_case, reason = "named after the faults")]
        mod found {
            use super::*;
            $(#[test]
            fn $fault() {
                is_found(Fault::$fault, stringify!($module), stringify!($case));
            })*
        }
    };
}

mutants! {
    LosesReadyOnRestart => faults::ready_messages_survive_a_restart,
    LosesDelayedOnRestart => faults::delayed_messages_survive_a_restart,
    LosesDeadOnRestart => dead::dead_letters_survive_a_restart,
    LosesInFlightOnCut => faults::in_flight_comes_back_after_a_cut,
    ForgetsAttemptsOnRestart => attempts::attempts_survive_a_restart,
    ForgetsPauseOnRestart => faults::a_pause_survives_a_restart,
    ReturnsSettledAfterRestart => faults::settled_does_not_come_back_after_a_restart,
    LeaseNeverEnds => leases::an_unsettled_delivery_comes_back_when_its_lease_ends,
    LeaseEndsEarly => leases::an_unsettled_delivery_comes_back_when_its_lease_ends,
    TakesLateSettle => leases::late_done_is_fenced,
    TakesExpiredSettle => leases::a_settle_after_the_lease_is_fenced_though_nobody_took_over,
    TakesSecondSettle => leases::settling_twice_is_fenced,
    TakesReceiptOfBefore => leases::a_receipt_of_before_a_cut_is_fenced,
    IgnoresReceiptQueue => leases::a_made_up_receipt_is_fenced,
    IgnoresExtend => leases::extending_keeps_a_delivery,
    ExtendRevives => leases::a_late_extend_is_fenced,
    ExtendOnlyGrows => leases::extending_can_shorten_a_lease,
    CountsDefer => attempts::deferrals_count_nothing,
    DeferForgetsError => attempts::a_deferral_keeps_attempt_and_error,
    DoesNotCountLostLease => attempts::lost_leases_are_counted,
    DoesNotCountCut => attempts::cuts_end_dead,
    DoesNotCountRetry => attempts::retries_are_counted,
    NeverDead => attempts::the_last_retry_is_dead,
    DeadOneLate => attempts::lost_leases_end_dead,
    ForgetsFirstError => dead::exhausted_attempts_keep_first_and_last_error,
    LastErrorIsFirst => dead::exhausted_attempts_keep_first_and_last_error,
    UncutErrors => dead::long_texts_are_cut,
    EarlyRetry => delay::a_retry_is_not_early,
    EarlyDefer => delay::a_deferral_is_not_early,
    IgnoresNotBefore => delay::not_before_is_kept,
    DelayBlocksQueue => delay::a_retry_holds_up_nobody,
    DelaysAreFifo => delay::a_short_deferral_is_not_stuck_behind_a_long_one,
    NoWakeAfterDelay => delay::a_waiting_receive_wakes_when_a_delay_ends,
    LimitOneMore => limit::exactly_the_limit_is_accepted,
    LimitOneLess => limit::an_approximate_limit_stays_within_its_slack,
    LimitPerCall => limit::a_batch_is_cut_off_at_the_limit,
    LimitCountsInFlight => limit::taking_and_settling_makes_room,
    LimitIgnoresDelayed => limit::delayed_messages_count,
    LimitRejectsReturns => limit::a_deferral_is_taken_by_a_full_queue,
    IgnoresLimit => limit::an_approximate_limit_stays_within_its_slack,
    GroupPairInFlight => groups::one_in_flight_per_group,
    GroupRetryLosesItsTurn => groups::a_retrying_group_waits_alone,
    GroupBlocksAll => groups::a_group_in_flight_holds_up_no_other,
    GroupStuckAfterDead => groups::a_group_goes_on_after_a_dead_head,
    TakesMissingGroup => groups::a_message_without_a_group_is_invalid,
    LargeGroupFirst => groups::every_group_makes_progress,
    StarMatchesMany => routing::patterns_route,
    HashNeedsAWord => routing::patterns_route,
    CopyPerBinding => routing::two_matching_bindings_give_one_copy,
    DropsUnroutable => routing::an_unroutable_message_is_an_error,
    FirstQueueOnly => routing::each_bound_queue_gets_one_copy,
    ExchangesMixed => routing::exchanges_are_apart,
    CopiesBeforeFull => routing::a_full_bound_queue_rejects,
    DropsHeader => delivery::every_field_arrives,
    LowersHeaderNames => headers::names_keep_their_case,
    DropsEmptyHeaders => headers::an_empty_value_arrives,
    DropsKey => delivery::every_field_arrives,
    EmptyKeyIsNone => headers::an_empty_key_is_not_no_key,
    LossyBody => bodies::binary_bodies_arrive,
    TruncatesBody => bodies::a_large_body_arrives,
    TakesTooLarge => bodies::a_body_too_large_is_refused,
    SkipsChecks => headers::reserved_names_are_refused,
    DedupsIds => delivery::an_id_published_twice_is_two_messages,
    NewestFirst => delivery::the_order_of_one_publisher_is_kept,
    ShortAnswers => delivery::one_outcome_per_message_in_order,
    IgnoresMax => delivery::no_more_than_asked_for,
    IgnoresPrefetch => delivery::prefetch_bounds_what_is_unsettled,
    NoWakeOnPublish => delivery::a_message_ends_the_wait,
    NoWakeOnSettle => delivery::settling_frees_the_allowance,
    NoWaiting => delivery::an_empty_wait_elapses,
    DeliversTwice => delivery::receivers_share_without_overlap,
    ReplayKeepsAttempts => replay::a_replayed_message_starts_over,
    ReplayForgetsCount => replay::replays_are_counted,
    ReplayKeepsLetter => replay::one_is_replayed,
    ReplayLosesHeaders => replay::a_replayed_message_starts_over,
    ReplayIgnoresLimit => replay::a_full_queue_stops_a_replay,
    ReplayIgnoresFilter => replay::those_that_match_are_replayed,
    DropIgnoresFilter => dead::dropping_by_filter_leaves_the_others,
    ReadingTakes => dead::reading_takes_nothing,
    NewestDeadFirst => dead::listing_is_oldest_first_and_pages,
    PageRepeats => dead::listing_is_oldest_first_and_pages,
    PageBeforeFilter => dead::filters_page,
    UntilIsInclusive => dead::times_select,
    CaseSensitiveFilter => dead::filters_select,
    PurgeTakesInFlight => admin::purging_takes_what_waits,
    PurgeTakesDead => admin::purging_takes_what_waits,
    PurgeMiscounts => admin::purging_takes_what_waits,
    PauseStopsPublish => admin::a_pause_stops_deliveries_only,
    IgnoresPause => admin::a_pause_stops_deliveries_only,
    PauseFencesSettle => admin::a_pause_stops_deliveries_only,
    DepthMissesDelayed => admin::depth_shows_each_state,
    DepthForgetsLostLease => admin::depth_shows_each_state,
    AgeStandsStill => admin::the_oldest_age_grows,
    RedeclareEmpties => admin::declaring_again_changes_nothing,
    RedeclareIsIgnored => admin::another_spec_is_not_quietly_ignored,
    TakesInvalidSpec => admin::invalid_specs_are_refused,
    CreatesUnknownQueues => admin::unknown_queues_are_named,
    UnsortedQueues => admin::queues_are_listed_by_name,
    NamesFoldCase => admin::names_are_kept_apart,
    CloseIsNotFinal => admin::closing_is_final,
    CloseLeavesReceivers => admin::closing_ends_a_waiting_receive,
    RefusesDefer => delay::a_deferral_is_not_early,
}

/// The conservation check is the net under all others, so it must find these by itself.
#[test]
fn conservation_finds_what_is_lost_or_repeated() {
    for fault in [Fault::LeaseNeverEnds, Fault::TakesLateSettle, Fault::DeliversTwice] {
        is_found(fault, "load", "nothing_is_lost_or_repeated");
    }
    is_found(Fault::LosesReadyOnRestart, "load", "nothing_is_lost_or_repeated_across_a_cut");
    is_found(Fault::LosesInFlightOnCut, "load", "nothing_is_lost_or_repeated_across_a_cut");
    is_found(Fault::ReturnsSettledAfterRestart, "load", "nothing_is_lost_or_repeated_across_a_restart");
    is_found(Fault::GroupPairInFlight, "load", "groups_stay_in_order_under_load");
}

#[test]
fn every_fault_is_found_by_a_case() {
    for fault in Fault::ALL {
        assert_eq!(FOUND.contains(fault), *fault != Fault::Nothing, "{fault:?} needs a case that finds it");
    }
}
