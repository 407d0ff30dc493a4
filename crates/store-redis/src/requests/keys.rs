//! Names of the keys, and members of the sorted sets.

use crate::RedisStore;
use crawlway_store::requests::{CrawlRequest, RequestKey, RequestStatus};
use sha2::{Digest, Sha256};

/// Hash of a user's requests. A public contract.
pub(super) fn requests(email: &str) -> String {
    format!("crawls:{email}")
}

/// Sorted set of a user's requests with a status, by creation time; of all of them without one. The braces put it on the node of
/// the hash.
pub(super) fn index(email: &str, status: Option<RequestStatus>) -> String {
    format!("{{crawls:{email}}}:{}", status.map_or("all", RequestStatus::as_str))
}

/// Stream of a user's changes.
pub(super) fn changes(email: &str) -> String {
    format!("{{crawls:{email}}}:changes")
}

/// Sorted set of requests that may not be published, by the time of the next attempt.
pub(super) fn outbox(store: &RedisStore) -> String {
    store.0.key("requests:outbox")
}

/// Sorted set of the deadlines of pending requests.
pub(super) fn deadlines(store: &RedisStore) -> String {
    store.0.key("requests:deadlines")
}

/// Sorted set of ended requests, by the time of their end.
pub(super) fn ended(store: &RedisStore) -> String {
    store.0.key("requests:ended")
}

/// Mark of a deleted request, with a TTL.
pub(super) fn deleted(store: &RedisStore, key: &RequestKey) -> String {
    let hash = Sha256::digest(deadline(key).as_bytes());
    let hash: String = hash.iter().take(16).map(|octet| format!("{octet:02x}")).collect();
    store.0.key(&format!("requests:deleted:{hash}"))
}

/// Member of the outbox.
pub(super) fn unpublished(request: &CrawlRequest) -> String {
    CrawlRequest::pending(request.key(), &*request.url, &*request.created_at).to_json()
}

/// Member of the deadlines and of the ends.
pub(super) fn deadline(key: &RequestKey) -> String {
    // Cannot fail: a pair of texts.
    serde_json::to_string(&(&key.email, &key.id)).unwrap_or_default()
}

/// Request of a member of the deadlines or of the ends.
pub(super) fn of_deadline(member: &str) -> Option<RequestKey> {
    let (email, id): (String, String) = serde_json::from_str(member).ok()?;
    Some(RequestKey { email, id })
}
