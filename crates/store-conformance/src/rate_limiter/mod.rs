//! Suite of the rate limiter, and comparison with another one as a model.

mod backoff;
mod breaker;
mod checker;
mod clock;
mod fixture;
mod flight;
mod groups;
mod leases;
mod load;
mod memory;
pub mod model;
mod schedule;
mod slots;

pub(crate) use fixture::default_policy;

use crawlway_store::RateLimiter;

pub(crate) type Fresh<'h> = crate::fixture::Fresh<'h, dyn RateLimiter>;
pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn RateLimiter>;

suite! { ($) rate_limiter for dyn RateLimiter:
    flight {
        one_at_a_time,
        never_more_than_allowed_in_flight,
        the_gap_counts_from_the_end_when_alone,
        the_gap_counts_from_the_start_otherwise,
        a_gap_of_zero_delays_no_request,
        a_huge_number_in_flight_is_allowed,
        a_raised_gap_is_heeded,
        fewer_in_flight_are_heeded,
        limits_that_cannot_be_are_refused,
    }
    slots {
        items_at_once_get_slots_a_gap_apart,
        each_goes_at_its_slot,
        each_goes_at_its_slot_with_several_in_flight,
        slots_allow_for_how_long_requests_take,
        coming_early_keeps_the_slot,
        asking_again_takes_no_second_slot,
        a_newcomer_does_not_jump_the_line,
        the_first_may_come_early_when_the_group_is_free,
        a_slow_request_moves_the_line_and_keeps_its_order,
        a_slow_request_is_not_polled,
        a_late_comer_has_its_slot_within_the_grace,
        an_unclaimed_slot_lapses,
        a_slot_that_is_left_is_free,
        a_line_too_long_is_spread,
    }
    leases {
        the_lease_is_stated,
        a_lost_lease_frees_its_place,
        the_gap_counts_from_the_end_of_a_lost_lease,
        extending_keeps_a_permit,
        extending_is_answered_in_order,
        finishing_twice_is_fenced,
        finishing_after_the_lease_is_fenced,
        a_made_up_permit_is_fenced,
    }
    backoff {
        it_doubles_within_its_jitter_up_to_its_cap,
        jitter_differs,
        a_success_resets_it,
        a_neutral_outcome_changes_nothing,
        retry_after_is_respected_up_to_its_cap,
        the_later_of_both_counts,
        the_blocks_of_one_burst_count_once,
        a_success_from_before_the_block_says_nothing,
        waiting_tickets_move_behind_the_back_off,
    }
    breaker {
        it_opens_after_so_many_failures,
        a_success_in_between_keeps_it_closed,
        one_probe_at_a_time,
        a_good_probe_closes_it,
        a_bad_probe_opens_it_for_longer,
        a_probe_that_is_lost_is_replaced,
        a_probe_that_says_nothing_is_replaced,
        without_one_it_never_opens,
    }
    groups {
        a_blocked_group_holds_up_no_other,
        limits_are_each_groups_own,
        odd_names_are_kept_apart,
        handles_share_their_state,
    }
    memory {
        idle_groups_are_forgotten,
        a_group_is_not_forgotten_before_its_gap,
        a_group_in_trouble_is_not_forgotten,
        a_group_in_use_is_not_forgotten,
        groups_of_lost_leases_are_forgotten,
        a_full_gate_breaks_no_gap,
    }
    clock {
        a_clock_set_back_makes_no_wait_longer,
        a_clock_set_back_stops_no_forgetting,
        a_clock_that_jumps_ahead_blocks_no_group,
    }
    load {
        racing_callers_keep_to_the_limits,
        any_schedule_keeps_to_the_limits,
        a_schedule_with_blocks_and_deaths_keeps_to_the_limits,
        nearly_every_ticket_waits_once,
    }
}
