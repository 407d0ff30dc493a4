//! Access tokens, remote or local.

use super::{Client, Target};
use crate::open;
use anyhow::Context;
use crawlway_gateway::{
    dto::{CreatedToken, NewToken, TokenList, TokenView},
    service::tokens,
};
use crawlway_store::{Timestamp, Tokens as TokenStore};
use std::sync::Arc;

/// Access tokens, for reading and changing.
#[derive(Debug)]
pub(crate) enum Tokens {
    Remote(Client),
    /// In the stores of the settings; without one if nothing was recorded yet.
    Local {
        store: Option<Arc<dyn TokenStore>>,
        records: Option<open::Records>,
    },
}

impl Tokens {
    /// Opens the tokens. `create`: creates the records if there are none.
    pub(crate) async fn open(target: Target<'_>, create: bool) -> anyhow::Result<Self> {
        Ok(match target {
            Target::Remote(client) => Self::Remote(client),
            Target::Local(config) if config.has_tokens_in_redis() => {
                Self::Local { store: Some(open::own_tokens(config, None).await?), records: None }
            }
            Target::Local(config) => {
                let records = open::records_if_any(config, create).await?;
                Self::Local { store: records.as_ref().map(|records| records.tokens.clone()), records }
            }
        })
    }

    pub(crate) async fn close(self) {
        if let Self::Local { records: Some(records), .. } = self {
            records.close().await;
        }
    }

    pub(crate) async fn add(&self, new: &NewToken) -> anyhow::Result<CreatedToken> {
        match self {
            Self::Remote(client) => client.post(&client.url(["api", "tokens"]), new).await,
            Self::Local { store, .. } => {
                let store = store.as_deref().context("the tokens are open for reading")?;
                Ok(tokens::add(store, new, Timestamp::now()).await?)
            }
        }
    }

    pub(crate) async fn list(&self) -> anyhow::Result<TokenList> {
        match self {
            Self::Remote(client) => client.get(&client.url(["api", "tokens"])).await,
            Self::Local { store: Some(store), .. } => Ok(tokens::list(&**store).await?),
            Self::Local { store: None, .. } => Ok(TokenList { tokens: Vec::new() }),
        }
    }

    pub(crate) async fn revoke(&self, id: &str) -> anyhow::Result<TokenView> {
        match self {
            Self::Remote(client) => client.delete(&client.url(["api", "tokens", id])).await,
            Self::Local { store: Some(store), .. } => {
                Ok(tokens::revoke(&**store, id, Timestamp::now()).await?.into())
            }
            Self::Local { store: None, .. } => Err(tokens::unknown(id).into()),
        }
    }
}
