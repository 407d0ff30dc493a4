//! Suite of the access tokens.

mod adding;
mod fixture;
mod load;
mod revoking;

use crawlway_store::Tokens;

pub(crate) type Fixture<'h> = crate::fixture::Fixture<'h, dyn Tokens>;

suite! { ($) tokens for dyn Tokens:
    adding {
        every_field_comes_back,
        an_unknown_hash_finds_nothing,
        the_list_is_in_the_order_of_addition,
        a_user_may_have_several_tokens,
        the_same_record_again_changes_nothing,
        a_taken_id_is_refused,
        a_taken_hash_is_refused,
    }
    revoking {
        a_revoked_token_keeps_its_record,
        the_first_revocation_keeps_its_time,
        an_unknown_id_revokes_nothing,
        other_tokens_stay_valid,
        adding_again_does_not_undo_a_revocation,
    }
    load {
        handles_share_their_state,
        tokens_survive_a_reopening,
        racing_writers_lose_nothing,
    }
}
