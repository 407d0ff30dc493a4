//! Suite of the requests of users.

mod answers;
mod changes;
mod deadlines;
mod fixture;
mod listing;
mod outbox;
mod retention;

pub(crate) use fixture::POLICY;

use crawlway_store::RequestStore;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn RequestStore>;

suite! { ($) requests for dyn RequestStore:
    outbox {
        an_added_request_is_pending,
        an_added_request_is_published_again_until_it_is_confirmed,
        a_request_that_has_ended_is_not_published_again,
        an_id_is_added_once,
        racing_gateways_publish_again_once,
        requests_survive_a_reopening,
    }
    answers {
        a_result_is_kept_as_it_was_sent,
        an_error_message_fails_a_request,
        the_first_answer_counts,
        late_answers_are_kept_if_configured,
        an_answer_to_an_unknown_request_is_stored,
        users_are_apart,
        racing_answers_apply_once,
        odd_texts_come_back,
    }
    deadlines {
        a_request_without_an_answer_fails_at_its_deadline,
        an_answered_request_has_no_deadline,
        no_more_are_failed_than_asked,
    }
    listing {
        the_newest_comes_first,
        a_status_is_picked,
        pages_have_every_request_once,
        a_deleted_request_is_gone_and_its_answer_ignored,
        all_requests_of_one_user_are_deleted,
        a_deleted_id_can_be_added_again,
    }
    changes {
        each_change_is_in_the_feed,
        a_reader_goes_on_where_it_was,
        the_feed_is_that_of_one_user,
        a_position_beyond_the_feed_is_its_start,
        old_changes_are_trimmed,
        a_change_wakes_its_own_process,
    }
    retention {
        an_ended_request_is_purged_after_its_retention,
        a_request_that_failed_at_its_deadline_is_purged_too,
        no_more_are_purged_than_asked,
        an_id_that_is_added_again_has_a_retention_of_its_own,
    }
}
