//! Access tokens on Redis, shared by gateways that have no database in common.
//!
//! | key | type | content |
//! |---|---|---|
//! | `{PREFIX}:tokens` | hash | place and JSON of each token, by the hash of its secret |
//! | `{PREFIX}:tokens:ids` | hash | hash of the secret, by the id of the token |
//! | `{PREFIX}:tokens:revoked` | hash | time of the revocation in milliseconds, by the hash of the secret |

use crate::{
    RedisStore,
    fault::Fault,
    script::{Call, Script, text, texts, unexpected},
};
use crawlway_store::{StoreError, Timestamp, TokenHash, TokenRecord, TokenRole, Tokens};
use redis::{Pipeline, Value};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc};

/// Access tokens on Redis. [`RedisStore::tokens`] opens them; clones share one connection.
#[derive(Debug, Clone)]
pub struct RedisTokens(Arc<State>);

#[derive(Debug)]
struct State {
    store: RedisStore,
    add: Script,
}

impl RedisStore {
    /// Access tokens on this store.
    pub fn tokens(&self) -> RedisTokens {
        let add = Script::new(&self.0.prefix, &[include_str!("tokens.lua")]);
        RedisTokens(Arc::new(State { store: self.clone(), add }))
    }
}

/// Stored JSON of a token. Its hash is the field, and its revocation is stored apart.
#[derive(Serialize, Deserialize)]
struct Stored {
    id: String,
    email: String,
    role: TokenRole,
    created_at: u64,
    expires_at: Option<u64>,
}

impl RedisTokens {
    fn key(&self, rest: &str) -> String {
        self.0.store.0.key(&format!("tokens{rest}"))
    }

    async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        let answers = self.0.store.0.link.send(commands, commands.len()).await?;
        match answers.iter().find(|answer| matches!(answer, Value::ServerError(_))) {
            Some(error) => Err(unexpected(error)),
            None => Ok(answers),
        }
    }

    async fn read(&self, hash: &str) -> Result<Option<TokenRecord>, Fault> {
        let mut commands = Pipeline::new();
        commands.hget(self.key(""), hash).hget(self.key(":revoked"), hash);
        let answers = self.send(&commands).await?;
        let Some(stored) = answers.first().and_then(text) else { return Ok(None) };
        Ok(Some(record(hash, &stored, answers.get(1).and_then(text).as_deref())?.1))
    }
}

#[async_trait::async_trait]
impl Tokens for RedisTokens {
    async fn add(&self, token: &TokenRecord) -> Result<bool, StoreError> {
        let TokenRecord { id, hash, email, role, created_at, expires_at, revoked_at } = token;
        let stored = Stored {
            id: id.clone(),
            email: email.clone(),
            role: *role,
            created_at: created_at.as_millis(),
            expires_at: expires_at.map(Timestamp::as_millis),
        };
        let mut call =
            Call { keys: ["", ":ids", ":revoked"].map(|rest| self.key(rest)).into(), arguments: vec![] };
        call.push(id);
        call.push(hex(hash));
        // Cannot fail: all fields are serialisable.
        call.push(serde_json::to_string(&stored).unwrap_or_default());
        call.push(revoked_at.map(|at| at.as_millis().to_string()).unwrap_or_default());
        let answers = self.0.add.call(&self.0.store.0.link, &[call], None).await?;
        Ok(answers.first() == Some(&Value::Int(1)))
    }

    async fn list(&self) -> Result<Vec<TokenRecord>, StoreError> {
        let mut commands = Pipeline::new();
        commands.hgetall(self.key("")).hgetall(self.key(":revoked"));
        let answers = self.send(&commands).await?;
        let [tokens, revoked] = &answers[..] else { return Err(unexpected(&Value::Nil).into()) };
        let revoked: HashMap<String, String> = pairs(revoked)?.into_iter().collect();
        let mut listed = Vec::new();
        for (hash, stored) in pairs(tokens)? {
            listed.push(record(&hash, &stored, revoked.get(&hash).map(String::as_str))?);
        }
        listed.sort_by_key(|(place, _)| *place);
        Ok(listed.into_iter().map(|(_, token)| token).collect())
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<TokenRecord>, StoreError> {
        Ok(self.read(&hex(hash)).await?)
    }

    async fn revoke(&self, id: &str, at: Timestamp) -> Result<Option<TokenRecord>, StoreError> {
        let mut find = Pipeline::new();
        find.hget(self.key(":ids"), id);
        let Some(hash) = self.send(&find).await?.first().and_then(text) else { return Ok(None) };
        let mut revoke = Pipeline::new();
        revoke.hset_nx(self.key(":revoked"), &hash, at.as_millis());
        self.send(&revoke).await?;
        Ok(self.read(&hash).await?)
    }
}

fn hex(hash: &TokenHash) -> String {
    hash.0.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn damaged() -> Fault {
    Fault::Invalid("a token in Redis is damaged: another program has written it".to_owned())
}

/// Fields and values of a hash.
fn pairs(answer: &Value) -> Result<Vec<(String, String)>, Fault> {
    let flat = texts(answer).ok_or_else(|| unexpected(answer))?;
    Ok(flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

/// Place and record of a token.
fn record(hash: &str, stored: &str, revoked_at: Option<&str>) -> Result<(u64, TokenRecord), Fault> {
    let read = || {
        let (place, stored) = stored.split_once(' ')?;
        let Stored { id, email, role, created_at, expires_at } = serde_json::from_str(stored).ok()?;
        let mut octets = [0; 32];
        for (place, octet) in octets.iter_mut().enumerate() {
            *octet = u8::from_str_radix(hash.get(2 * place..2 * place + 2)?, 16).ok()?;
        }
        let record = TokenRecord {
            id,
            hash: TokenHash(octets),
            email,
            role,
            created_at: Timestamp::from_millis(created_at),
            expires_at: expires_at.map(Timestamp::from_millis),
            revoked_at: match revoked_at {
                Some(at) => Some(Timestamp::from_millis(at.parse().ok()?)),
                None => None,
            },
        };
        Some((place.parse().ok()?, record))
    };
    read().ok_or_else(damaged)
}
