//! Suite of the ingestion runs.

mod breaker;
mod ending;
mod fixture;
mod ingesting;
mod listing;
mod retention;
mod settling;
mod versions;

use crawlway_store::RunStore;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn RunStore>;

suite! { ($) runs for dyn RunStore:
    ingesting {
        a_run_is_started_once,
        jobs_are_upserted_and_old_errors_cleared,
        duplicates_are_told_and_the_first_counts,
        a_repeated_batch_changes_nothing,
        only_an_open_run_takes_jobs,
        a_run_of_many_batches_is_counted,
        odd_keys_and_texts_come_back,
        a_queued_position_never_goes_back,
    }
    settling {
        each_outcome_is_counted,
        a_job_is_settled_once,
        a_lost_message_can_come_back,
        an_extraction_is_stored_and_replayed,
        a_later_run_has_the_record,
        unknown_runs_and_jobs_are_told,
        racing_settlements_of_a_job_have_one_winner,
    }
    breaker {
        the_last_failure_opens_the_breaker,
        breakers_are_per_company_and_run,
        without_a_limit_no_breaker_opens,
        racing_failures_are_all_counted,
        a_redelivered_failure_counts_once,
    }
    versions {
        a_stored_version_is_handed_to_the_extractor,
        only_the_compared_version_is_replaced,
        a_settled_job_takes_no_version,
        racing_versions_have_one_winner,
    }
    ending {
        a_sealed_run_is_finalised_when_none_is_open,
        an_empty_run_is_finalised,
        a_run_is_finalised_exactly_once,
        a_replay_amends_the_counts_of_a_finalised_run,
        an_aborted_run_is_finished_with_its_counts,
        an_abort_is_repeated_or_too_late,
        an_abort_among_settlements_loses_no_job,
        runs_survive_a_reopening,
    }
    listing {
        the_newest_run_comes_first,
        jobs_are_listed_by_outcome,
        open_jobs_are_found_by_their_age,
    }
    retention {
        a_finished_run_expires_and_keeps_its_counts,
        no_more_are_purged_than_asked,
    }
}
