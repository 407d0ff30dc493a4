//! Suite of the rate limiter, and comparison with another one as a model. Most cases are scripts, see `script.rs`.

mod backoff;
mod checker;
mod clock;
pub mod contention;
mod fixture;
mod flight;
mod groups;
mod leases;
mod load;
mod memory;
pub mod model;
mod parked;
mod schedule;
mod script;
mod slots;

pub(crate) use fixture::default_policy;

use crawlway_store::RateLimiter;

pub(crate) type Fresh<'h> = crate::fixture::Fresh<'h, dyn RateLimiter>;
pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn RateLimiter>;

suite! { ($) rate_limiter for dyn RateLimiter:
    flight {
        one_at_a_time: "go a; wait b = concurrency; pass 4s; wait b; end a; wait b; pass 2s; go b",
        never_more_than_allowed_in_flight: "
            limits 3 0s; go a b c; wait x1..5 = concurrency; pass 20s; wait; end b
            pass 39s; go; wait                          # the waiting tickets did not come
        ",
        the_gap_counts_from_the_end_when_alone:
            "go a; pass 6s; end a; wait b = min_delay at end+2s; until b-1ms; early b = min_delay same; until b; go b",
        the_gap_counts_from_the_start_otherwise: "
            limits 5 2s; mark start; go a; wait b = min_delay at start+2s; until b; mark start; go b
            pass 1s; end a; wait c = min_delay at start+2s; until start+2s slack; go c
        ",
        a_gap_of_zero_delays_no_request: "
            limits 1 0s
            repeat 100: send
        ",
        a_huge_number_in_flight_is_allowed,
        a_raised_gap_is_heeded: "
            send; limits 1 20s; wait slow = min_delay at end+20s; until slow; go slow; end slow
            limits 1 2s; pass 1s; wait = from end+2s
        ",
        fewer_in_flight_are_heeded: "
            limits 3 0s; go a b c; limits 1 2s; wait x; end a; wait x; end b; wait x; end c
            wait x = from end+2s; until x; go x
        ",
        limits_that_cannot_be_are_refused,
    }
    slots {
        items_at_once_get_slots_a_gap_apart: "
            mark start; send; wait x1..9; about x1 = start+2s; apart x1..9 exactly
            group another; limits 4 2s; mark start; send; wait y1..9; about y1 = start+2s; apart y1..9 exactly
        ",
        each_goes_at_its_slot: "send; wait x1..10; each x1..10",
        each_goes_at_its_slot_with_several_in_flight: "
            limits 4 2s; send; wait x1..10; at x1 x2 x3 # each takes three minimum delays, so that four are in flight
            until x4; end x1; at x4; until x5; end x2; at x5; until x6; end x3; at x6; until x7; end x4; at x7
            until x8; end x5; at x8; until x9; end x6; at x9; until x10; end x7; at x10
        ",
        slots_allow_for_how_long_requests_take: "
            repeat 30: go a; pass 700ms; end a; pass 2s slack
            go a; wait x1..8; pass 700ms; end a; each x1..8 taking 700ms
        ",
        coming_early_keeps_the_slot: "send; wait x1..3; wait x3 x2 x1 = same; each x1..3",
        asking_again_takes_no_second_slot: "
            send; wait x
            repeat 5: wait x = same
            wait y = at x+2s
        ",
        a_newcomer_does_not_jump_the_line:
            "send; wait x1..3; until x1-1ms; wait new = at x3+2s; until x1; wait new; each x1..3 new",
        the_first_may_come_early_when_the_group_is_free: "
            policy initial_latency 2s
            go a; wait x1 x2; end a; pass 2s slack
            before x1; go x1                            # its slot was made for a request that takes longer
        ",
        a_slow_request_moves_the_line_and_keeps_its_order: "
            send; wait x1..5; until x1; go x1; until x2; wait x2; until x3; wait x3; until x4; wait x4; until x5; wait x5
            wait x2..5; apart x2..5                     # slots are final only after the last ticket has asked
            end x1 neutral; pass 2s slack; go x2
        ",
        a_slow_request_is_not_polled,
        a_late_comer_has_its_slot_within_the_grace: "send; wait x1..40; until x2; go x2; end x2; until x1+30s-10ms; go x1",
        an_unclaimed_slot_lapses: "
            send; wait dead; until dead
            wait next = min_delay at dead+2s; until dead+2s slack; go next; end next    # it delays by its own slot at most
            until dead+30s+1ms slack; send; wait x1 x2
            wait dead = at x2+2s                        # after the grace period it starts anew
        ",
        a_slot_that_is_left_is_free: "
            group g; send; wait x1..100; cancel x2..100; cancel unknown; group unknown; cancel unknown
            group g; wait = at x1+2s; each x1
        ",
        a_line_too_long_is_spread: "
            policy max_slots 20
            send; wait x1..20; wait y1..20 = overloaded from x20+2s; spread y1..20; each x1..20
        ",
    }
    parked {
        no_wait_is_longer_than_the_maximum: "
            policy max_defer 30s
            mark start; send; wait x1..40; about x1 = start+2s; about x15 = start+30s; about x16 = start+32s; about x40 = start+32s
            until x15; wait x30 = at start+60s; go x1   # each keeps its place
        ",
        a_back_off_is_no_reason_to_come_early: "
            policy max_defer 30s
            send blocked:1800s; wait x1..40 = backoff; about x1 = end+1800s; about x40 = end+1830s
        ",
        a_group_that_becomes_fast_serves_all_who_wait,
    }
    leases {
        the_lease_is_stated: "mark start; go a; about a.lease = start+60s",
        a_lost_lease_frees_its_place: "
            limits 2 0s; elsewhere; go a b; here; wait heir = concurrency
            until b.lease-1ms; early heir; until b.lease; go heir; go
        ",
        the_gap_counts_from_the_end_of_a_lost_lease:
            "go a; until a.lease; wait b = min_delay at a.lease+2s; until a.lease+2s; go b",
        extending_keeps_a_permit: "
            go a
            repeat 5: pass 45s; extend a = yes; wait
            end a; extend a = no
            group other; go b; until b.lease; extend b = no; pass 2s; go            # it came too late and revives nothing
        ",
        extending_is_answered_in_order:
            "group a; go a; group b; go b; group c; go c; end b; extend a b c = yes no yes; extend",
        finishing_twice_is_fenced: "
            go a; end a; pass 1s; fenced a; fenced a blocked
            wait b = min_delay at end+2s; until end+2s slack; go b; fenced a; wait  # it is neither a block nor an end
        ",
        finishing_after_the_lease_is_fenced: "
            go a; until a.lease; fenced a blocked       # though no other took over
            wait b = min_delay at a.lease+2s; until a.lease+2s; go b; fenced a; wait; end b
        ",
        a_made_up_permit_is_fenced,
    }
    backoff {
        it_doubles_within_its_jitter_up_to_its_cap: "backoffs 1..10 blocked; group another; backoffs 1..10 failed",
        jitter_differs,
        a_success_resets_it: "
            backoffs 1..4 blocked; send; wait n = min_delay at end+2s; until n; go n; end n; pass 2s slack
            backoffs 1 blocked
        ",
        a_neutral_outcome_changes_nothing: "
            send neutral; wait n = min_delay at end+2s; until n; cancel n
            backoffs 1 blocked; send neutral; pass 2s slack; backoffs 2 blocked
        ",
        retry_after_is_respected_up_to_its_cap: "
            policy max_retry_after 1800s
            send blocked:120s; wait = backoff at end+120s
            group b; send blocked:1800s; wait = backoff at end+1800s
            group c; send blocked:1801s; wait = backoff at end+1800s
            group d; send blocked:18446744073709551615s; wait = backoff at end+1800s
        ",
        the_later_of_both_counts: "backoffs 1..3 blocked:1s",
        the_blocks_of_one_burst_count_once: "
            limits 8 0s; go x1..8; pass 2s; mark first; end x1..7 blocked; wait n = backoff jitter 1 first
            end x8 blocked:60s; wait n = at end+60s     # the `Retry-After` of the last of the burst counts all the same
            until n; go n; end n blocked; wait = jitter 2 end
        ",
        a_success_from_before_the_block_says_nothing:
            "limits 2 0s; go slow quick; pass 2s; end quick blocked; wait n; end slow; wait n = backoff same",
        waiting_tickets_move_behind_the_back_off,
    }
    breaker {
        it_opens_after_so_many_failures: "
            policy breaker
            repeat 2: acquire p; end p blocked; peek = backoff
            acquire p; end p blocked; peek = circuit_open; open 100s; group another
            repeat 2: acquire p; end p failed; peek = backoff
            acquire p; end p failed; peek = circuit_open; open 100s
        ",
        a_success_in_between_keeps_it_closed: "
            policy breaker
            repeat 4: acquire p; end p blocked; peek = backoff; acquire p; end p blocked; peek = backoff; acquire p; end p; peek = min_delay
        ",
        one_probe_at_a_time: "
            policy breaker
            trip; open 100s; limits 10 0s; go probe; wait x1..5 = circuit_open; pass 10s; wait x1..5
            end probe; pass 60s; go x1..5
        ",
        a_good_probe_closes_it: "
            policy breaker
            trip; open 100s; send; wait n = min_delay at end+2s; until n; go n; end n; pass 2s slack
            trip; open 100s                             # three failures again, and the first cool-down again
        ",
        a_bad_probe_opens_it_for_longer: "
            policy breaker
            trip; open 100s; send failed; open 200s; send failed; open 300s; send failed; open 300s; send failed
        ",
        a_probe_that_is_lost_is_replaced: "
            policy breaker
            trip; open 100s; go lost; wait heir; until lost.lease+2s; go heir; wait = circuit_open; end heir
        ",
        a_probe_that_says_nothing_is_replaced: "
            policy breaker
            trip; open 100s; send neutral; wait heir = circuit_open; until heir; go heir; end heir; wait = min_delay
        ",
        without_one_it_never_opens: "
            policy backoff 8s
            repeat 20: acquire p; end p failed; peek = backoff
        ",
    }
    groups {
        a_blocked_group_holds_up_no_other: "
            group blocked; send blocked:3000s; group slow; go; group crowded; send; wait x1..500; group dead; go
            repeat 20: group _; send; group _; send; group _; send; group _; send; group _; send; pass 500ms
            group blocked; wait
        ",
        limits_are_each_groups_own: "
            group short; send; group long; limits 1 40s; send; group wide; limits 5 0s; go x1..5; wait; pass 2s slack
            group short; limits 1 2s; send; group long; limits 1 40s; wait
        ",
        odd_names_are_kept_apart,
        handles_share_their_state: "
            elsewhere; go a; here; wait b; elsewhere; extend a = yes; here; end a
            elsewhere; wait b = from end+2s; here; wait b = same; until b; go b; elsewhere; end b; here; fenced b
        ",
    }
    memory {
        idle_groups_are_forgotten,
        a_group_is_not_forgotten_before_its_gap: "
            limits 1 3600s; send
            repeat 7: pass 500s; tracked 1
            wait = min_delay at end+3600s
        ",
        a_group_in_trouble_is_not_forgotten: "
            policy failure_ttl 600s
            mark start; group asked; send blocked:3600s; group blocked; send blocked; pass 590s; tracked 2
            send blocked; wait = from end+8s            # the second block in a row counts as such
            until start+3590s; tracked 1+; group asked; wait = backoff at start+3600s
        ",
        a_group_in_use_is_not_forgotten: "
            go a
            repeat 20: pass 45s; extend a = yes; tracked 1
            end a neutral; limits 1 3600s; wait b; until b-2s; tracked 1; until b; go b
        ",
        groups_of_lost_leases_are_forgotten: "
            repeat 100: group _; go; wait
            tracked 100
            repeat 2: pass 750s; tracked 0+             # the first look may only notice when a group became idle
            tracked 0
        ",
        a_full_gate_breaks_no_gap,
    }
    clock {
        a_clock_set_back_makes_no_wait_longer,
        a_clock_set_back_stops_no_forgetting,
        a_clock_that_jumps_ahead_blocks_no_group: "
            group ahead; send; wait x; group held; go a; pass 315360000s
            group ahead; go x; group held; fenced a; go
        ",
    }
    load {
        racing_callers_keep_to_the_limits,
        any_schedule_keeps_to_the_limits,
        a_schedule_with_blocks_and_deaths_keeps_to_the_limits,
        nearly_every_ticket_waits_once,
    }
}
