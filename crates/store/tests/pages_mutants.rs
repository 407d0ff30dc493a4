//! The suite of the page index can fail: every case finds a deliberate breach of the contract, and every breach is
//! found.

mod pages_oracle;

use crawlway_store::conformance::pages::{CASES, run};
use pages_oracle::{Fault, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on an index with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(fault));
    });
}

crawlway_conformance::finds! {
    writing {
        every_field_comes_back: DropsDescription, SignsSimhash;
        a_page_replaces_the_one_of_its_url: KeepsTheFirst, KeepsBoth, CountsWrites;
        of_two_in_a_batch_the_later_counts: FirstOfABatchCounts, KeepsBoth;
        writing_again_changes_nothing: SecondWriteForgets, CountsWrites;
        a_page_can_be_found_once_it_is_written: FoundLater, FindsByPrefix;
        a_replaced_page_is_found_by_what_it_says_now: FoundByOldText, FoundWhenRemoved;
    }
    precedence {
        an_older_page_does_not_replace_a_newer_one: IgnoresTimes;
        of_two_in_a_batch_the_one_crawled_later_counts: IgnoresTimesInABatch;
        of_two_crawled_at_the_same_time_the_later_arrival_counts: EqualTimesKeepTheFirst;
        a_time_far_ahead_counts_as_the_time_of_receipt: TrustsTheFuture;
        a_removed_page_is_brought_back_by_a_newer_one_only: ForgetsRemovals;
        a_removal_counts_for_messages_that_are_still_to_come: OnlyPagesLeaveTombstones;
        a_removal_leaves_what_was_crawled_after_it: RemovesWhatCameLater;
        the_order_of_time_survives_a_reopening: TombstonesAreInMemory;
    }
    reading {
        an_unknown_url_is_none: FoldsCase;
        pages_are_counted: CountsWrites;
        a_scan_is_in_order_of_url_and_goes_on: ScanByText, ScanWithoutLimit;
        a_scan_goes_on_after_what_is_gone: ScanNeedsItsStart;
        removing_says_how_many_there_were: RemoveCountsAsked;
        a_removed_page_is_gone_and_may_come_again: RemoveIsForEver;
        pages_that_match_are_listed_in_order_of_url: MatchesAll, MatchesFromTheStart;
    }
    batches {
        empty_batches_are_allowed: RefusesEmpty;
        odd_urls_are_kept_apart: FoldsCase, CutsLongUrls;
        odd_texts_come_back: TrimsTexts;
        a_big_page_is_kept: CutsBigPages, RefusesLongWords;
        a_large_batch_is_kept: KeepsAThousand;
    }
    shared {
        handles_share_their_pages: HandlesApart;
        pages_survive_a_reopening: LosesTheLast, LosesWithoutClose;
        pages_survive_a_close: CloseForgets;
        racing_writers_lose_nothing: RacesItself;
    }
}
