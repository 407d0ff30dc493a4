//! The suite of the trails can fail: every case finds a deliberate breach of the contract, and every breach is found.

mod trails_oracle;

use crawlway_store::conformance::trails::{CASES, run};
use trails_oracle::{Fault, OracleHarness};

/// Runs the case on the oracle with this fault and expects it to fail for a reason that it states.
fn is_found(fault: Fault, module: &str, case: &str) {
    crawlway_conformance::must_fail(&format!("{module}::{case} on a store with {fault:?}"), || {
        run(module, case, async || OracleHarness::new(fault));
    });
}

crawlway_conformance::finds! {
    entries {
        every_field_comes_back: DropsErrors;
        notes_and_errors_are_kept_apart_and_replays_are_counted: NotesAreErrors;
        an_unknown_item_has_no_trail: FindsItemsBySubject;
        an_empty_batch_adds_nothing: RefusesEmpty;
        a_trail_is_in_order_of_time: OrderOfAdding, LatestFirst;
        entries_of_one_time_are_in_the_order_they_were_added: SortsWithinOneTime;
        trails_of_items_are_apart: FoldsCase;
        a_subject_has_the_whole_trails_of_its_items: SubjectEntriesOnly, OneSubjectPerItem;
        the_item_with_the_latest_entry_comes_first: OldestItemFirst, SubjectTimesOnly;
        a_subject_shows_no_more_items_than_asked: LimitsEntries;
        odd_texts_come_back: TrimsTexts;
        a_nul_does_not_fail_the_call: RefusesNul;
        a_large_batch_is_kept: KeepsAThousand;
    }
    open {
        what_does_not_close_a_trail_opens_it: RetriesClose;
        what_closes_a_trail_closes_it: DeadStaysOpen, RemembersOpenItems;
        an_entry_later_than_the_end_opens_it_again: EndsAreFinal;
        time_counts_and_not_the_order_of_adding: LastAddedCounts;
        an_end_of_the_same_time_closes: TiesStayOpen, LastAddedCounts;
        open_items_are_in_order_of_their_octets: OrderWithoutCase;
        no_more_open_items_than_asked: OpenWithoutLimit;
    }
    expiry {
        what_is_older_goes_and_the_rest_stays: ExpiresTheTimeToo;
        no_more_than_asked_goes_oldest_first: ExpiresWithoutLimit, ExpiresLatestFirst;
        an_expired_trail_is_not_open: RemembersOpenItems;
        expiring_in_parts_opens_nothing: ExpiresByAdding;
    }
    load {
        handles_share_their_state: HandlesApart;
        entries_survive_a_reopening: LosesEverything;
        racing_writers_lose_nothing: RacesItself;
    }
}
