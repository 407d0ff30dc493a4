//! The previous version of the rate limiter on the same server. Two limiters would break minimum delays, so that only one of them
//! can be in use.
//!
//! The previous version has its state under `gate:` and records each second of use in the hash `gate:life`. A text in its
//! place makes every call of a worker of that version fail with an error of type.

use crate::{
    RedisStore,
    options::millis,
    script::{Call, Script, texts},
};
use crawlway_store::{Group, RateLimiterError, Timestamp, rate_limiter::rules::FailureRecord};
use std::time::Duration;

/// Time without a call after which no worker of the previous version sends requests: each extends its permits more often.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// Text in place of the previous version's state.
const REPLACED: &str = "replaced by limiter:life; update this worker";

/// Groups of the previous version that are in back-off. Refuses while its workers are alive.
pub(super) async fn failures(store: &RedisStore) -> Result<Vec<(Group, FailureRecord)>, RateLimiterError> {
    let texts = call(store, "").await?;
    let record = |fields: &[String]| {
        let [name, blocks, since, until, openings] = fields else { return None };
        let record = FailureRecord {
            blocks: blocks.parse().ok()?,
            since: Timestamp::from_millis(since.parse().ok()?),
            until: Timestamp::from_millis(until.parse().ok()?),
            openings: openings.parse().ok()?,
        };
        Some((Group::new(name.as_str()).ok()?, record))
    };
    Ok(texts.chunks(5).filter_map(record).collect())
}

/// Makes calls of the previous version fail from now on.
pub(super) async fn replace(store: &RedisStore) -> Result<(), RateLimiterError> {
    call(store, REPLACED).await.map(drop)
}

async fn call(store: &RedisStore, replacement: &str) -> Result<Vec<String>, RateLimiterError> {
    let script = Script::new(&store.0.prefix, &[include_str!("previous.lua")]);
    let keys = ["gate:life", "gate:groups", "gate:lane:"].map(|key| store.0.key(key));
    let mut call = Call { keys: keys.to_vec(), arguments: vec![] };
    call.push(store.0.clock.argument());
    call.push(millis(MAX_SILENCE));
    call.push(replacement);
    let answers = script.call(&store.0.link, &[call], None).await?;
    let texts = answers.first().and_then(texts).unwrap_or_default();
    match texts.as_slice() {
        [age] => Err(RateLimiterError::Unavailable {
            detail: format!(
                "workers of an earlier version use the rate limiter on this Redis server, the last one {age} ms ago, and two \
                 versions together would break minimum delays; stop them; this one goes on {MAX_SILENCE:?} later"
            ),
        }),
        _ => Ok(texts),
    }
}
