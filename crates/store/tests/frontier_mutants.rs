//! The suite of the frontier can fail: every case finds a deliberate breach of the contract, and every breach is found.

mod frontier_oracle;

use crawlway_store::conformance::frontier::{CASES, run};
use frontier_oracle::{Fault, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on a frontier with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(fault));
    });
}

crawlway_conformance::finds! {
    crawls {
        a_new_crawl_runs_and_is_empty: StartsPaused;
        opening_again_changes_nothing: OpenReplaces;
        an_unknown_crawl_is_none: FoldsCrawlCase;
        crawls_are_listed_newest_first_and_page: OldestCrawlFirst;
        a_paused_crawl_hands_out_nothing: PauseIsIgnored, DueIgnoresPause;
        a_cancelled_crawl_stays_so_until_it_is_set_running: CancelledCanBePaused;
        what_is_in_flight_is_finished_nevertheless: PauseLosesFlights;
        a_crawl_is_finished_when_nothing_waits_or_flies: FinishIgnoresFlights, NeverFinishes;
        a_link_added_before_its_parent_is_settled_keeps_it_running: FinishIgnoresWaiting;
        the_dead_do_not_keep_it_running: DeadKeepRunning;
        a_finished_crawl_stays_finished: FinishedCanRun;
        nobody_can_finish_a_crawl_by_hand: FinishesByHand;
        a_new_url_sets_a_finished_crawl_running: AddLeavesFinished;
        two_crawls_are_kept_apart: OneCrawlForAll;
        terms_are_changed_by_who_knows_them: TermsIgnoreRevision;
        a_crawl_gets_another_name_if_it_is_free: RenameTakesAny;
        a_deleted_crawl_leaves_nothing_behind: DeleteKeepsUrls;
        the_urls_of_a_crawl_are_listed_by_outcome: ListsAnyOutcome;
    }
    adding {
        a_new_url_is_handed_out_as_it_was_added: ForgetsDepth;
        a_known_url_stays_as_it_is: AddReplaces;
        what_is_done_or_dead_is_known: DoneIsUnknown;
        a_url_twice_in_a_batch_is_known_the_second_time: BatchAddsTwice;
        a_budget_lets_in_so_many: BudgetOneMore;
        a_known_url_charges_no_budget: KnownIsCharged;
        who_is_over_budget_is_not_known: OverBudgetIsKnown;
        what_was_left_out_is_counted_by_reason: LeftOutUnderOneName;
        an_unknown_crawl_is_refused: UnknownCrawlIsMade;
        no_more_wait_than_a_crawl_may_have: WaitsWithoutEnd, TooManyIsFinal;
        no_more_of_one_host_wait_than_it_may_have: HostWaitsWithoutEnd;
        what_waits_is_counted_through_every_step: FlightsFillTheRoom;
        a_small_page_limit_keeps_few_waiting: PageLimitKeepsAll;
    }
    taking {
        no_more_than_asked_for: OneMoreThanAsked;
        no_url_is_handed_out_twice: HandsOutTwice;
        who_has_waited_longest_comes_first: HostsByName;
        a_host_that_was_served_queues_up_again: OldestUrlFirst;
        urls_of_a_host_come_in_the_order_they_became_due: UrlsByName;
        no_more_of_a_host_than_allowed_in_flight: PerCallLimit;
        a_host_is_counted_per_crawl: HostsAcrossCrawls;
        a_slow_host_starves_nobody: FirstInFirstOut;
        a_resting_host_is_left_alone: RestIsIgnored;
        a_longer_rest_is_not_cut_short: LastRestCounts;
        the_next_due_time_is_told: DueIgnoresRest;
    }
    limit {
        no_more_than_may_be_fetched_are_in_flight: InFlightIsFree;
        what_was_not_fetched_counts_nothing: DoneCountsAsFetched;
        what_comes_back_makes_room: LimitCountsTakings;
        a_crawl_that_has_fetched_all_it_may_is_limited: LimitNeverFinishes, LimitedIsFinished;
        a_limit_of_nothing_fetches_nothing: ZeroIsNoLimit;
        a_used_up_limit_keeps_a_crawl_limited: FullRunsAgain;
        a_raised_limit_goes_on_with_what_waits: TermsLeaveLimited;
    }
    settling {
        done_is_done: DueAgainWaits, DropsCanonical;
        a_retry_waits_and_counts: RetryAtOnce, RetryCountsNothing;
        a_retry_holds_up_nobody_else: RetryHoldsHost;
        a_deferral_counts_nothing: DeferCounts;
        a_deferral_holds_its_host_back: DeferHoldsNobody;
        who_was_deferred_comes_first_of_its_host: DeferGoesBehind;
        what_waits_alone_holds_nobody_back: WaitHoldsHost, DeferCounts;
        a_deferral_into_the_past_is_due_now: RefusesThePast;
        the_last_attempt_is_dead_with_its_errors: OneMoreAttempt, ForgetsFirstError;
        a_dead_verdict_is_final: DeadIsRetried;
        settling_twice_has_no_effect: SettlesTwice;
        a_made_up_receipt_has_no_effect: IgnoresTaking;
        counts_follow_every_step: FlightsCountAsWaiting;
        outcomes_are_counted: LastOutcomeOnly;
    }
    leases {
        the_lease_is_stated_and_kept: LeaseEndsEarly;
        a_lost_lease_comes_back: LeaseNeverEnds, ForgetsLosses;
        settling_after_a_lost_lease_has_no_effect: IgnoresTaking;
        settling_late_counts_while_nobody_has_taken_it_back: LateIsLost;
        extending_keeps_a_url: ExtendDoesNothing;
        extending_what_was_lost_is_refused: ExtendAlwaysTrue;
        taking_back_returns_all_at_once: TakeBackIsKind;
    }
    suspects {
        a_lost_lease_counts_no_attempt: CountsLostLease, ForgetsLosses;
        taking_back_counts_no_attempt: CountsTakenBack, TakeBackIsKind;
        retries_count_between_lost_workers: CountsLostLease, CountsTakenBack, RetryForgetsLosses;
        suspects_come_in_halving_groups: SuspectsComeTogether;
        what_kills_its_worker_alone_ends_dead: IgnoresAlone, DiesOfNothing, OnlySettleFinishes;
        what_is_settled_alone_counts_nothing: AloneForEver;
        a_lost_worker_ends_being_alone: AloneForEver;
        solo_crashes_outlive_a_retry_and_end_with_a_replay: RetryForgetsLosses, AnewKeepsLosses;
        who_begins_anew_is_no_suspect: AnewKeepsLosses;
        suspicion_survives_a_reopening: LosesSuspicion;
        alone_is_fenced_for_who_has_lost_it: AloneForAnybody;
    }
    again {
        nothing_is_reopened_before_it_is_due_again: ReopensEverything;
        what_is_due_again_waits_again: ReopenStaysFinished;
        what_was_reopened_starts_over: ReopenKeepsAttempts;
        reopening_takes_up_what_was_cancelled: ReopenLeavesCancelled;
        what_is_named_or_has_an_outcome_waits_again: ReopensNoDead;
        what_is_to_be_sent_whole_waits_without_validators: ReopenStaysFinished;
        links_are_kept_with_their_page: DropsLinks;
        validators_are_kept_and_handed_out: DropsValidators;
        a_page_fetched_again_counts_once: FetchedCountsEach;
        insisting_makes_a_url_wait_again: InsistOnDoneOnly;
        insisting_twice_has_no_effect: InsistsAgain;
        what_was_left_out_for_a_url_is_found_by_it: DropsCanonical;
        insisting_sets_a_finished_crawl_running: InsistLeavesFinished;
        insisting_takes_a_url_from_its_worker: InsistLeavesFlights;
        what_is_known_of_a_url_is_found: OldestCrawlFirst;
    }
    dead {
        the_dead_are_listed_oldest_first_and_page: DeadByItem;
        paging_goes_on_after_what_is_gone: CursorMustExist;
        the_dead_of_one_crawl_are_listed: DeadOfAll;
        a_replayed_url_starts_over: ReplayKeepsAttempts;
        replays_are_counted: ReplaysAreNotCounted;
        a_replay_sets_a_finished_crawl_running: ReplayLeavesFinished;
        only_the_dead_are_replayed: ReplaysAnything;
        what_is_dropped_is_known_as_done: DropForgets;
    }
    batches {
        empty_batches_are_answered_empty: RefusesEmpty;
        answers_are_in_order: AnswersReversed;
        odd_urls_are_kept_apart: FoldsCase;
        odd_texts_come_back: TrimsTexts;
        a_nul_does_not_fail_the_call: RefusesNul;
        a_large_batch_is_taken: RefusesLarge;
    }
    shared {
        handles_share_their_state: HandlesApart;
        everything_survives_a_reopening: LosesBudgets;
        leases_survive_a_reopening: ReopenTakesBack;
    }
    load {
        racing_workers_share_without_overlap: RacesItself;
        a_crawl_by_many_ends_with_everything_done_once: LosesLinks;
    }
    schedule {
        any_schedule_agrees_with_the_model: RestIsIgnored, LastRestCounts, PerCallLimit, DeferCounts, LeaseNeverEnds,
            LeaseEndsEarly, CountsLostLease, ForgetsLosses, IgnoresAlone, IgnoresTaking, ExtendDoesNothing,
            OneMoreAttempt, TakeBackIsKind, ReplayKeepsAttempts, SettlesTwice, FlightsCountAsWaiting;
    }
}
