//! Connection: the clients, requests in batches, and whether the server is reachable.

use crate::{
    error::{Failure, is_fenced},
    options::Options,
    wire::Received,
};
use aws_config::{
    BehaviorVersion, Region, retry::RetryConfig, sts::AssumeRoleProvider, timeout::TimeoutConfig,
};
use aws_sdk_sqs::{
    Client,
    config::Credentials,
    types::{
        BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
        MessageSystemAttributeName,
    },
};
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::sync::OnceCell;

/// Maximum number of entries of a batch.
pub(crate) const BATCH: usize = 10;
/// Tries of a delete or a change of visibility, and the delay between them.
const TRIES: u32 = 3;
const TRY_DELAY: Duration = Duration::from_millis(200);

/// Clients of SQS. Retries are ours: a receive that is repeated hides a message, and a repeated delete looks fenced.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) options: Options,
    clients: OnceCell<Clients>,
    down: AtomicBool,
    reason: Mutex<String>,
}

#[derive(Debug)]
struct Clients {
    requests: Client,
    /// With a timeout above the wait of a poll.
    polls: Client,
}

/// Result of an entry of a batch: `false` if its handle is fenced.
pub(crate) type EntryResult = Result<bool, Failure>;

impl Connection {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            clients: OnceCell::new(),
            down: AtomicBool::new(false),
            reason: Mutex::new("not connected yet".to_owned()),
        }
    }

    async fn clients(&self) -> &Clients {
        self.clients.get_or_init(|| Clients::new(&self.options)).await
    }

    pub(crate) async fn client(&self) -> &Client {
        &self.clients().await.requests
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    pub(crate) fn unreachable(&self) -> Failure {
        let (place, reason) = (self.options.place(), self.reason.lock().clone());
        Failure::Unavailable(format!("SQS at {place} cannot be reached ({reason}); trying again"))
    }

    /// Notes whether the server answers.
    pub(crate) fn note<T, E: Into<Failure>>(&self, result: Result<T, E>) -> Result<T, Failure> {
        let result = result.map_err(Into::into);
        let is_down = result.as_ref().is_err_and(Failure::is_outage);
        if let Err(failure) = &result
            && is_down
        {
            *self.reason.lock() = failure.to_string();
        }
        if self.down.swap(is_down, Ordering::Relaxed) != is_down {
            match is_down {
                true => tracing::warn!(reason = *self.reason.lock(), "SQS is unreachable"),
                false => tracing::info!("SQS is reachable again"),
            }
        }
        result
    }

    /// Asks the server for anything. A refusal is an answer.
    pub(crate) async fn probe(&self) -> Result<(), Failure> {
        let client = self.client().await;
        match self.note(client.list_queues().max_results(1).send().await) {
            Err(failure) if failure.is_outage() => Err(failure),
            _ => Ok(()),
        }
    }

    /// Polls a queue for up to `max` messages.
    pub(crate) async fn poll(&self, url: &str, max: usize) -> Result<Vec<Received>, Failure> {
        let answer = self
            .clients()
            .await
            .polls
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(1))
            .wait_time_seconds(seconds(self.options.poll_wait))
            .visibility_timeout(seconds(self.options.visibility))
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await;
        let messages = self.note(answer)?.messages.unwrap_or_default();
        Ok(messages.into_iter().filter_map(crate::wire::decode).collect())
    }

    /// Deletes messages by their handles.
    pub(crate) async fn delete(&self, url: &str, handles: &[String]) -> Vec<EntryResult> {
        let mut results = Vec::with_capacity(handles.len());
        for handles in handles.chunks(BATCH) {
            let entry = |(index, handle): (usize, &String)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(index.to_string())
                    .receipt_handle(handle)
                    .build()
                    .ok()
            };
            let entries: Vec<_> = handles.iter().enumerate().filter_map(entry).collect();
            let mut unanswered = false;
            let mut answer = Err(Failure::Closed);
            for _ in 0..TRIES {
                let call = self.client().await.delete_message_batch().queue_url(url);
                let sent = call.set_entries(Some(entries.clone())).send().await;
                answer = self.note(sent).map(|answer| answer.failed);
                match &answer {
                    Err(failure) if failure.is_outage() => {
                        unanswered |= matches!(failure, Failure::Unanswered(_));
                        tokio::time::sleep(TRY_DELAY).await;
                    }
                    _ => break,
                }
            }
            // A try without an answer may have deleted them.
            results.extend(
                entry_results(handles.len(), answer)
                    .into_iter()
                    .map(|result| result.map(|is_ours| is_ours || unanswered)),
            );
        }
        results
    }

    /// Changes the visibility of messages to so many seconds from now.
    pub(crate) async fn change_visibility(&self, url: &str, changes: &[(String, i32)]) -> Vec<EntryResult> {
        let mut results = Vec::with_capacity(changes.len());
        for changes in changes.chunks(BATCH) {
            let entry = |(index, (handle, seconds)): (usize, &(String, i32))| {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(index.to_string());
                entry.receipt_handle(handle).visibility_timeout(*seconds).build().ok()
            };
            let entries: Vec<_> = changes.iter().enumerate().filter_map(entry).collect();
            let mut answer = Err(Failure::Closed);
            for _ in 0..TRIES {
                let call = self.client().await.change_message_visibility_batch().queue_url(url);
                let sent = call.set_entries(Some(entries.clone())).send().await;
                answer = self.note(sent).map(|answer| answer.failed);
                match &answer {
                    Err(failure) if failure.is_outage() => tokio::time::sleep(TRY_DELAY).await,
                    _ => break,
                }
            }
            results.extend(entry_results(changes.len(), answer));
        }
        results
    }
}

/// Results of the entries of a batch, whose ids are their indexes.
fn entry_results(count: usize, answer: Result<Vec<BatchResultErrorEntry>, Failure>) -> Vec<EntryResult> {
    let failed = match answer {
        Ok(failed) => failed,
        Err(failure) => return vec![Err(failure); count],
    };
    let mut results: Vec<EntryResult> = vec![Ok(true); count];
    for entry in failed {
        let message = entry.message.unwrap_or_default();
        if let Some(result) = entry.id.parse::<usize>().ok().and_then(|index| results.get_mut(index)) {
            *result = match is_fenced(&entry.code, &message) {
                true => Ok(false),
                false => Err(Failure::Refused { code: entry.code, message }),
            };
        }
    }
    results
}

/// Whole seconds, rounded up.
pub(crate) fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

impl Clients {
    async fn new(options: &Options) -> Self {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(region) = &options.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(profile) = &options.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(keys) = &options.credentials {
            let (id, secret) = (keys.access_key_id.clone(), keys.secret_access_key.clone());
            let token = keys.session_token.clone();
            loader = loader.credentials_provider(Credentials::new(id, secret, token, None, "settings"));
        }
        let shared = loader.load().await;
        let mut config = aws_sdk_sqs::config::Builder::from(&shared).retry_config(RetryConfig::disabled());
        if let Some(endpoint) = &options.endpoint {
            config = config.endpoint_url(endpoint);
        }
        if let Some(role) = &options.role {
            let provider = AssumeRoleProvider::builder(role).session_name("crawlway").configure(&shared);
            config = config.credentials_provider(provider.build().await);
        }
        let client = |timeout: Duration| {
            let timeouts = TimeoutConfig::builder().connect_timeout(options.request_timeout);
            let timeouts = timeouts.operation_attempt_timeout(timeout).build();
            Client::from_conf(config.clone().timeout_config(timeouts).build())
        };
        Self {
            requests: client(options.request_timeout),
            polls: client(options.request_timeout + options.poll_wait),
        }
    }
}
