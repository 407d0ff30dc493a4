//! Suite of the trails.

mod entries;
mod expiry;
mod fixture;
mod load;
mod open;

use crawlway_store::Trails;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn Trails>;

suite! { ($) trails for dyn Trails:
    entries {
        every_field_comes_back,
        notes_and_errors_are_kept_apart_and_replays_are_counted,
        an_unknown_item_has_no_trail,
        an_empty_batch_adds_nothing,
        a_trail_is_in_order_of_time,
        entries_of_one_time_are_in_the_order_they_were_added,
        terminal_entries_are_the_last_of_their_time,
        trails_of_items_are_apart,
        a_subject_has_the_whole_trails_of_its_items,
        the_item_with_the_latest_entry_comes_first,
        a_subject_shows_no_more_items_than_asked,
        odd_texts_come_back,
        a_nul_does_not_fail_the_call,
        a_large_batch_is_kept,
    }
    open {
        a_trail_is_open_until_its_latest_entry_closes_it,
        open_items_are_in_order_of_their_octets,
        no_more_open_items_than_asked,
    }
    expiry {
        retention_removes_only_older_entries,
        retention_removes_no_more_than_asked_oldest_first,
        retention_of_entries_of_one_time_is_in_the_order_of_the_trail,
        an_expired_trail_is_not_open,
        expiring_in_parts_opens_nothing,
    }
    load {
        handles_share_their_state,
        entries_survive_a_reopening,
        racing_writers_lose_nothing,
    }
}
