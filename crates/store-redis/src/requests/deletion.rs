//! Deletion of requests: by their users, and at the end of their retention.

use super::{RedisRequests, add_change, keys, lists};
use crate::{fault::Fault, script::Call};
use crawlway_store::{
    StoreError,
    requests::{CrawlRequest, DELETED_TTL, RequestKey, RequestStatus},
};
use redis::{Pipeline, Value};
use std::time::Duration;

impl RedisRequests {
    /// Deletes requests with their stored values. Returns how many there were.
    pub(super) async fn delete_stored(&self, stored: &[(RequestKey, Vec<u8>)]) -> Result<u64, Fault> {
        // The marks come first, so that an answer does not bring a request back.
        let (mut marks, mut commands) = (Pipeline::new(), Pipeline::new());
        for (key, _) in stored {
            marks.set_ex(keys::deleted(&self.0.store, key), 1, DELETED_TTL.as_secs());
            commands.hdel(keys::requests(&key.email), &key.id);
        }
        self.send(&marks).await?;
        for (key, value) in stored {
            add_change(&mut commands, &key.email, &key.id, lists::DELETED);
            if let Ok(request) = serde_json::from_slice::<CrawlRequest>(value) {
                self.remove_from_outbox(&mut commands, &request);
            }
            self.remove_entries(&mut commands, key);
        }
        let answers = self.send_entries(&commands).await?;
        Ok(answers.iter().take(stored.len()).filter(|answer| **answer == Value::Int(1)).count() as u64)
    }

    /// Deletes requests that ended at least this long ago.
    pub(super) async fn purge_ended(&self, min_age: Duration, max: usize) -> Result<usize, StoreError> {
        let members = self.take(keys::ended(&self.0.store), min_age, max).await?;
        let due: Vec<RequestKey> = members.iter().filter_map(|member| keys::of_deadline(member)).collect();
        let (mut stored, mut commands) = (Vec::new(), Pipeline::new());
        for (key, value) in due.iter().zip(self.read(&due).await?) {
            match serde_json::from_slice::<CrawlRequest>(&value).ok() {
                Some(request) if request.status != RequestStatus::Pending => {
                    stored.push((key.clone(), value));
                }
                // Another program has deleted it.
                None if value.is_empty() => self.remove_entries(&mut commands, key),
                // There is a new request with its id.
                _ => {
                    commands.zrem(keys::ended(&self.0.store), keys::deadline(key));
                }
            }
        }
        self.send(&commands).await?;
        self.delete_stored(&stored).await?;
        Ok(members.len())
    }

    /// Adds requests whose end another process has not recorded, as if they ended now.
    pub(super) async fn add_ends(&self, requests: &[CrawlRequest]) -> Result<(), Fault> {
        let key = keys::ended(&self.0.store);
        let end = |request: &CrawlRequest| {
            self.schedule(key.clone(), &keys::deadline(&request.key()), Duration::ZERO)
        };
        self.run(&requests.iter().map(end).collect::<Vec<Call>>()).await.map(drop)
    }

    /// Removes a request from all indexes, and last from those by which it would be found again after a crash.
    fn remove_entries(&self, commands: &mut Pipeline, key: &RequestKey) {
        for status in RequestStatus::ALL.map(Some).into_iter().chain([None]) {
            commands.zrem(keys::index(&key.email, status), &key.id);
        }
        for due in [keys::deadlines(&self.0.store), keys::ended(&self.0.store)] {
            commands.zrem(due, keys::deadline(key));
        }
    }
}
