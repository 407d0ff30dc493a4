//! The suite of the gate can fail: every case finds a deliberate breach of the contract, and every breach is found.

mod oracle;

use crawlway_store::conformance::gate::{CASES, run};
use oracle::{Fault, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on a gate with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(fault));
    });
}

crawlway_conformance::finds! {
    flight {
        one_at_a_time: OneMoreInFlight;
        never_more_than_allowed_in_flight: OneMoreInFlight;
        the_gap_counts_from_the_end_when_alone: GapFromStart;
        the_gap_counts_from_the_start_otherwise: GapFromEnd;
        a_gap_of_zero_holds_up_nobody: LeastGapOfAMoment;
        a_huge_number_in_flight_is_allowed: AtMostAThousandInFlight;
        a_raised_gap_is_heeded: KeepsFirstLimits;
        fewer_in_flight_are_heeded: KeepsFirstLimits;
        limits_that_cannot_be_are_refused: TakesAnyLimits;
    }
    slots {
        items_at_once_get_slots_a_gap_apart: SameSlotForAll;
        each_goes_at_its_slot: ForgetsTickets, SameSlotForAll;
        each_goes_at_its_slot_with_several_in_flight: ForgetsTickets, GapFromEnd;
        slots_allow_for_what_requests_take: GuessesNothing;
        coming_early_keeps_the_slot: ForgetsTickets;
        asking_again_takes_no_second_slot: ForgetsTickets;
        a_newcomer_does_not_jump_the_line: NewcomersFirst;
        the_first_may_come_early_when_the_group_is_free: NeverEarly;
        a_slow_request_moves_the_line_and_keeps_its_order: MovesNoFollowers;
        a_slow_request_is_not_polled: HasThemPoll;
        a_late_comer_has_its_slot_within_the_grace: SlotsLapseAtOnce;
        an_unclaimed_slot_lapses: SlotsNeverLapse;
        a_slot_that_is_left_is_free: LeavingDoesNothing;
        a_line_too_long_is_spread: EndlessLine, FullLineIsNotSpread;
    }
    leases {
        the_lease_is_stated: StatesNoLease;
        the_dead_free_their_place: LeaseNeverEnds, LeaseEndsEarly;
        the_gap_counts_from_the_end_of_a_lost_lease: LostLeaseHasNoEnd;
        extending_keeps_a_permit: IgnoresExtend, ExtendRevives;
        extending_is_answered_in_order: ExtendRevives;
        finishing_twice_is_fenced: TakesAnyFinish;
        finishing_after_the_lease_is_fenced: TakesLateFinish, TakesAnyFinish;
        a_made_up_permit_is_fenced: IgnoresPermitGroup, TakesAnyFinish;
    }
    back_off {
        it_doubles_within_its_jitter_up_to_its_cap: BackOffNeverDoubles, BackOffUncapped, FailedIsNeutral;
        jitter_differs: NoJitter;
        a_success_resets_it: SuccessResetsNothing;
        a_neutral_outcome_changes_nothing: NeutralResets;
        retry_after_is_respected_up_to_its_cap: IgnoresRetryAfter, RetryAfterUncapped;
        the_later_of_both_counts: RetryAfterReplaces;
        the_blocks_of_one_burst_count_once: BurstCountsEach;
        a_success_from_before_the_block_says_nothing: OldSuccessResets;
        who_waits_is_moved_behind_it: LineStaysInBackOff, SameSlotForAll;
    }
    breaker {
        it_opens_after_so_many_failures: BreakerOneLate, BreakerNeverOpens, FailedIsNeutral;
        a_success_in_between_keeps_it_closed: SuccessResetsNothing;
        one_probe_at_a_time: ManyProbes;
        a_good_probe_closes_it: ProbeNeverCloses;
        a_bad_probe_opens_it_for_longer: SameCoolDown;
        a_probe_that_is_lost_is_replaced: ProbeIsForEver, LeaseNeverEnds;
        a_probe_that_says_nothing_is_replaced: ProbeIsForEver, NeutralResets;
        without_one_it_never_opens: BreakerAlways;
    }
    groups {
        a_blocked_group_holds_up_no_other: OneGroupForAll;
        limits_are_each_groups_own: OneGroupForAll;
        odd_names_are_kept_apart: FoldsCase;
        handles_share_their_state: HandlesApart;
    }
    memory {
        idle_groups_are_forgotten: NeverForgets;
        a_group_is_not_forgotten_before_its_gap: ForgetsGap;
        a_group_in_trouble_is_not_forgotten: ForgetsTrouble;
        who_waits_and_who_is_in_flight_is_not_forgotten: ForgetsInUse;
        the_dead_are_forgotten: LeaseNeverEnds, SlotsNeverLapse;
        a_full_gate_breaks_no_gap: EvictsAnyone, NeverForgets;
    }
    clock {
        a_clock_set_back_makes_no_wait_longer: ClockBackIsIgnored;
        a_clock_set_back_stops_no_forgetting: ClockBackIsIgnored;
        a_clock_that_jumps_ahead_stops_nobody: LeaseNeverEnds;
    }
    load {
        racing_callers_keep_to_the_limits: OneMoreInFlight, SameSlotForAll, HandlesApart;
        any_schedule_keeps_to_the_limits: OneMoreInFlight, GapFromStart, GapFromEnd, HandlesApart;
        a_schedule_with_blocks_and_deaths_keeps_to_the_limits: LeaseEndsEarly, LostLeaseHasNoEnd;
        nearly_everybody_waits_once: GuessesNothing;
    }
}
