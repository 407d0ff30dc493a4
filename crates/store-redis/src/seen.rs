//! The seen URLs: one value each, found by the hash of the URL, whose text is not kept.

use crate::{
    RedisStore,
    fault::Fault,
    options::millis,
    script::{Call, nonsense, texts},
};
use crawlway_store::{
    SeenUrls, StoreError, Timestamp,
    seen::{Claim, Claimed, Seen},
};
use redis::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// What the script is made of.
pub(crate) const PARTS: &[&str] = &[include_str!("seen.lua")];

/// How many URLs one script sees to. The server does nothing else meanwhile, so they are not many.
const AT_ONCE: usize = 256;

#[async_trait::async_trait]
impl SeenUrls for RedisStore {
    async fn claim(&self, claims: &[Claim], term: Duration) -> Result<Vec<Claimed>, StoreError> {
        let calls = claims.chunks(AT_ONCE).map(|claims| {
            let mut call = self.call("claim", claims.iter().map(|claim| &*claim.url));
            call.push(millis(term));
            for claim in claims {
                call.arguments.push(claim.owner.clone().into_bytes());
                call.push(millis(claim.max_age));
            }
            call
        });
        let mut claimed = Vec::with_capacity(claims.len());
        for answer in self.ask(calls.collect()).await? {
            let held = texts(&answer).ok_or_else(|| nonsense(&answer))?;
            for held in held {
                if let (Some(claim), Some(b'u')) = (claims.get(claimed.len()), held.as_bytes().first()) {
                    let key = self.0.key(&key(&claim.url));
                    tracing::warn!(
                        key,
                        url = claim.url,
                        "the value of this key in Redis cannot be read; its URL counts as crawled until the key expires. Delete the key to have it crawled"
                    );
                }
                claimed.push(holder(&held).ok_or_else(|| nonsense(&answer))?);
            }
        }
        if claimed.len() != claims.len() {
            return Err(
                Fault::Away(format!("{} of {} claims were answered", claimed.len(), claims.len())).into()
            );
        }
        Ok(claimed)
    }

    async fn mark(&self, seen: &[Seen]) -> Result<(), StoreError> {
        let calls = seen.chunks(AT_ONCE).map(|seen| {
            let mut call = self.call("mark", seen.iter().map(|seen| &*seen.url));
            for seen in seen {
                call.arguments.push(seen.owner.clone().into_bytes());
                call.push(millis(seen.ttl));
            }
            call
        });
        self.ask(calls.collect()).await?;
        Ok(())
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        let calls = claims.chunks(AT_ONCE).map(|claims| {
            let mut call = self.call("release", claims.iter().map(|claim| &*claim.url));
            call.arguments.extend(claims.iter().map(|claim| claim.owner.clone().into_bytes()));
            call
        });
        self.ask(calls.collect()).await?;
        Ok(())
    }

    fn is_open_to_others(&self) -> bool {
        true
    }

    async fn known(&self, urls: &[String]) -> Result<Vec<bool>, StoreError> {
        let calls = urls.chunks(AT_ONCE).map(|urls| self.call("known", urls.iter().map(|url| &**url)));
        let mut known = Vec::with_capacity(urls.len());
        for answer in self.ask(calls.collect()).await? {
            let Value::Array(answers) = &answer else { return Err(nonsense(&answer).into()) };
            known.extend(answers.iter().map(|answer| *answer == Value::Int(1)));
        }
        if known.len() != urls.len() {
            return Err(Fault::Away(format!("{} of {} URLs were answered", known.len(), urls.len())).into());
        }
        Ok(known)
    }

    async fn forget(&self, urls: &[String]) -> Result<u64, StoreError> {
        let calls = urls.chunks(AT_ONCE).map(|urls| self.call("forget", urls.iter().map(|url| &**url)));
        let mut known = 0;
        for answer in self.ask(calls.collect()).await? {
            let Value::Int(count) = answer else { return Err(nonsense(&answer).into()) };
            known += u64::try_from(count).unwrap_or(0);
        }
        Ok(known)
    }

    /// Nothing to do: what is over vanishes by itself.
    async fn sweep(&self, _most: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}

impl RedisStore {
    fn call<'u>(&self, name: &str, urls: impl Iterator<Item = &'u str>) -> Call {
        let mut call = Call { keys: urls.map(|url| self.0.key(&key(url))).collect(), arguments: vec![] };
        call.push(self.0.time.told());
        call.push(name);
        call.push(self.0.time.spare());
        call
    }

    async fn ask(&self, calls: Vec<Call>) -> Result<Vec<Value>, Fault> {
        if calls.is_empty() {
            return Ok(vec![]);
        }
        self.0.seen.call(&self.0.link, &calls, None).await
    }
}

/// The first 128 bits of the URL's SHA-256. A hash that is merely quick would let a site make up URLs that collide
/// with those of another, and so hide them.
fn key(url: &str) -> String {
    let mut key = "seen:".to_owned();
    for octet in Sha256::digest(url.as_bytes()).iter().take(16) {
        key.push_str(&format!("{octet:02x}"));
    }
    key
}

/// Who is in the way of a claim, from `c1763219345123,1763219045123:owner`; an empty value means that the claim is ours.
fn holder(value: &str) -> Option<Claimed> {
    if value.is_empty() {
        return Some(Claimed::Ours);
    }
    let (times, owner) = value.get(1..)?.split_once(':')?;
    // A number too large, which another program may have written, is as late as there can be.
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
        // What cannot be read stands for a crawled URL, since its key is there.
        b's' | b'u' => Some(Claimed::Seen { owner, at, until }),
        b'c' => Some(Claimed::Taken { owner, until }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_once_is_found_by_every_later_version() {
        assert_eq!(key("https://example.org/"), "seen:8198d1bac40a1033653a78e48800cefc");
        let owner = || "a:b".to_owned();
        let until = Timestamp::from_millis(17);
        let at = Some(Timestamp::from_millis(11));
        assert_eq!(holder("s17,11:a:b"), Some(Claimed::Seen { owner: owner(), at, until }));
        assert_eq!(holder("s17:a:b"), Some(Claimed::Seen { owner: owner(), at: None, until }));
        assert_eq!(holder("c17,11:a:b"), Some(Claimed::Taken { owner: owner(), until }));
        let late = Some(Claimed::Taken { owner: "a".to_owned(), until: Timestamp::from_millis(u64::MAX) });
        assert_eq!(holder("c99999999999999999999:a"), late);
        assert_eq!((holder(""), holder("x17:a"), holder("s17")), (Some(Claimed::Ours), None, None));
    }
}
