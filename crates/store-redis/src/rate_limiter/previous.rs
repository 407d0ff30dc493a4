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
use crawlway_store::RateLimiterError;
use std::time::Duration;

/// Time without a call after which no worker of the previous version sends requests: each extends its permits more often.
const MAX_SILENCE: Duration = Duration::from_secs(30);

/// Text in place of the previous version's state.
const REPLACED: &str = "replaced by limiter:life; update this worker";

/// Replaces the state of the previous version, or refuses while its workers are alive.
pub(super) async fn replace(store: &RedisStore) -> Result<(), RateLimiterError> {
    let script = Script::new(&store.0.prefix, &[include_str!("previous.lua")]);
    let mut call = Call { keys: vec![store.0.key("gate:life")], arguments: vec![] };
    call.push(store.0.clock.argument());
    call.push(millis(MAX_SILENCE));
    call.push(REPLACED);
    let answers = script.call(&store.0.link, &[call], None).await?;
    match answers.first().and_then(texts).as_deref() {
        Some([age, ..]) => Err(RateLimiterError::Unavailable {
            detail: format!(
                "workers of an earlier version use the rate limiter on this Redis server, the last one {age} ms ago, and two \
                 versions together would break minimum delays; stop them, wait {MAX_SILENCE:?}, and start this one again"
            ),
        }),
        _ => Ok(()),
    }
}
