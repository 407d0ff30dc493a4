//! Suite of the inventory records.

mod beginning;
mod content;
mod ending;
mod fixture;
pub mod kill;
mod listing;
mod load;
mod order;
mod queueing;
mod schedule;

use crawlway_store::UrlRecords;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn UrlRecords>;

suite! { ($) inventory for dyn UrlRecords:
    beginning {
        a_message_that_has_ended_is_finished,
        a_new_url_makes_a_record_in_progress,
        a_redelivery_begins_a_further_attempt_and_counts_nothing,
        a_redelivery_after_a_failure_keeps_the_count,
        a_newer_message_is_counted_anew,
        a_newer_message_takes_over_a_record_in_progress,
        records_of_urls_are_apart,
        odd_urls_and_messages_are_kept_apart,
        a_message_without_an_id_is_refused,
        a_url_too_long_is_refused,
    }
    queueing {
        queueing_changes_nothing_but_what_is_finished_and_older,
        an_accepted_message_makes_a_queued_record,
        a_finished_record_is_queued_by_a_newer_message_and_keeps_its_page,
        the_tries_of_a_queued_message_are_counted_anew,
        a_queued_message_is_refused_as_one_that_begins,
    }
    order {
        an_older_message_is_superseded,
        a_finished_message_is_superseded_by_a_newer_one,
        a_failed_message_is_superseded_by_a_newer_one,
        of_one_time_the_greater_id_is_newer,
        a_time_in_the_future_is_that_of_its_beginning,
    }
    ending {
        a_fetched_page_comes_back,
        nothing_fetched_is_nothing_kept,
        completing_twice_is_answered_alike,
        failures_are_counted_once_each_up_to_the_last,
        the_first_end_counts,
        an_attempt_overtaken_by_its_own_message_changes_nothing,
        an_attempt_overtaken_by_a_newer_message_changes_nothing,
        a_record_that_is_not_there_is_lost,
        the_tries_allowed_are_the_callers,
        a_failure_keeps_the_page_fetched_before,
        a_completion_replaces_all_of_the_page_before,
    }
    content {
        odd_texts_come_back,
        odd_names_come_back,
        numbers_and_nesting_come_back,
        a_nul_becomes_a_replacement_character,
        a_number_too_large_becomes_floating,
        a_long_error_is_cut,
        details_cannot_change_our_notes,
        the_largest_record_is_kept,
        a_record_too_large_is_refused_and_can_fail,
        a_record_too_deep_is_refused,
    }
    listing {
        the_newest_comes_first,
        records_of_one_time_are_in_order_of_their_ids,
        a_range_has_its_start_and_not_its_end,
        a_status_is_picked,
        pages_have_every_record_once,
        a_page_has_no_more_than_asked,
        sources_are_left_out_unless_asked_for,
        records_are_counted_by_status,
    }
    load {
        handles_share_their_state,
        records_survive_a_reopening,
        an_open_store_is_ready,
        racing_deliveries_have_attempts_of_their_own,
        racing_first_messages_make_one_record,
        racing_failures_of_one_attempt_count_once,
        racing_ends_agree,
        workers_on_one_record_finish_it_once,
    }
    schedule {
        any_schedule_agrees_with_the_model,
    }
}
