//! Requests of users on Redis.
//!
//! | key | type | content |
//! |---|---|---|
//! | `crawls:EMAIL` | hash | JSON of each request by id; a public contract |
//! | `{crawls:EMAIL}:all`, `:pending`, `:completed`, `:failed` | sorted sets | ids by creation time, for lists |
//! | `{crawls:EMAIL}:changes` | stream | change feed |
//! | `{PREFIX}:requests:outbox` | sorted set | requests that may not be published |
//! | `{PREFIX}:requests:deadlines` | sorted set | pending requests by deadline |
//! | `{PREFIX}:requests:ended` | sorted set | ended requests by the time of their end, for the retention |
//! | `{PREFIX}:requests:deleted:HASH` | text with a TTL | mark of a deleted request |
//!
//! Each command and each script has one key, for Redis Cluster. What belongs together is written in an order that a crash can
//! interrupt: outbox and deadline, then the hash, then indexes, end and feed, and last the deadline is removed. So a request with a
//! result and a deadline lacks its entries, and the next call that reads it writes them. Another program may write the hash alone: an
//! index that differs from its hash in size is rebuilt.

mod answers;
mod deletion;
mod keys;
mod lists;

use crate::{
    RedisStore,
    fault::Fault,
    options::millis,
    script::{Call, Script, text, texts, unexpected},
};
use crawlway_store::{
    RequestPolicy, RequestStore, StoreError, Timestamp,
    requests::{
        AddOutcome, Answer, ApplyOutcome, Change, ChangeId, CrawlRequest, MAX_CHANGES, RequestKey,
        RequestPage, RequestQuery, RequestStatus,
    },
};
use redis::{Pipeline, Value};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Time past the deadline after which a pending request is taken for one without a deadline.
const OVERDUE_GRACE: Duration = Duration::from_secs(10);

/// Requests on Redis. [`RedisStore::requests`] opens them; clones share one connection.
#[derive(Debug, Clone)]
pub struct RedisRequests(Arc<State>);

#[derive(Debug)]
struct State {
    store: RedisStore,
    policy: RequestPolicy,
    script: Script,
    changed: Notify,
}

impl RedisStore {
    /// Requests on this store. All processes should have the same policy.
    pub fn requests(&self, policy: RequestPolicy) -> RedisRequests {
        let script = Script::new(&self.0.prefix, &[include_str!("commands.lua")]);
        RedisRequests(Arc::new(State { store: self.clone(), policy, script, changed: Notify::new() }))
    }
}

/// Change of one field of a hash.
struct Swap<'a> {
    key: &'a RequestKey,
    /// Expected value, which need not be text if another program wrote it; empty for a missing field.
    expected: Vec<u8>,
    /// New text; empty to delete the field.
    value: String,
}

impl RedisRequests {
    fn call(&self, key: String, name: &str, arguments: &[&str]) -> Call {
        let mut call = Call { keys: vec![key], arguments: vec![] };
        call.push(self.0.store.0.clock.argument());
        call.push(name);
        arguments.iter().for_each(|argument| call.push(argument));
        call
    }

    async fn run(&self, calls: &[Call]) -> Result<Vec<Value>, Fault> {
        if calls.is_empty() {
            return Ok(vec![]);
        }
        self.0.script.call(&self.0.store.0.link, calls, None).await
    }

    /// Sends commands of one key each.
    async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        let count = commands.len();
        if count == 0 {
            return Ok(vec![]);
        }
        let answers = self.0.store.0.link.send(commands, count).await?;
        match answers.iter().find(|answer| matches!(answer, Value::ServerError(_))) {
            Some(error) => Err(unexpected(error)),
            None => Ok(answers),
        }
    }

    /// Sends index and feed entries, and wakes the task that waits for changes.
    async fn send_entries(&self, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        let answers = self.send(commands).await?;
        if !answers.is_empty() {
            self.0.changed.notify_one();
        }
        Ok(answers)
    }

    /// Changes fields that have the expected values. The answers are the times of the changes in milliseconds; `None` for fields with
    /// another value.
    async fn swap(&self, swaps: &[Swap<'_>]) -> Result<Vec<Option<u64>>, Fault> {
        let call = |swap: &Swap<'_>| {
            let Swap { key, expected, value } = swap;
            let mut call = self.call(keys::requests(&key.email), "swap", &[&key.id]);
            call.arguments.push(expected.clone());
            call.push(value);
            call
        };
        let answers = self.run(&swaps.iter().map(call).collect::<Vec<_>>()).await?;
        Ok(answers.iter().map(|answer| text(answer)?.parse().ok()).collect())
    }

    fn schedule(&self, key: String, member: &str, delay: Duration) -> Call {
        self.call(key, "schedule", &[member, &millis(delay).to_string()])
    }

    /// Calls that schedule the deadlines of requests.
    fn deadlines<'a>(&self, keys: impl Iterator<Item = &'a RequestKey>) -> Vec<Call> {
        let (key, timeout) = (keys::deadlines(&self.0.store), self.0.policy.timeout);
        keys.map(|request| self.schedule(key.clone(), &keys::deadline(request), timeout)).collect()
    }

    /// Has pending requests that are past their deadline fail at the next [`expire`](RequestStore::expire): another program may have
    /// written them without one.
    async fn expire_overdue(&self, requests: &[CrawlRequest]) -> Result<(), Fault> {
        let oldest = Timestamp::now() - self.0.policy.timeout - OVERDUE_GRACE;
        let is_overdue =
            |request: &&CrawlRequest| request.status == RequestStatus::Pending && request.created() < oldest;
        let key = keys::deadlines(&self.0.store);
        let schedule = |request: &CrawlRequest| {
            self.schedule(key.clone(), &keys::deadline(&request.key()), Duration::ZERO)
        };
        let calls: Vec<Call> = requests.iter().filter(is_overdue).map(schedule).collect();
        self.run(&calls).await.map(drop)
    }

    /// Members of a sorted set that have been due for this time.
    async fn take(&self, key: String, age: Duration, max: usize) -> Result<Vec<String>, Fault> {
        let lease = millis(self.0.policy.publish_timeout).to_string();
        let arguments = [&*max.to_string(), &lease, &millis(age).to_string()];
        let answers = self.run(&[self.call(key, "take", &arguments)]).await?;
        let answer = answers.into_iter().next().unwrap_or(Value::Nil);
        texts(&answer).ok_or_else(|| unexpected(&answer))
    }

    /// Writes the index and feed entries of a request, and removes the deadline of one that has ended.
    fn add_entries(&self, commands: &mut Pipeline, request: &CrawlRequest) {
        let CrawlRequest { id, email, status, .. } = request;
        let created = request.created().as_millis();
        for of_status in RequestStatus::ALL.into_iter().filter(|other| other != status) {
            commands.zrem(keys::index(email, Some(of_status)), id);
        }
        for key in [None, Some(*status)].map(|status| keys::index(email, status)) {
            commands.zadd(key, id, created);
        }
        add_change(commands, email, id, status.as_str());
        if *status != RequestStatus::Pending {
            commands.zrem(keys::deadlines(&self.0.store), keys::deadline(&request.key()));
        }
    }

    /// Stores pending requests; `false` for those that exist.
    async fn add_pending(&self, requests: &[CrawlRequest], keys: &[RequestKey]) -> Result<Vec<bool>, Fault> {
        let swap = |(request, key)| {
            let value = CrawlRequest::to_json(request);
            Swap { key, expected: Vec::new(), value }
        };
        let added = self.swap(&requests.iter().zip(keys).map(swap).collect::<Vec<_>>()).await?;
        let added: Vec<bool> = added.iter().map(Option::is_some).collect();
        let mut entries = Pipeline::new();
        for (request, _) in requests.iter().zip(&added).filter(|(_, added)| **added) {
            self.add_entries(&mut entries, request);
        }
        self.send_entries(&entries).await?;
        Ok(added)
    }

    fn remove_from_outbox(&self, commands: &mut Pipeline, request: &CrawlRequest) {
        commands.zrem(keys::outbox(&self.0.store), keys::unpublished(request));
    }
}

/// Adds an entry to the change feed of a user.
fn add_change(commands: &mut Pipeline, email: &str, id: &str, status: &str) {
    let key = keys::changes(email);
    commands.cmd("XADD").arg(&key).arg("MAXLEN").arg("~").arg(MAX_CHANGES).arg("*");
    commands.arg("id").arg(id).arg("status").arg(status);
}

/// A request as stored; `None` for a missing field, and for one that another program has damaged.
fn parse(value: &Value) -> Option<CrawlRequest> {
    match value {
        Value::BulkString(bytes) => serde_json::from_slice(bytes).ok(),
        _ => None,
    }
}

#[async_trait::async_trait]
impl RequestStore for RedisRequests {
    fn policy(&self) -> &RequestPolicy {
        &self.0.policy
    }

    fn changed(&self) -> &Notify {
        &self.0.changed
    }

    async fn add(&self, requests: &[CrawlRequest]) -> Result<Vec<AddOutcome>, StoreError> {
        let keys: Vec<RequestKey> = requests.iter().map(CrawlRequest::key).collect();
        let existing = self.read(&keys).await?;
        let is_new = |(_, stored): &(_, &Vec<u8>)| stored.is_empty();
        let (new, new_keys): (Vec<CrawlRequest>, Vec<RequestKey>) = requests
            .iter()
            .zip(&existing)
            .filter(is_new)
            .map(|(request, _)| (request.clone(), request.key()))
            .unzip();
        // A request that its user has deleted is new.
        let mut marks = Pipeline::new();
        new_keys.iter().for_each(|key| {
            marks.del(keys::deleted(&self.0.store, key));
        });
        let (outbox, delay) = (keys::outbox(&self.0.store), self.0.policy.publish_timeout);
        let mut calls = self.deadlines(new_keys.iter());
        calls.extend(
            new.iter().map(|request| self.schedule(outbox.clone(), &keys::unpublished(request), delay)),
        );
        tokio::try_join!(self.send(&marks), self.run(&calls))?;
        let mut added = self.add_pending(&new, &new_keys).await?.into_iter();
        let mut outcomes = Vec::with_capacity(requests.len());
        for ((request, key), stored) in requests.iter().zip(&keys).zip(existing) {
            if stored.is_empty() && added.next() == Some(true) {
                outcomes.push(AddOutcome::Added);
                continue;
            }
            let current = self.get(key).await?;
            outcomes.push(AddOutcome::Exists(current.unwrap_or_else(|| request.clone())));
        }
        Ok(outcomes)
    }

    async fn published(&self, requests: &[CrawlRequest]) -> Result<(), StoreError> {
        let mut commands = Pipeline::new();
        requests.iter().for_each(|request| self.remove_from_outbox(&mut commands, request));
        Ok(self.send(&commands).await.map(drop)?)
    }

    async fn take_unpublished(&self, max: usize) -> Result<Vec<CrawlRequest>, StoreError> {
        let members = self.take(keys::outbox(&self.0.store), Duration::ZERO, max).await?;
        let requests: Vec<CrawlRequest> =
            members.iter().filter_map(|member| serde_json::from_str(member).ok()).collect();
        let keys: Vec<RequestKey> = requests.iter().map(CrawlRequest::key).collect();
        // A crash may have come before the hash was written, and the user may have deleted the request since.
        let deleted = self.are_deleted(&keys).await?;
        let kept = |place: usize| !deleted.get(place).copied().unwrap_or(false);
        let (again, again_keys): (Vec<CrawlRequest>, Vec<RequestKey>) = requests
            .iter()
            .enumerate()
            .filter(|(place, _)| kept(*place))
            .map(|(_, request)| (request.clone(), request.key()))
            .unzip();
        self.run(&self.deadlines(again_keys.iter())).await?;
        self.add_pending(&again, &again_keys).await?;
        let stored = self.read(&keys).await?;
        let is_pending = |(place, stored): (usize, &Vec<u8>)| {
            let request = serde_json::from_slice::<CrawlRequest>(stored);
            kept(place) && request.is_ok_and(|request| request.status == RequestStatus::Pending)
        };
        let mut ended = Pipeline::new();
        let mut unpublished = Vec::new();
        for ((place, stored), request) in stored.iter().enumerate().zip(requests) {
            if is_pending((place, stored)) {
                unpublished.push(request);
            } else {
                self.remove_from_outbox(&mut ended, &request);
            }
        }
        self.send(&ended).await?;
        Ok(unpublished)
    }

    async fn apply(&self, answers: &[Answer]) -> Result<Vec<ApplyOutcome>, StoreError> {
        self.apply_all(answers).await
    }

    async fn expire(&self, reason: &str, max: usize) -> Result<usize, StoreError> {
        self.expire_due(reason, max).await
    }

    async fn get(&self, key: &RequestKey) -> Result<Option<CrawlRequest>, StoreError> {
        let stored = self.read(std::slice::from_ref(key)).await?;
        let request: Option<CrawlRequest> =
            stored.first().and_then(|value| serde_json::from_slice(value).ok());
        self.expire_overdue(request.as_slice()).await?;
        Ok(request)
    }

    async fn list(&self, email: &str, query: &RequestQuery) -> Result<RequestPage, StoreError> {
        let page = self.page(email, query).await?;
        self.expire_overdue(&page.requests).await?;
        Ok(page)
    }

    async fn delete(&self, key: &RequestKey) -> Result<bool, StoreError> {
        let stored = self.read(std::slice::from_ref(key)).await?.into_iter().next().unwrap_or_default();
        Ok(!stored.is_empty() && self.delete_stored(&[(key.clone(), stored)]).await? == 1)
    }

    async fn delete_all(&self, email: &str) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for id in self.ids(email).await? {
            deleted += u64::from(self.delete(&RequestKey::new(email, id)).await?);
        }
        Ok(deleted)
    }

    async fn purge(&self, min_age: Duration, max: usize) -> Result<usize, StoreError> {
        self.purge_ended(min_age, max).await
    }

    async fn changes(
        &self,
        feeds: &[(String, ChangeId)],
        max: usize,
    ) -> Result<Vec<Vec<Change>>, StoreError> {
        self.read_changes(feeds, max).await
    }

    async fn last_change(&self, email: &str) -> Result<ChangeId, StoreError> {
        self.last_change_of(email).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let mut ping = Pipeline::new();
        ping.cmd("PING");
        Ok(self.send(&ping).await.map(drop)?)
    }
}
