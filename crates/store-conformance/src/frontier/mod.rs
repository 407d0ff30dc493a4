//! Suite of the frontier. The clock is manual, so that every time is exact. Most cases are scripts, see `script.rs`.

mod adding;
mod again;
mod batches;
mod crawls;
mod dead;
mod fixture;
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
        a_paused_crawl_hands_out_nothing:
            "add a; set paused = paused; is paused; none; due none; add b; set running; is running; next 10 1 = 2",
        a_cancelled_crawl_stays_so_until_it_is_set_running: "
            add a; pass 1s; set cancelled; is cancelled; ended now; none; set paused = cancelled; set running; is running; take a
        ",
        urls_in_flight_are_settled_in_a_paused_or_cancelled_crawl: "
            crawl one; crawl two
            add a b c; next 2 1 -> p q; set paused; extend p q = yes yes; done p; retry q 20s; counts 2 0 1 0; is paused
            set cancelled; add two:a two:b two:c; next 2 1 -> p q; set two: cancelled; extend p q = yes yes; done p
            retry q 20s; counts two: 2 0 1 0; is two: cancelled
        ",
        a_crawl_is_finished_when_nothing_waits_or_flies: "
            add a b c; next 3 1 -> p q r; done p; is running; reject r; is running; retry q 20s; is running; pass 20s
            next 10 1 -> q; is running; pass 1s; done q fetched=no; is finished; ended now; due none
        ",
        a_link_added_before_its_parent_is_settled_keeps_it_running: "
            add a; take a; add a/1; done a; is running; take a/1; add a/2; done a/1; is running
            take a/2; add a/3; done a/2; is running; take a/3; done a/3; is finished
        ",
        a_finished_crawl_stays_finished: "
            add a; end_all; is finished; snapshot; pass 1s
            set paused = finished; unchanged; set running = finished; unchanged; set cancelled = finished; unchanged
        ",
        a_crawl_is_not_finished_by_hand,
        a_new_url_sets_a_finished_crawl_running: "
            add a; end_all; is finished; add a = known; is finished; add b; is running; end_all; is finished; counts 0 0 2 0
        ",
        two_crawls_are_kept_apart: "
            crawl one max 1; crawl two; add a; add two:a; take a two:a; taken a item a; taken two:a item two:a; done a
            counts 0 0 1 0; counts two: 0 1 0 0; is finished; is two: running
            retry two:a 20s; set two: paused; is finished
        ",
        terms_are_changed_only_from_their_current_revision,
        a_crawl_gets_another_name_if_it_is_free,
        a_deleted_crawl_leaves_nothing_behind,
        the_urls_of_a_crawl_are_listed_by_outcome,
    }
    adding {
        a_new_url_is_handed_out_as_it_was_added,
        a_known_url_stays_as_it_is,
        a_done_or_dead_url_is_known: "
            add a b c d; next 3 1 -> p q r; done p; reject q; snapshot
            add a b c d = known known known known; unchanged
        ",
        a_url_twice_in_a_batch_is_known_the_second_time:
            "add a/1 a/2 a/1 = new new known; counts 2 0 0 0; entry a/1 state pending item a/1",
        a_budget_lets_in_so_many: "
            add a/1@calendar2 a/2@calendar2 a/3@calendar2 = new new over
            add a/4@calendar2 a/5@shop1 a/6 = over new new       # each kind has its own budget
            add a/4@calendar3 = new                              # a budget may grow
            end_all; add a/7@shop1 = over                        # done URLs stay charged
            crawl other; add other:a/7@shop1 = new               # a budget is of one crawl
        ",
        a_known_url_charges_no_budget: "
            add a/1@calendar2
            repeat 2: add a/1@calendar2 = known
            add a/2@calendar2; add a/1@calendar2 = known; left_out
        ",
        a_url_over_budget_is_not_known: "add a/1@calendar1 a/2@calendar1 = new over; counts 1 0 0 0; unknown a/2; add a/2",
        urls_left_out_are_counted_by_reason: "
            add a/1@calendar1 a/2@calendar1 a/3@calendar1 a/4@calendar1 a/5@shop2 = new over over over new
            add a/6@shop2 a/7@shop2 = new over; left_out too_many_calendar 3 too_many_shop 1
        ",
        an_unknown_crawl_is_refused,
        no_more_wait_than_a_crawl_may_have: "
            policy pending 3
            add a/0 a/1 a/2 a/3 a/4 = new new new over over; counts 3 0 0 0; left_out too_many_waiting 2
            add a/0 = known; add a/seed+                         # a known URL needs no room, a seed is added in any case
            crawl other; add other:a/0                           # the limit is of one crawl
            next 3 2 = a/0 a/1 other:a/0; done a/0; done a/1; counts 2 0 2 0
            add a/3@calendar0 a/3 a/4 = over new over; left_out too_many_calendar 1 too_many_waiting 3
        ",
        no_more_of_one_host_wait_than_it_may_have: "
            policy host 2
            add a/0 a/1 a/2 b/0 = new new over new; add a/3 = over
            crawl other; add other:a/2; left_out too_many_waiting 2
        ",
        waiting_urls_are_counted_through_every_step: "
            policy host 1
            add a/0 a/1 = new over; take a/0; add a/1 a/2 = new over
            retry a/0 0s; counts 2 0 0 0; add a/2 = over         # a URL that comes back is pending, whatever the limit
            next 10 1 -> p; reject p; next 10 1 -> p; done p; add a/2 a/3 = new over
            replay p~ = yes; add a/4 = over                      # replayed
            next 2 2 = 2; pass 60s; back; add a/5 = over         # taken back
            end_all; add a/6 a/7 = new over
            reopen urls a/1 = 1; next 1 2 -> q; done q; add a/8 = over
            end_all; insist a/1 = yes; add a/9 = over            # insisted on
        ",
        a_small_page_limit_keeps_few_waiting,
    }
    taking {
        no_more_than_asked_for: "add a b c d e f g; next 0 1 = 0; next 1 1 = 1; next 4 1 = 4; next 4 1 = 2; next 4 1 = 0",
        no_url_is_handed_out_twice,
        the_host_that_has_waited_longest_comes_first: "
            add m; pass 1s; add a; pass 1s; add z; pass 1s; add b; pass 1s
            add z/0 z/1 z/2 z/3 z/4                     # more URLs make no host wait longer
            next 1 1 = m; next 1 1 = a; next 1 1 = z; next 1 1 = b
        ",
        a_host_that_was_served_queues_up_again: "
            add a/0 a/1 a/2; pass 1s; add b/0 b/1 b/2; pass 1s; add c/0 c/1 c/2; pass 1s
            next 1 1 = a/0; pass 1s; done a/0; pass 1s; next 1 1 = b/0; pass 1s; done b/0; pass 1s
            next 1 1 = c/0; pass 1s; done c/0; pass 1s; next 1 1 = a/1; pass 1s; done a/1; pass 1s
            next 1 1 = b/1; pass 1s; done b/1; pass 1s; next 1 1 = c/1; pass 1s; done c/1; pass 1s
            next 1 1 = a/2; pass 1s; done a/2; pass 1s; next 1 1 = b/2; pass 1s; done b/2; pass 1s; next 1 1 = c/2
        ",
        urls_of_a_host_come_in_the_order_they_became_due: "
            add a/5 a/1 a/4; pass 1s; add a/0 a/9; take a/5; retry a/5 20s; pass 1ms
            take a/1; done a/1; pass 1ms; take a/4; done a/4; pass 1ms; take a/0; done a/0; pass 1ms
            take a/9; done a/9; pass 20s; take a/5
        ",
        no_more_of_a_host_than_allowed_in_flight: "
            add a/0 a/1 a/2 a/3 a/4 a/5 a/6 a/7; next 10 2 = a/0 a/1; next 10 2 = 0; next 10 1 = 0; next 10 5 = a/2 a/3 a/4
            done a/0; pass 1ms; done a/1; pass 1ms; done a/2; pass 1ms; next 10 3 = 1
        ",
        a_host_is_counted_per_crawl:
            "crawl one; crawl two; add a/1 a/2; add two:a/1 two:a/2; take a/1 two:a/1; next 10 1 = 0",
        a_slow_host_starves_no_other_host,
        a_resting_host_is_left_alone: "
            add a/1 a/2 a/3 a/4
            take a/1; done a/1 rest=20s; none; pass 20s-1ms; none; add a/5; none; pass 1ms
            take a/2; reject a/2 rest=20s; none; pass 20s-1ms; none; add a/6; none; pass 1ms
            take a/3; retry a/3 0s rest=20s; none; pass 20s-1ms; none; add a/7; none; pass 1ms; next 10 1 = 1
        ",
        a_longer_rest_is_not_cut_short:
            "add a/1 a/2 a/3; next 2 2 -> p q; done p rest=20s; done q; none; pass 20s; next 10 1 = 1",
        the_next_due_time_is_told: "
            due none; add a; due now; take a; retry a 20s; due 20s
            add b; take b; defer b 1s; due 1s; pass 1s; take b; add b/more; done b rest=1s; due 1s   # its host rests
            pass 60s; due now; next 10 1 = 2
        ",
    }
    limit {
        no_more_than_may_be_fetched_are_in_flight: "
            crawl limited max 3; add a b c d e f; next 2 1 -> p q; next 10 1 = 1; none; done p; none
            crawl other; add other:a; take other:a; is running              # a limit is of one crawl
        ",
        a_url_that_was_not_fetched_uses_up_no_limit: "
            crawl limited max 1; add a b c; next 10 1 -> p; done p fetched=no; fetched 0
            next 10 1 -> p; reject p; next 10 1 -> p; done p; fetched 1; is finished
        ",
        a_url_that_comes_back_makes_room_in_the_limit: "
            crawl limited max 1; add a b c; next 10 1 -> p; retry p 540s; next 10 1 -> q; defer q 540s; next 10 1 -> r; none
            pass 60s+1ms; next 10 1 -> s; taken s item r losses 1
        ",
        a_crawl_that_has_fetched_all_it_may_is_limited: "
            crawl limited max 2; add a b c d e; next 1 1 -> p; is running; done p; fetched 1; next 1 1 -> p; is running; done p
            fetched 2; is limited; counts 3 0 2 0; none
        ",
        a_limit_of_nothing_fetches_nothing: "crawl limited max 0; add a b; none; pass 3600s; none; counts 2 0 0 0",
        a_used_up_limit_keeps_a_crawl_limited: "
            crawl limited max 1; add a b c; next 10 1 -> gone; reject gone
            next 10 1 -> again; done again fetched=no crawled; next 10 1 -> only; done only
            add new; is limited; replay gone = yes; is limited; insist gone = yes; is limited
            pass 20s; reopen due = 1; is limited; none; counts 3 0 1 0
            insist only = yes; is running; next 10 1 = 1                    # the fetched page makes room
        ",
        a_raised_limit_goes_on_with_waiting_urls: "
            crawl limited max 1; add a b c d e; next 1 1 -> p; done p; is limited
            limit 3 = running; next 10 1 -> p q; done p; done q; limit none = running; next 10 1 -> p q; done p; done q
            is finished; add new; limit 2 = limited; none                   # it has fetched more than it may now
        ",
    }
    settling {
        done_is_done: "
            add a/1 a/2; take a/1; done a/1 crawled canonical=proper
            entry a/1 state done attempts 1 outcome published canonical proper due none crawled now
            pass 4000s; next 10 10 = a/2                # a done URL is not handed out, though it is old
        ",
        a_retry_waits_and_counts: "
            add a/1 a/2; take a/1; retry a/1 20s = retrying 2
            entry a/1 state pending attempts 1 due 20s outcome timed_out
            take a/2; done a/2                          # a retry delays no other URL of its host
            pass 20s-1ms; none; pass 1ms; take a/1; taken a/1 attempt 2 error timed_out item a/1
        ",
        a_deferral_counts_nothing: "
            add a; take a; fail a timed_out
            repeat 9: take a; taken a attempt 2 error timed_out; defer a 1s = deferred; entry a state pending due 1s attempts 1; pass 1s
            take a; defer a 0s; take a; defer a -20s; take a; defer a 0s   # a deferral into the past is due now
            counts 1 0 0 0; outcomes
        ",
        a_deferral_holds_its_host_back: "
            add a/1 a/2; pass 1ms; add b; next 1 1 = a/1; defer a/1 20s; take b
            add a/3; pass 20s-1ms; none                 # new URLs of the host included
            pass 1ms; next 10 3 = 3
        ",
        a_deferred_url_comes_first_of_its_host: "
            add a/1 a/2 a/3; pass 1s; take a/1
            repeat 3: defer a/1 20s; pass 20s; take a/1 # the others would only be deferred behind it
            done a/1; take a/2; defer a/2 1s; pass 20s; next 10 3 = ordered a/2 a/3
        ",
        a_url_that_waits_by_itself_delays_no_other: "
            add a/1 a/2; next 1 1 = a/1; wait a/1 20s = deferred; take a/2; done a/2
            pass 20s-1ms; none; pass 1ms; take a/1; taken a/1 attempt 1
        ",
        the_last_attempt_is_dead_with_its_errors: "
            add a
            take a; taken a attempt 1; pass 1s; fail a error_1 = retrying 2
            take a; taken a attempt 2; pass 1s; fail a error_2 = retrying 3
            take a; taken a attempt 3; pass 1s; fail a error_3 = dead
            none; entry a state dead; dead a; deadinfo a item a attempts 3 at now first error_1 last error_3
        ",
        a_dead_verdict_is_final: "
            add a; take a; fail a timed_out; take a; reject a = dead; pass 20s; none
            dead a; deadinfo a reason gone attempts 2 first timed_out last gone; counts 0 0 0 1
        ",
        settling_twice_has_no_effect: "
            add a w; take a w; done a; fenced a
            add b x; take b x; retry b 20s; fenced b
            add c y; take c y; reject c; fenced c
            add d z; take d z; defer d 20s; fenced d
        ",
        a_made_up_receipt_has_no_effect,
        counts_follow_every_step: "
            counts 0 0 0 0; add a b c d e; counts 5 0 0 0; next 4 1 -> p q r s; counts 1 4 0 0
            done p; counts 1 3 1 0; retry q 1s; counts 2 2 1 0; defer r 1s; counts 3 1 1 0; reject s; counts 3 0 1 1
            fetched 1; pass 1s; end_all; counts 0 0 4 1; is finished
        ",
        outcomes_are_counted: "
            add a b c; next 3 1 -> p q r
            done p fetched=no crawled=-19s; done q fetched=no outcome=left_out; done r fetched=no
            outcomes left_out 1 published 2; pass 1s; reopen due = 1
            next 10 1 -> p; done p fetched=no outcome=unchanged
            outcomes left_out 1 published 2 unchanged 1; counts 0 0 3 0
        ",
    }
    leases {
        a_lease_is_stated_and_kept_and_extended: "
            add a; take a; taken a lease 60s
            repeat 4: pass 60s-1ms; none; extend a = yes
            pass 60s-1ms; none; done a; entry a state done attempts 1
        ",
        a_lost_lease_comes_back_and_fences_its_worker: "
            add a; take a; pass 60s+1ms; take a; taken a item a losses 1 error * lease 60s; counts 0 1 0 0
            fenced a~; extend a~ a = no yes; done a; fenced a~; entry a state done
        ",
        settling_after_the_lease_counts_until_it_is_taken_over:
            "add a; take a; pass 180s; done a; counts 0 0 1 0; is finished",
        extending_a_lost_lease_is_refused: "
            add a b; next 1 1 -> p; pass 30s; next 1 1 -> q; pass 30s+1ms; next 10 1 -> r; taken r item p
            extend q p r = yes no yes
        ",
        taking_back_returns_all_at_once: "
            back = 0; add a b c d; next 3 1 -> p q r; done p; pass 1ms; back = 2; counts 3 0 1 0
            fenced q; extend r = no; next 10 1 -> x y z; losses x y z = 0 1 1
        ",
    }
    suspects {
        a_lost_worker_counts_no_attempt: "
            crawl lost; add a
            repeat 8: take a; taken a attempt 1; pass 60s+1ms
            take a; taken a attempt 1 losses 8; done a; entry a attempts 1; counts 0 0 1 0
            crawl back; add back:b
            repeat 8: take back:b; taken back:b attempt 1; back = 1
            take back:b; taken back:b attempt 1 losses 8; done back:b; entry b attempts 1; counts back: 0 0 1 0
        ",
        retries_count_between_lost_workers: "
            add a
            take a; taken a attempt 1; pass 60s+1ms; take a; taken a attempt 1; back = 1; take a; taken a attempt 1 losses 2
            fail a failure_1; take a; taken a attempt 2; pass 60s+1ms; take a; taken a attempt 2; back = 1
            take a; taken a attempt 2 losses 4; fail a failure_2
            take a; taken a attempt 3; pass 60s+1ms; take a; taken a attempt 3; back = 1; take a; taken a attempt 3 losses 6
            fail a failure_3; dead a; deadinfo a attempts 3 lost no last failure_3 first *
        ",
        suspects_come_in_halving_groups,
        a_url_that_kills_its_worker_alone_ends_dead: "
            crawl one; crawl two; add a; take a; pass 60s+1ms; take a; alone a; pass 60s+1ms; take a; alone a; pass 60s+1ms; none
            counts 0 0 0 1; is finished; deadinfo a item a attempts 1 lost yes last *
            add two:a; take two:a; back = 1; take two:a; alone two:a; back = 1; take two:a; alone two:a; back = 1; none
            counts two: 0 0 0 1; is two: finished; deadinfo two:a item two:a attempts 1 lost yes last *
        ",
        a_url_settled_alone_counts_no_crash: "
            add a; take a; alone a; back = 1
            take a; alone a; retry a 0s; take a; back = 1
            take a; alone a; defer a 0s; take a; back = 1
            take a; alone a; wait a 0s; take a; back = 1
            take a; alone a; reject a; dead a; deadinfo a attempts 2 lost no; counts 0 0 0 1
        ",
        a_lost_worker_ends_being_alone: "
            add a; take a; pass 60s+1ms; take a; back = 1; take a; pass 60s+1ms; take a; back = 1
            take a; alone a; pass 60s+1ms; take a; pass 60s+1ms; take a; back = 1; take a; done a
        ",
        solo_crashes_outlive_a_retry_and_end_with_a_replay: "
            add a; take a; alone a; back = 1; take a; retry a 0s; take a; alone a; pass 60s+1ms; none
            deadinfo a attempts 2 lost yes; replay a = yes
            take a; taken a attempt 1 losses 0; alone a; back = 1; take a; done a      # solo crashes are counted anew
        ",
        a_url_that_starts_over_is_no_suspect: "
            add a; take a; alone a; back = 1; end_all; reopen urls a = 1               # it was done,
            take a; alone a; pass 60s+1ms; take a; alone a; pass 60s+1ms; none; reopen urls a = 1      # it was dead,
            take a; taken a attempt 1 losses 0; back = 1; take a; alone a; back = 1
            take a; alone a; insist a = yes; take a; taken a attempt 1 losses 0; back = 1    # and it is insisted on
            take a; alone a; back = 1; end_all; counts 0 0 1 0
        ",
        suspicion_survives_a_reopening: "
            add a; take a; taken a losses 0; alone a; restart; back = 1; take a; taken a losses 1; alone a; restart; back = 1
            none; restart; dead a; deadinfo a lost yes; counts 0 0 0 1
        ",
        alone_is_fenced_after_a_lost_lease: "
            add a; take a; back = 1; alone a = no; take a; alone a~ = no
            pass 60s+1ms; alone a = yes; done a; alone a = no; counts 0 0 1 0          # it was not taken back yet
        ",
    }
    again {
        insisting_counts_once_and_sets_a_finished_crawl_running: "
            add a!; add b; end_all; insist a = no; is finished; insist b = yes; is running; end_all; is finished
            fetched 2; insist b = no; insist unknown = no; entry b state done; none
        ",
        nothing_is_reopened_before_it_is_due_again: "
            add a b; next 2 1 -> p q; done p crawled; done q; pass 20s-1ms; snapshot; reopen due = 0; unchanged
            pass 1ms; reopen due = 1; reopen due = 0
        ",
        a_url_that_is_due_again_waits_again: "
            add a b; take a b; done a crawled; reject b; is finished; pass 20s; none
            reopen due = 1; is running; counts 1 0 0 1; take a; taken a item a; done a; is finished
        ",
        a_reopened_url_starts_over: "
            add a; take a; fail a timed_out; take a; done a crawled; pass 20s; reopen due = 1
            take a; taken a attempt 1; fail a error_1; take a; taken a attempt 2; fail a error_2
            take a; taken a attempt 3; fail a error_3; dead a; deadinfo a first error_1
        ",
        reopening_resumes_a_cancelled_crawl:
            "add a b c d; next 2 1 -> p q; done p; reject q; set cancelled; reopen due = 0; is running; next 10 1 = 2",
        urls_are_reopened_by_name_or_outcome: "
            crawl crawl; crawl other; add a b c; add other:a
            take a b c other:a; done a; reject b; done c; done other:a
            reopen outcome another = 0; reopen outcome published = 2; end_all
            reopen urls a b unknown = 2; is running; counts 2 0 1 0
            take a b; taken a attempt 1; taken b attempt 1; reopen urls a b unknown = 0
        ",
        urls_reopened_to_be_sent_whole_have_no_validators: "
            add a b c; take a b c
            done a crawled etag=x modified=y links=; done b crawled etag=x modified=y; done c fetched=no crawled etag=x modified=y
            reopen without_links = 1; take b; taken b etag none modified none; done b; reopen all = 3; take a b c
            taken a etag none modified none; taken b etag none modified none; taken c etag none modified none
        ",
        links_are_kept_with_their_page,
        validators_are_kept_and_handed_out: "
            add a
            take a; taken a etag none modified none; fail a timed_out; take a; taken a etag none modified none
            done a crawled etag=first modified=Tue; pass 20s; reopen due = 1
            take a; taken a etag first modified Tue; fail a timed_out; take a; taken a etag first modified Tue
            done a crawled modified=later; pass 20s; reopen due = 1
            take a; taken a etag none modified later; fail a timed_out; take a; taken a etag none modified later
            done a crawled; pass 20s; reopen due = 1; take a; taken a etag none modified none
        ",
        a_page_fetched_again_counts_once: "
            crawl limited max 2; add a
            repeat 4: take a; done a crawled; fetched 1; pass 20s; reopen due = 1; fetched 0
            outcomes published 4
        ",
        insisting_makes_a_url_wait_again: "
            add a; pass 1ms; add b; pass 1ms; add c; pass 1ms; next 2 1 = a b; done a; reject b
            insist a = yes; insist b = yes; insist c = yes; counts 3 0 0 0; dead
            take a b c; taken a insist yes attempt 1; taken b insist yes attempt 1; taken c insist yes attempt 1
        ",
        urls_left_out_for_a_canonical_one_are_found_by_it,
        insisting_takes_a_url_from_its_worker: "
            add a; take a; insist a = yes; counts 1 0 0 0; fenced a
            take a; taken a insist yes attempt 1; fenced a~; extend a~ a = no yes; done a
        ",
        a_url_is_found_in_every_crawl,
    }
    dead {
        the_dead_are_listed_oldest_first_and_page: "
            dead; add a b c d e f g; take a b c d e f g; pass 1s; reject g; pass 1s; reject f; pass 1s; reject e; pass 1s
            reject d; pass 1s; reject c; pass 1s; reject b; pass 1s; reject a; dead g f e d c b a
        ",
        paging_goes_on_after_an_entry_that_is_gone,
        the_dead_of_one_crawl_are_listed: "
            crawl one; crawl two; add a b c; take a b c; pass 1s; reject c; pass 1s; reject b; pass 1s; reject a
            add two:a two:b two:c; take two:a two:b two:c; pass 1s; reject two:c; pass 1s; reject two:b; pass 1s; reject two:a
            dead one: c b a; dead two: two:c two:b two:a; dead c b a two:c two:b two:a
            counts 0 0 0 3; counts two: 0 0 0 3
        ",
        a_replayed_url_starts_over: "
            add a
            take a; taken a item a attempt 1; fail a first_1; take a; taken a attempt 2; fail a first_2; take a; taken a attempt 3
            fail a first_3; deadinfo a first first_1; pass 1s; replay a = yes; dead; counts 1 0 0 0
            take a; taken a item a attempt 1; fail a second_1; take a; taken a attempt 2; fail a second_2; take a
            fail a second_3; deadinfo a first second_1; pass 1s; replay a = yes; dead; counts 1 0 0 0
        ",
        replays_are_counted: "
            add a; take a; taken a replays 0; reject a; deadinfo a replays 0; pass 1s; replay a = yes
            take a; taken a replays 1; reject a; deadinfo a replays 1; pass 1s; replay a = yes
            take a; taken a replays 2; reject a; deadinfo a replays 2
        ",
        a_replay_sets_a_finished_crawl_running: "
            crawl one; crawl two; add a; take a; pass 1s; reject a; is finished
            add two:a two:b; next 1 1 -> p; reject p; set two: paused; replay a p = yes yes
            is running; is two: paused; take a; taken a item a; done a; is finished
        ",
        only_the_dead_are_replayed: "
            add x y; take x y; pass 1s; reject y; pass 1s; reject x
            crawl other; add other:a other:b other:c; next 2 1 -> p q; done p; snapshot other:
            replay p x q unknown x y = no yes no no no yes; unchanged; counts 2 0 0 0
        ",
        a_dropped_url_is_known_as_done: "
            add a b c; take a b c; pass 1s; reject c; pass 1s; reject b; pass 1s; reject a
            drop b unknown b = yes no no; dead c a; counts 0 0 1 2; entry b state done; add b = known; is finished; replay b = no
        ",
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
        handles_share_their_state: "
            add a/1 a/2 a/3; elsewhere; add a/1 = known; take a/1
            here; next 10 1 = 0; extend a/1 = yes; defer a/1 20s     # it is in flight elsewhere
            elsewhere; none; pass 20s; set paused; here; none; counts 3 0 0 0
        ",
        everything_survives_a_reopening,
        leases_survive_a_reopening: "
            add a; pass 1ms; add b; pass 1ms; add c; pass 1ms; next 2 1 -> p q; restart; next 10 1 -> r; done p
            pass 59s; done r; pass 1s+1ms; next 10 1 -> s; taken s item q losses 1
            restart; back = 1; next 10 1 -> s; taken s losses 2
        ",
    }
    load {
        racing_workers_share_without_overlap,
        a_crawl_by_many_ends_with_everything_done_once,
    }
    schedule {
        any_schedule_agrees_with_the_model,
    }
}
