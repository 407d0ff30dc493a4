//! The suite of the inventory records can fail: every case finds a deliberate breach of the contract, and every breach is
//! found.

mod inventory_oracle;

use crawlway_store::conformance::inventory::{CASES, run};
use inventory_oracle::{Fault, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on a store with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(fault));
    });
}

crawlway_conformance::finds! {
    beginning {
        a_new_url_makes_a_record_in_progress: StaysQueued;
        a_redelivery_begins_a_further_attempt_and_counts_nothing: CountsCrashes, ReusesNumbers, MakesAnew;
        a_redelivery_after_a_failure_keeps_the_count: ResetsOnRedelivery, ClearsErrorOnRedelivery;
        a_completed_message_is_finished: FetchesAgain;
        a_message_that_failed_for_good_is_finished: TriesTheDeadAgain;
        a_newer_message_is_counted_anew: KeepsCountForNewer, KeepsErrorForNewer, BeginningClearsThePage;
        a_newer_message_takes_over_what_is_in_progress: WaitsForTheOlder;
        records_of_urls_are_apart: CountsByMessage;
        odd_urls_and_messages_are_kept_apart: FoldsCase;
        a_message_without_an_id_is_refused: TakesEmptyIds;
        a_url_too_long_is_refused: TakesAnyLength;
    }
    queueing {
        an_accepted_message_makes_a_queued_record: QueuesNothing;
        a_finished_record_is_queued_by_a_newer_message_and_keeps_its_page: QueueingClearsThePage;
        the_tries_of_a_queued_message_are_counted_anew: QueueingKeepsTheCount;
        queueing_after_the_beginning_changes_nothing: QueuesWhatIsInProgress;
        queueing_after_its_own_end_changes_nothing: QueuesItsOwnEnd;
        queueing_an_older_message_changes_nothing: QueuesOlder;
        queueing_twice_changes_nothing: QueuesAgain;
        a_queued_message_is_refused_as_one_that_begins: QueuesAnything;
    }
    order {
        an_older_message_is_superseded: TakesOlder, TakesOlderAfterTheEnd;
        a_finished_message_is_superseded_by_a_newer_one: TakesOlder;
        a_failed_message_is_superseded_by_a_newer_one: TakesOlder;
        of_one_time_the_greater_id_is_newer: TiesGoToTheLatest, OrdersWithoutCase;
        a_time_in_the_future_is_that_of_its_beginning: BelievesTheFuture;
    }
    ending {
        what_was_fetched_comes_back: DropsCookies, EndIsAnAttempt;
        nothing_fetched_is_nothing_kept: EmptyIsMissing;
        completing_twice_is_answered_alike: CompletesAgain;
        failures_are_counted_up_to_the_last: OneTryMore, DropsErrors;
        failing_twice_counts_once: CountsAgain;
        the_first_end_counts: LastEndCounts;
        an_attempt_overtaken_by_its_own_message_changes_nothing: IgnoresNumbers;
        an_attempt_overtaken_by_a_newer_message_changes_nothing: IgnoresMessages;
        a_record_that_is_not_there_is_lost: LostIsOvertaken;
        the_tries_allowed_are_the_callers: ThreeTriesAlways;
        a_completion_clears_the_error: KeepsErrors;
        a_failure_keeps_what_was_fetched_before: FailureClearsThePage;
        a_completion_replaces_all_that_was_fetched_before: MergesPages;
    }
    content {
        odd_texts_come_back: TrimsTexts;
        odd_names_come_back: DropsOddNames;
        numbers_and_nesting_come_back: MakesNumbersFloat;
        a_nul_becomes_a_replacement_character: KeepsWhatItGets;
        a_number_too_large_becomes_floating: KeepsWhatItGets;
        a_long_error_is_cut: KeepsLongErrors;
        details_cannot_change_our_notes: KeepsWhatItGets;
        the_largest_record_is_kept: RefusesAMegabyte;
        a_record_too_large_is_refused_and_can_fail: KeepsWhatItGets, TooLargeIsAnEnd;
        a_record_too_deep_is_refused: KeepsWhatItGets;
    }
    listing {
        the_newest_comes_first: OldestFirst, ByLastChange;
        records_of_one_time_are_in_order_of_their_ids: SmallestIdFirst;
        a_range_has_its_start_and_not_its_end: RangeHasItsEnd, RangeLacksItsStart;
        a_status_is_picked: AnyStatus;
        pages_have_every_record_once: SkipsTies, RepeatsTies, PagesByCount;
        a_page_has_no_more_than_asked: AlwaysMore, SourcesWithoutLimit;
        sources_are_left_out_unless_asked_for: SourcesAlways, SourcesNever;
        records_are_counted_by_status: CountsTheFinished;
    }
    load {
        handles_share_their_state: HandlesApart;
        records_survive_a_reopening: LosesEverything;
        an_open_store_is_ready: NeverReady;
        racing_deliveries_have_attempts_of_their_own: RacesItself;
        racing_first_messages_make_one_record: RacesItself, TakesOlder;
        racing_failures_of_one_attempt_count_once: CountsAgain;
        racing_ends_agree: RacesItself, LastEndCounts;
        workers_on_one_record_finish_it_once: RacesItself, IgnoresNumbers;
    }
    schedule {
        any_schedule_agrees_with_the_model: TakesOlder, CountsAgain, IgnoresNumbers, FetchesAgain;
    }
}
