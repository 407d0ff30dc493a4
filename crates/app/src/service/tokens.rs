//! Access tokens, remote or local.

use super::{Client, Target};
use crate::open;
use crawlway_gateway::{
    dto::{CreatedToken, NewToken, TokenList, TokenView},
    service::tokens,
};
use crawlway_store::{Timestamp, Tokens as TokenStore};

/// Access tokens, for reading and changing.
#[derive(Debug)]
pub(crate) enum Tokens {
    Remote(Client),
    Local(open::Records),
}

impl Tokens {
    /// Opens the tokens. `create`: creates the records if there are none; otherwise that is an error.
    pub(crate) async fn open(target: Target<'_>, create: bool) -> anyhow::Result<Self> {
        Ok(match target {
            Target::Remote(client) => Self::Remote(client),
            Target::Local(config) if create => Self::Local(open::records(config, None).await?),
            Target::Local(config) => Self::Local(open::existing_records(config).await?),
        })
    }

    pub(crate) async fn close(self) {
        if let Self::Local(records) = self {
            records.close().await;
        }
    }

    pub(crate) async fn add(&self, new: &NewToken) -> anyhow::Result<CreatedToken> {
        match self {
            Self::Remote(client) => client.post(&client.url(["api", "tokens"]), new).await,
            Self::Local(records) => Ok(tokens::add(store(records), new, Timestamp::now()).await?),
        }
    }

    pub(crate) async fn list(&self) -> anyhow::Result<TokenList> {
        match self {
            Self::Remote(client) => client.get(&client.url(["api", "tokens"])).await,
            Self::Local(records) => Ok(tokens::list(store(records)).await?),
        }
    }

    pub(crate) async fn revoke(&self, id: &str) -> anyhow::Result<TokenView> {
        match self {
            Self::Remote(client) => client.delete(&client.url(["api", "tokens", id])).await,
            Self::Local(records) => Ok(tokens::revoke(store(records), id, Timestamp::now()).await?.into()),
        }
    }
}

fn store(records: &open::Records) -> &dyn TokenStore {
    &*records.tokens
}
