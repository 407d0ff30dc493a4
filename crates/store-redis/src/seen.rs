//! The seen-URL store: one value per URL, under the hash of the URL.

use crate::{
    RedisStore,
    fault::Fault,
    options::millis,
    script::{Call, texts, unexpected},
};
use crawlway_store::{
    SeenUrls, StoreError, Timestamp,
    seen::{Claim, ClaimOutcome, SeenUrl},
};
use redis::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Maximum number of URLs of one call, which blocks the server while it runs.
const BATCH_SIZE: usize = 256;

#[async_trait::async_trait]
impl SeenUrls for RedisStore {
    async fn claim(&self, claims: &[Claim], ttl: Duration) -> Result<Vec<ClaimOutcome>, StoreError> {
        let calls = claims.chunks(BATCH_SIZE).map(|claims| {
            let mut call = self.call("claim", claims.iter().map(|claim| &*claim.url));
            call.push(millis(ttl));
            for claim in claims {
                call.push(&claim.owner);
                call.push(millis(claim.max_age));
            }
            call
        });
        let mut claimed = Vec::with_capacity(claims.len());
        for answer in self.ask(calls.collect()).await? {
            for value in texts(&answer).ok_or_else(|| unexpected(&answer))? {
                if let (Some(claim), Some(b'u')) = (claims.get(claimed.len()), value.as_bytes().first()) {
                    let key = self.0.key(&key(&claim.url));
                    tracing::warn!(
                        key,
                        url = claim.url,
                        "the value of this key in Redis is invalid; its URL counts as crawled until the key expires. Delete the key to crawl it"
                    );
                }
                claimed.push(outcome(&value).ok_or_else(|| unexpected(&answer))?);
            }
        }
        check_count(claimed.len(), claims.len())?;
        Ok(claimed)
    }

    async fn mark(&self, seen: &[SeenUrl]) -> Result<(), StoreError> {
        let calls = seen.chunks(BATCH_SIZE).map(|seen| {
            let mut call = self.call("mark", seen.iter().map(|seen| &*seen.url));
            for seen in seen {
                call.push(&seen.owner);
                call.push(millis(seen.ttl));
            }
            call
        });
        self.ask(calls.collect()).await?;
        Ok(())
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        let calls = claims.chunks(BATCH_SIZE).map(|claims| {
            let mut call = self.call("release", claims.iter().map(|claim| &*claim.url));
            claims.iter().for_each(|claim| call.push(&claim.owner));
            call
        });
        self.ask(calls.collect()).await?;
        Ok(())
    }

    fn allows_external_deletes(&self) -> bool {
        true
    }

    async fn contains(&self, urls: &[String]) -> Result<Vec<bool>, StoreError> {
        let calls = urls.chunks(BATCH_SIZE).map(|urls| self.call("contains", urls.iter().map(|url| &**url)));
        let mut known = Vec::with_capacity(urls.len());
        for answer in self.ask(calls.collect()).await? {
            let Value::Array(answers) = &answer else { return Err(unexpected(&answer).into()) };
            known.extend(answers.iter().map(|answer| *answer == Value::Int(1)));
        }
        check_count(known.len(), urls.len())?;
        Ok(known)
    }

    async fn forget(&self, urls: &[String]) -> Result<u64, StoreError> {
        let calls = urls.chunks(BATCH_SIZE).map(|urls| self.call("forget", urls.iter().map(|url| &**url)));
        let mut known = 0;
        for answer in self.ask(calls.collect()).await? {
            let Value::Int(count) = answer else { return Err(unexpected(&answer).into()) };
            known += u64::try_from(count).unwrap_or(0);
        }
        Ok(known)
    }

    /// Nothing to do, since keys have a TTL.
    async fn purge_expired(&self, _max: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}

impl RedisStore {
    fn call<'u>(&self, name: &str, urls: impl Iterator<Item = &'u str>) -> Call {
        let mut call = Call { keys: urls.map(|url| self.0.key(&key(url))).collect(), arguments: vec![] };
        call.push(self.0.clock.argument());
        call.push(name);
        call.push(self.0.clock.ttl_margin());
        call
    }

    async fn ask(&self, calls: Vec<Call>) -> Result<Vec<Value>, Fault> {
        if calls.is_empty() {
            return Ok(vec![]);
        }
        self.0.seen.call(&self.0.link, &calls, None).await
    }
}

fn check_count(answered: usize, urls: usize) -> Result<(), Fault> {
    if answered == urls {
        return Ok(());
    }
    Err(Fault::Unavailable(format!("Redis answered for {answered} of {urls} URLs")))
}

/// Key of a URL: the first 128 bits of its SHA-256. With a non-cryptographic hash a site could forge URLs that collide
/// with those of another and so hide them.
fn key(url: &str) -> String {
    let mut key = "seen:".to_owned();
    for octet in Sha256::digest(url.as_bytes()).iter().take(16) {
        key.push_str(&format!("{octet:02x}"));
    }
    key
}

/// Outcome of a claim, from a value such as `c1763219345123,1763219045123:owner`; an empty value grants the claim.
fn outcome(value: &str) -> Option<ClaimOutcome> {
    if value.is_empty() {
        return Some(ClaimOutcome::Granted);
    }
    let (times, owner) = value.get(1..)?.split_once(':')?;
    // A number that is too large, written by another program, is the latest time.
    let time = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
        digits.then(|| Timestamp::from_millis(text.parse().unwrap_or(u64::MAX)))
    };
    let (until, at) = match times.split_once(',') {
        Some((until, at)) => (time(until)?, Some(time(at)?)),
        None => (time(times)?, None),
    };
    let owner = owner.to_owned();
    match value.as_bytes()[0] {
        // An invalid value counts as a seen mark.
        b's' | b'u' => Some(ClaimOutcome::Seen { owner, at, until }),
        b'c' => Some(ClaimOutcome::Taken { owner, until }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_stable_across_versions() {
        assert_eq!(key("https://example.org/"), "seen:8198d1bac40a1033653a78e48800cefc");
        let owner = || "a:b".to_owned();
        let until = Timestamp::from_millis(17);
        let at = Some(Timestamp::from_millis(11));
        assert_eq!(outcome("s17,11:a:b"), Some(ClaimOutcome::Seen { owner: owner(), at, until }));
        assert_eq!(outcome("s17:a:b"), Some(ClaimOutcome::Seen { owner: owner(), at: None, until }));
        assert_eq!(outcome("c17,11:a:b"), Some(ClaimOutcome::Taken { owner: owner(), until }));
        let late =
            Some(ClaimOutcome::Taken { owner: "a".to_owned(), until: Timestamp::from_millis(u64::MAX) });
        assert_eq!(outcome("c99999999999999999999:a"), late);
        assert_eq!(
            (outcome(""), outcome("x17:a"), outcome("s17")),
            (Some(ClaimOutcome::Granted), None, None)
        );
    }
}
