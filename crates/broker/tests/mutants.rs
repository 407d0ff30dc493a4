//! The suite can fail: every case finds a deliberate breach of the contract, and every breach is found.

mod oracle;

use crawlway_broker::conformance::{CASES, run};
use oracle::{Fault, Manner, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    let manner = shown_in(fault);
    crawlway_conformance::must_fail(&format!("{module}::{case} on a broker with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(manner, fault));
    });
}

/// Some faults are about what is refused or held within bounds only.
fn shown_in(fault: Fault) -> Manner {
    match fault {
        Fault::TakesWhatItRefuses
        | Fault::RefusesWithoutAName
        | Fault::TakesNotBeforeAnyhow
        | Fault::PurgesAnyhow => Manner::Refusing,
        Fault::LaterThanStated
        | Fault::DepthNeverCatchesUp
        | Fault::OvershootsItsSlack
        | Fault::TakesATighterSlack => Manner::Emulated,
        _ => Manner::Native,
    }
}

crawlway_conformance::finds! {
    delivery {
        every_field_arrives: DropsHeader, DropsKey;
        what_was_not_set_stays_unset: SetsWhatWasUnset;
        one_outcome_per_message_in_order: ShortAnswers;
        empty_batches_are_answered_empty: AnswersEmptyBatches;
        asking_for_none_returns_at_once: IgnoresMax;
        no_more_than_asked_for: IgnoresMax;
        a_message_ends_the_wait: NoWakeOnPublish;
        an_empty_wait_elapses: NoWaiting;
        a_receive_that_is_given_up_takes_nothing: TakesForNobody;
        the_order_of_one_publisher_is_kept: NewestFirst;
        an_id_published_twice_is_two_messages: DedupsIds;
        prefetch_bounds_what_is_unsettled: IgnoresPrefetch;
        settling_frees_the_allowance: NoWakeOnSettle;
        a_lost_lease_frees_the_allowance: LeaseNeverEnds;
        receivers_share_without_overlap: DeliversTwice;
        what_is_done_stays_done: DoneComesBack;
        settles_are_answered_in_order: TakesSecondSettle;
    }
    leases {
        the_lease_is_stated: StatesNoLease;
        an_unsettled_delivery_comes_back_when_its_lease_ends: LeaseNeverEnds, LeaseEndsEarly;
        extending_keeps_a_delivery: IgnoresExtend;
        extending_can_shorten_a_lease: ExtendOnlyGrows;
        extending_is_answered_in_order: ExtendRevives;
        late_done_is_fenced: TakesLateSettle;
        late_retry_is_fenced: TakesLateSettle;
        late_requeue_is_fenced: TakesLateSettle;
        late_defer_is_fenced: TakesLateSettle;
        late_dead_is_fenced: TakesLateSettle;
        a_settle_after_the_lease_is_fenced_though_nobody_took_over: TakesExpiredSettle;
        a_late_extend_is_fenced: ExtendRevives;
        settling_twice_is_fenced: TakesSecondSettle;
        a_made_up_receipt_is_fenced: IgnoresReceiptQueue;
        a_receipt_of_before_a_restart_is_fenced: TakesReceiptOfBefore;
        a_receipt_of_before_a_cut_is_fenced: TakesReceiptOfBefore;
    }
    attempts {
        retries_are_counted: DoesNotCountRetry;
        the_last_retry_is_dead: NeverDead, DeadOneLate;
        a_single_attempt_is_dead_at_its_first_failure: NeverDead;
        deferrals_count_nothing: CountsDefer;
        a_deferral_keeps_attempt_and_error: DeferForgetsError;
        requeues_count_nothing: CountsRequeue;
        a_requeue_keeps_attempt_and_error: RequeueForgetsError;
        attempts_survive_a_restart: ForgetsAttemptsOnRestart;
    }
    suspects {
        a_lost_lease_counts_no_attempt: CountsLostLease, ForgetsLosses;
        a_crash_counts_no_attempt: CountsCut, ForgetsLosses;
        retries_count_between_lost_workers: CountsLostLease, CountsCut;
        suspects_come_in_halving_groups: SuspectsComeTogether;
        what_kills_its_worker_alone_ends_dead: IgnoresAlone;
        a_lease_that_ends_alone_counts_nothing: CountsFrozenWorker;
        what_is_settled_alone_counts_nothing: AloneForEver;
        solo_crashes_outlive_a_retry_and_end_with_a_replay: RetryForgetsSoloCrashes;
        alone_is_fenced_like_a_verdict: AloneForAnybody;
    }
    delay {
        a_retry_is_not_early: EarlyRetry, LaterThanStated;
        a_retry_without_delay_comes_at_once: DoesNotCountRetry;
        a_retry_holds_up_nobody: DelayBlocksQueue;
        a_short_retry_is_not_stuck_behind_a_long_one: DelaysAreFifo;
        a_requeue_comes_at_once: RequeueIsLate;
        a_deferral_is_not_early: EarlyDefer, RefusesDefer;
        a_deferral_into_the_past_is_ready_now: PastIsLater, CountsDefer;
        a_short_deferral_is_not_stuck_behind_a_long_one: DelaysAreFifo;
        not_before_is_kept: IgnoresNotBefore, TakesNotBeforeAnyhow;
        not_before_in_the_past_is_ready_now: PastIsLater;
        a_waiting_receive_wakes_when_a_delay_ends: NoWakeAfterDelay;
        a_retry_gets_its_turn_in_a_queue_that_never_runs_empty: ReturnsComeLast;
    }
    limit {
        exactly_the_limit_is_accepted: LimitOneMore;
        a_batch_is_cut_off_at_the_limit: LimitPerCall;
        racing_publishers_do_not_overshoot: IgnoresLimit;
        taking_and_settling_makes_room: LimitCountsInFlight;
        delayed_messages_count: LimitIgnoresDelayed;
        a_retry_is_taken_by_a_full_queue: LimitRejectsReturns;
        a_requeue_is_taken_by_a_full_queue: LimitRejectsReturns;
        a_deferral_is_taken_by_a_full_queue: LimitRejectsReturns;
        a_lost_lease_is_taken_by_a_full_queue: LimitCountsInFlight;
        the_limit_holds_after_a_restart: LimitOneMore;
        an_approximate_limit_stays_within_its_slack: LimitOneLess, IgnoresLimit, OvershootsItsSlack;
        a_slack_that_cannot_be_kept_is_refused: TakesATighterSlack;
    }
    routing {
        patterns_route: StarMatchesMany, HashNeedsAWord, RefusesWithoutAName;
        each_bound_queue_gets_one_copy: FirstQueueOnly;
        two_matching_bindings_give_one_copy: CopyPerBinding;
        copies_are_settled_apart: OneVerdictForAllCopies;
        exchanges_are_apart: ExchangesMixed;
        an_unroutable_message_is_an_error: DropsUnroutable;
        a_topic_with_wildcards_is_invalid: SkipsChecks;
        a_full_bound_queue_rejects: CopiesBeforeFull;
        bindings_survive_a_restart: HashNeedsAWord;
    }
    groups {
        one_in_flight_per_group: GroupPairInFlight, TakesWhatItRefuses;
        order_within_a_group: NewestFirst;
        a_group_in_flight_holds_up_no_other: GroupBlocksAll;
        a_retrying_group_waits_alone: GroupRetryLosesItsTurn;
        a_deferred_group_waits_alone: EarlyDefer, GroupBlocksAll;
        a_group_waiting_for_its_lease_waits_alone: LeaseEndsEarly, GroupBlocksAll;
        a_group_whose_head_is_held_back_waits_alone: IgnoresNotBefore, GroupBlocksAll;
        a_group_goes_on_after_a_dead_head: GroupStuckAfterDead;
        a_message_without_a_group_is_invalid: TakesMissingGroup;
        every_group_makes_progress: LargeGroupFirst;
        order_within_a_group_survives_a_cut: GroupRetryLosesItsTurn;
        a_purged_group_goes_on: PurgeTakesInFlight;
    }
    dead {
        a_dead_verdict_keeps_the_detail: ForgetsFirstError;
        exhausted_attempts_keep_first_and_last_error: ForgetsFirstError, LastErrorIsFirst;
        long_texts_are_cut: UncutErrors;
        listing_is_oldest_first_and_pages: NewestDeadFirst, PageRepeats;
        filters_select: CaseSensitiveFilter;
        times_select: UntilIsInclusive;
        filters_page: PageBeforeFilter;
        reading_takes_nothing: ReadingTakes;
        dead_letters_are_not_delivered: ReturnsDeadAfterRestart;
        dead_letters_survive_a_restart: LosesDeadOnRestart;
        dropping_one_leaves_the_others: DropIgnoresFilter;
        dropping_by_filter_leaves_the_others: DropIgnoresFilter;
        dropping_all_leaves_none: DropStopsAtTen;
    }
    replay {
        one_is_replayed: ReplayKeepsLetter;
        those_that_match_are_replayed: ReplayIgnoresFilter;
        all_are_replayed: ReplayStopsAtTen, ReplayKeepsLetter;
        a_replayed_message_starts_over: ReplayKeepsAttempts, ReplayLosesHeaders;
        replays_are_counted: ReplayForgetsCount;
        a_replay_survives_a_restart: ReplayForgetsCount;
        a_full_queue_stops_a_replay: ReplayIgnoresLimit;
    }
    faults {
        ready_messages_survive_a_restart: LosesReadyOnRestart;
        delayed_messages_survive_a_restart: LosesDelayedOnRestart;
        a_pause_survives_a_restart: ForgetsPauseOnRestart;
        in_flight_comes_back_after_a_restart: LosesInFlightOnRestart;
        settled_does_not_come_back_after_a_restart: ReturnsSettledAfterRestart;
        ready_messages_survive_a_cut: LosesReadyOnRestart;
        delayed_messages_survive_a_cut: LosesDelayedOnRestart;
        dead_letters_survive_a_cut: LosesDeadOnRestart;
        in_flight_comes_back_after_a_cut: LosesInFlightOnCut;
        settled_does_not_come_back_after_a_cut: ReturnsSettledAfterRestart;
        many_cuts_lose_nothing: LosesInFlightOnCut;
    }
    bodies {
        an_empty_body_arrives: EmptyBodyIsNull;
        binary_bodies_arrive: LossyBody;
        a_large_body_arrives: TruncatesBody;
        bodies_survive_retries_and_restarts: TruncatesBody;
        a_body_too_large_is_refused: TakesTooLarge;
    }
    headers {
        an_empty_value_arrives: DropsEmptyHeaders;
        any_text_arrives: LowersHeaderNames;
        long_names_arrive: CutsLongNames;
        many_headers_arrive: KeepsTenHeaders;
        names_keep_their_case: LowersHeaderNames;
        an_empty_key_is_not_no_key: EmptyKeyIsNone;
        reserved_names_are_refused: SkipsChecks;
        bad_names_are_refused: SkipsChecks;
        bad_ids_are_refused: SkipsChecks;
        bad_keys_and_groups_are_refused: SkipsChecks;
    }
    admin {
        the_core_of_the_contract_is_held: RefusesTheCore;
        declaring_again_changes_nothing: RedeclareEmpties;
        another_spec_is_not_quietly_ignored: RedeclareIsIgnored;
        invalid_specs_are_refused: TakesInvalidSpec;
        queues_are_listed_by_name: UnsortedQueues;
        names_are_kept_apart: NamesFoldCase;
        unknown_queues_are_named: CreatesUnknownQueues;
        a_pause_stops_deliveries_only: PauseStopsPublish, IgnoresPause, PauseFencesSettle;
        a_pause_keeps_what_comes_back: IgnoresPause;
        purging_takes_what_waits: PurgeTakesInFlight, PurgeTakesDead, PurgeMiscounts, PurgesAnyhow;
        depth_shows_each_state: DepthMissesDelayed, DepthForgetsLostLease, DepthNeverCatchesUp;
        the_oldest_age_grows: AgeStandsStill;
        rates_follow_the_traffic: RatesMissSettles, RatesNeverFall;
        closing_is_final: CloseIsNotFinal;
        closing_ends_a_waiting_receive: CloseLeavesReceivers;
    }
    load {
        many_queues_work_side_by_side: ForgetsManyQueues;
        a_slow_consumer_blocks_nobody: SlowConsumerBlocksPublish;
        nothing_is_lost_or_repeated: LeaseNeverEnds, TakesLateSettle, DeliversTwice;
        nothing_is_lost_or_repeated_across_a_cut: LosesReadyOnRestart, LosesInFlightOnCut;
        nothing_is_lost_or_repeated_across_a_restart: LosesInFlightOnRestart, ReturnsSettledAfterRestart;
        groups_stay_in_order_under_load: GroupPairInFlight;
    }
}
