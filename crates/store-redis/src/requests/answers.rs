//! Answers and deadlines: how a request ends.

use super::{RedisRequests, Swap, keys, parse};
use crate::fault::Fault;
use crawlway_store::{
    StoreError,
    requests::{Answer, ApplyOutcome, CrawlRequest, RequestKey, RequestStatus, error_result},
};
use redis::{Pipeline, Value};
use std::time::Duration;

/// Attempts at a compare-and-set, each of which fails only because another process has changed the request.
const MAX_ATTEMPTS: usize = 5;

/// A request as one process sees it before it applies an answer.
struct Current {
    value: Vec<u8>,
    request: Option<CrawlRequest>,
    deleted: bool,
    /// Whether a deadline is set, which is removed last.
    has_deadline: bool,
}

/// A request with the URL of the value that it replaces, which another program has written in its own form.
fn with_url(request: CrawlRequest, replaced: &[u8]) -> CrawlRequest {
    let replaced: Option<serde_json::Value> = serde_json::from_slice(replaced).ok();
    match replaced.as_ref().and_then(|value| value["url"].as_str()) {
        Some(url) => CrawlRequest { url: url.to_owned(), ..request },
        None => request,
    }
}

fn bytes(value: Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    }
}

impl RedisRequests {
    /// Values of stored requests; empty for a missing one.
    pub(super) async fn read(&self, keys: &[RequestKey]) -> Result<Vec<Vec<u8>>, Fault> {
        let mut commands = Pipeline::new();
        keys.iter().for_each(|key| {
            commands.hget(keys::requests(&key.email), &key.id);
        });
        let answers = self.send(&commands).await?;
        Ok(answers.into_iter().map(bytes).collect())
    }

    /// Whether requests were deleted by their users.
    pub(super) async fn are_deleted(&self, keys: &[RequestKey]) -> Result<Vec<bool>, Fault> {
        let mut commands = Pipeline::new();
        keys.iter().for_each(|key| {
            commands.exists(keys::deleted(&self.0.store, key));
        });
        Ok(self.send(&commands).await?.iter().map(|answer| *answer == Value::Int(1)).collect())
    }

    async fn current(&self, keys: &[&RequestKey]) -> Result<Vec<Current>, Fault> {
        let mut commands = Pipeline::new();
        for key in keys {
            commands.hget(keys::requests(&key.email), &key.id);
            commands.exists(keys::deleted(&self.0.store, key));
            commands.zscore(keys::deadlines(&self.0.store), keys::deadline(key));
        }
        let answers = self.send(&commands).await?;
        let current = |answers: &[Value]| Current {
            value: bytes(answers[0].clone()),
            request: parse(&answers[0]),
            deleted: answers[1] == Value::Int(1),
            has_deadline: answers[2] != Value::Nil,
        };
        Ok(answers.chunks_exact(3).map(current).collect())
    }

    /// Writes the entries of a request that has ended at this time.
    fn add_end(&self, commands: &mut Pipeline, request: &CrawlRequest, at: u64) {
        commands.zadd(keys::ended(&self.0.store), keys::deadline(&request.key()), at);
        self.add_entries(commands, request);
    }

    pub(super) async fn apply_all(&self, answers: &[Answer]) -> Result<Vec<ApplyOutcome>, StoreError> {
        let mut outcomes: Vec<Option<ApplyOutcome>> = vec![None; answers.len()];
        for _ in 0..MAX_ATTEMPTS {
            let open: Vec<usize> = (0..answers.len()).filter(|place| outcomes[*place].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let of_open: Vec<&Answer> = open.iter().map(|place| &answers[*place]).collect();
            for (place, outcome) in open.iter().zip(self.apply_once(&of_open).await?) {
                outcomes[*place] = outcome;
            }
        }
        let contended = || StoreError::Unavailable { detail: "a request is changed too often".to_owned() };
        outcomes.into_iter().map(|outcome| outcome.ok_or_else(contended)).collect()
    }

    /// Applies answers; `None` for a request that another process has changed meanwhile.
    async fn apply_once(&self, answers: &[&Answer]) -> Result<Vec<Option<ApplyOutcome>>, Fault> {
        let current = self.current(&answers.iter().map(|answer| &answer.key).collect::<Vec<_>>()).await?;
        // The deadline of an unknown request shows until the end that its entries are missing.
        let unknown =
            answers.iter().zip(&current).filter(|(_, current)| current.request.is_none() && !current.deleted);
        self.run(&self.deadlines(unknown.map(|(answer, _)| &answer.key))).await?;
        let (mut swaps, mut changed, mut entries) = (Vec::new(), Vec::new(), Pipeline::new());
        let mut unrecorded = Vec::new();
        let mut outcomes = Vec::with_capacity(answers.len());
        for (answer, current) in answers.iter().zip(current) {
            let Current { value, request, deleted, has_deadline } = current;
            let keeps_late = self.0.policy.keep_late_answers && answer.result.is_ok();
            let (outcome, new) = match &request {
                _ if deleted => (ApplyOutcome::Deleted, None),
                None => (ApplyOutcome::Created, Some(with_url(answer.request(), &value))),
                Some(old) if old.status == RequestStatus::Pending => {
                    (ApplyOutcome::Applied, Some(old.answered(answer)))
                }
                Some(old) if old.status == RequestStatus::Failed && keeps_late => {
                    (ApplyOutcome::Applied, Some(old.answered(answer)))
                }
                Some(old) => {
                    if has_deadline {
                        self.add_entries(&mut entries, old);
                        unrecorded.push(old.clone());
                    }
                    (ApplyOutcome::AlreadyEnded(old.status), None)
                }
            };
            if let Some(new) = new {
                swaps.push(Swap { key: &answer.key, expected: value, value: new.to_json() });
                changed.push((outcomes.len(), new));
            }
            outcomes.push(Some(outcome));
        }
        for ((place, new), swapped) in changed.iter().zip(self.swap(&swaps).await?) {
            match swapped {
                Some(at) => self.add_end(&mut entries, new, at),
                None => outcomes[*place] = None,
            }
        }
        self.add_ends(&unrecorded).await?;
        self.send_entries(&entries).await?;
        Ok(outcomes)
    }

    pub(super) async fn expire_due(&self, reason: &str, max: usize) -> Result<usize, StoreError> {
        let members = self.take(keys::deadlines(&self.0.store), Duration::ZERO, max).await?;
        let due: Vec<RequestKey> = members.iter().filter_map(|member| keys::of_deadline(member)).collect();
        let stored = self.read(&due).await?;
        let (mut swaps, mut failed, mut commands) = (Vec::new(), Vec::new(), Pipeline::new());
        let mut unrecorded = Vec::new();
        for (key, value) in due.iter().zip(stored) {
            match serde_json::from_slice::<CrawlRequest>(&value).ok() {
                Some(request) if request.status == RequestStatus::Pending => {
                    let result = Some(error_result(reason));
                    let request = CrawlRequest { status: RequestStatus::Failed, result, ..request };
                    swaps.push(Swap { key, expected: value, value: request.to_json() });
                    failed.push(request);
                }
                Some(ended) => {
                    self.add_entries(&mut commands, &ended);
                    unrecorded.push(ended);
                }
                None => {
                    commands.zrem(keys::deadlines(&self.0.store), keys::deadline(key));
                }
            }
        }
        // One that was answered meanwhile is left to the process that answers it.
        for (request, swapped) in failed.iter().zip(self.swap(&swaps).await?) {
            if let Some(at) = swapped {
                self.add_end(&mut commands, request, at);
            }
        }
        self.add_ends(&unrecorded).await?;
        self.send_entries(&commands).await?;
        Ok(members.len())
    }
}
