//! Faults of the access tokens.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{Timestamp, tokens::*};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    DropsExpiry,
    EveryoneIsAdmin,
    NewestFirst,
    TakenIsAdded,
    ForgetsRevoked,
    LastRevocation,
    RevokesNothing,
}
use Fault::*;

faulty! { Tokens {}

    async fn add(&self, token: &TokenRecord) -> Answer<bool> {
        let mut token = token.clone();
        match self.fault {
            DropsExpiry => token.expires_at = None,
            EveryoneIsAdmin => token.role = TokenRole::Admin,
            _ => {}
        }
        Ok(self.store.add(&token).await? || self.fault == TakenIsAdded)
    }

    async fn list(&self) -> Answer<Vec<TokenRecord>> {
        let mut tokens = self.store.list().await?;
        if self.fault == NewestFirst {
            tokens.reverse();
        }
        Ok(tokens)
    }

    async fn find(&self, hash: &TokenHash) -> Answer<Option<TokenRecord>> {
        let found = self.store.find(hash).await?;
        Ok(found.filter(|token| self.fault != ForgetsRevoked || token.revoked_at.is_none()))
    }

    async fn revoke(&self, id: &str, at: Timestamp) -> Answer<Option<TokenRecord>> {
        if self.fault == RevokesNothing {
            return Ok(self.store.list().await?.into_iter().find(|token| token.id == id));
        }
        let revoked = self.store.revoke(id, at).await?;
        let later = |token| TokenRecord { revoked_at: Some(at), ..token };
        Ok(if self.fault == LastRevocation { revoked.map(later) } else { revoked })
    }
}

finds! { tokens on dyn Tokens, Sqlite::new();
    DropsExpiry: adding::every_field_comes_back;
    EveryoneIsAdmin: adding::every_field_comes_back;
    NewestFirst: adding::the_list_is_in_the_order_of_addition;
    TakenIsAdded: adding::a_taken_id_is_refused, adding::a_taken_hash_is_refused;
    ForgetsRevoked: revoking::a_revoked_token_keeps_its_record;
    LastRevocation: revoking::the_first_revocation_keeps_its_time;
    RevokesNothing: revoking::a_revoked_token_keeps_its_record, load::handles_share_their_state;
}
