//! Suite of the page index as a store. Searching has the suite [`search`](mod@crate::search).

mod batches;
mod fixture;
mod precedence;
mod reading;
mod shared;
mod writing;

use crawlway_store::PageIndex;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn PageIndex>;

suite! { ($) pages for dyn PageIndex:
    writing {
        every_field_comes_back,
        a_page_replaces_the_one_of_its_url,
        of_two_crawled_at_one_time_the_later_arrival_counts,
        writing_again_changes_nothing,
        a_page_can_be_found_once_it_is_written,
        a_replaced_page_is_found_by_what_it_says_now,
    }
    precedence {
        an_older_page_does_not_replace_a_newer_one,
        of_two_in_a_batch_the_one_crawled_later_counts,
        a_time_far_ahead_counts_as_the_time_of_receipt,
        a_removed_page_is_brought_back_by_a_newer_one_only,
        a_removal_counts_for_messages_that_are_still_to_come,
        a_removal_leaves_a_page_crawled_after_it,
        the_order_of_time_survives_a_reopening,
    }
    reading {
        an_unknown_url_is_none,
        pages_are_counted,
        a_scan_is_in_order_of_url_and_goes_on,
        a_scan_goes_on_after_what_is_gone,
        removing_says_how_many_there_were,
        a_removed_page_is_gone_and_may_come_again,
        pages_that_match_are_listed_in_order_of_url,
    }
    batches {
        empty_batches_are_allowed,
        odd_urls_are_kept_apart,
        odd_texts_come_back,
        a_big_page_is_kept,
        a_large_batch_is_kept,
    }
    shared {
        handles_share_their_pages,
        pages_survive_a_reopening,
        pages_survive_a_close,
        racing_writers_lose_nothing,
    }
}
