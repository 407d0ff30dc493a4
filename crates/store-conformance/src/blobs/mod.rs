//! Suite of the blobs.

mod fixture;
pub mod kill;
mod listing;
mod load;
mod retention;
mod writing;

use crawlway_store::BlobStore;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn BlobStore>;

suite! { ($) blobs for dyn BlobStore:
    writing {
        a_blob_comes_back_with_its_metadata,
        a_blob_that_is_not_there_is_none,
        metadata_are_optional,
        an_empty_blob_is_a_blob,
        a_large_blob_comes_back_in_chunks,
        a_replaced_blob_has_nothing_of_the_previous_one,
        a_content_that_fails_changes_nothing,
        a_blob_can_be_read_while_it_is_replaced_and_deleted,
        odd_names_are_kept_apart,
        a_url_that_is_not_in_its_normal_form_is_refused,
        a_deleted_blob_is_gone_and_can_be_deleted_again,
    }
    listing {
        keys_are_listed_in_byte_order,
        a_prefix_is_compared_by_bytes,
        pages_have_every_key_once,
        an_entry_has_size_and_time,
        links_expire_as_wanted,
    }
    retention {
        expired_blobs_are_deleted_and_others_kept,
        applying_the_retention_keeps_what_is_new,
    }
    load {
        handles_share_their_state,
        blobs_survive_a_reopening,
        an_open_store_is_ready,
        racing_puts_leave_one_whole_blob,
        readers_see_whole_blobs_while_they_are_replaced,
    }
}
