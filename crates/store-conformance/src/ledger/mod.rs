//! Suite of the ledger.

mod dead_letters;
mod fixture;
mod listing;
mod messages;
mod queues;
mod replays;
mod retention;
mod schedule;
mod sessions;
mod solo;

pub(crate) use fixture::POLICY;

use crawlway_store::Ledger;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn Ledger>;

suite! { ($) ledger for dyn Ledger:
    sessions {
        a_living_session_is_never_lost,
        a_session_without_heartbeats_is_lost_once,
        a_late_heartbeat_keeps_a_session,
        an_outage_loses_no_living_session,
        a_closed_session_returns_its_messages_uncounted,
        a_lost_session_is_fenced,
        racing_reapers_count_a_loss_once,
        a_heartbeat_and_a_reaper_agree,
    }
    messages {
        a_done_message_leaves_nothing_behind,
        only_messages_in_hand_become_suspect,
        a_failed_attempt_counts_once,
        returned_messages_count_nothing,
        an_expired_lease_makes_suspect,
        a_message_taken_from_a_living_session_is_suspect,
        a_message_taken_from_an_ended_session_counts_once,
        taking_again_counts_nothing,
        batches_are_answered_in_order,
        odd_keys_are_kept_apart,
        racing_sessions_count_every_loss,
    }
    solo {
        a_solo_crash_counts,
        a_settled_solo_run_counts_nothing,
        a_solo_run_is_not_interrupted,
        a_session_has_one_mark,
        a_process_that_lives_takes_its_solo_crash_back,
    }
    dead_letters {
        a_dead_letter_comes_back_whole,
        bodies_of_any_size_come_back,
        a_message_dies_once,
        a_crash_after_the_first_step_repeats_the_rest,
        a_death_ends_the_history,
        a_message_of_another_session_is_not_dead_lettered,
        racing_calls_make_one_dead_letter,
    }
    listing {
        pages_have_every_letter_once,
        a_filter_picks,
        queues_are_apart,
    }
    replays {
        a_replay_closes_its_letter,
        a_crash_after_the_mark_leaves_the_letter,
        a_crash_after_the_publish_leaves_the_letter,
        racing_replays_have_one_winner,
        a_dropped_letter_is_closed,
        a_letter_in_replay_is_not_dropped,
        unknown_letters_are_closed,
    }
    queues {
        pauses_last_until_resumed,
        bindings_are_replaced_as_a_whole,
    }
    retention {
        closed_letters_are_forgotten,
        dead_letters_are_kept,
        histories_and_lost_sessions_are_forgotten,
        no_more_rows_than_asked_are_purged,
    }
    schedule {
        everything_survives_a_reopening,
        handles_share_their_state,
        any_schedule_agrees_with_the_model,
    }
}
