//! The flow `inventory` as the gateway answers for it: accepting URLs, and their records, from the store or the cache.
//!
//! ```text
//! POST ─▶ broker ─▶ remembered as queued ─▶ answered 202 ─▶ written to the store in the background
//! GET  ─▶ cache ─▶ store (one load, however many ask) ─▶ queued? ─▶ what the cache had, marked stale
//! ```

mod accepted;
mod cache;
mod queued;

use crate::{
    answers,
    problem::Problem,
    shape::{AcceptedUrl, UrlList},
};
use accepted::AcceptedUrls;
use axum::body::Bytes;
use cache::Cache;
use crawlway_broker::{Broker, QueueName};
use crawlway_clock::Clock;
use crawlway_fetch::Guard;
use crawlway_flow::Stop;
use crawlway_flows::inventory::NotAccepted;
use crawlway_store::{
    StoreError, UrlRecords,
    inventory::{Metadata, Record, RecordId, Wanted},
};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use queued::QueuedWrites;
use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A store that has not answered by then is down.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a read waits for the store when there is something else to answer, or when the store is known to be down.
const ANSWER_WITHIN: Duration = Duration::from_millis(700);
/// How often it is looked whether the store is down, in milliseconds, while answers come from the cache.
const LOOK_AGAIN_MS: u64 = 1000;

/// How the gateway answers for the flow.
#[derive(Debug, Clone)]
pub struct InventoryOptions {
    /// The queue that URLs are put into.
    pub queue: QueueName,
    /// Which addresses a URL may name.
    pub guard: Guard,
    /// How long a finished record is answered from the cache.
    pub cache_ttl: Duration,
    /// How large the cache is, in bytes.
    pub cache_size: usize,
    /// How many accepted URLs are remembered until their records are begun, and how many are kept that are still to be
    /// written to the records.
    pub most_accepted: usize,
}

/// The flow `inventory` as the gateway answers for it. It can be asked before the broker and the store are there, and says
/// which of them is missing.
#[derive(Debug, Clone)]
pub struct Inventory(Arc<Inner>);

type Load = Shared<BoxFuture<'static, Result<Option<Bytes>, StoreError>>>;

#[derive(Debug)]
struct Inner {
    broker: Arc<dyn Broker>,
    records: OnceLock<Arc<dyn UrlRecords>>,
    options: InventoryOptions,
    clock: Clock,
    stop: Stop,
    publisher: AtomicBool,
    accepted: AcceptedUrls,
    queued: QueuedWrites,
    cache: Cache,
    loads: Mutex<HashMap<RecordId, Load>>,
    /// The store did not answer when it was last asked.
    down: AtomicBool,
    /// When it was last asked in the background, in milliseconds since 1970.
    looked_at: AtomicU64,
}

/// A record as it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// As JSON.
    pub(crate) body: Bytes,
    /// How long ago it was loaded.
    pub(crate) age: Duration,
    /// The store could not be asked whether it is still so.
    pub(crate) stale: bool,
}

impl Inventory {
    /// Answers with this broker, which may not be connected yet. Nothing is accepted before
    /// [`queue_is_declared`](Self::queue_is_declared), and nothing is read before [`read_from`](Self::read_from).
    pub fn new(broker: Arc<dyn Broker>, options: InventoryOptions, clock: Clock, stop: Stop) -> Self {
        Self(Arc::new(Inner {
            broker,
            records: OnceLock::new(),
            accepted: AcceptedUrls::new(options.most_accepted),
            queued: QueuedWrites::new(options.most_accepted),
            cache: Cache::new(options.cache_ttl, options.cache_size),
            options,
            clock,
            stop,
            publisher: AtomicBool::new(false),
            loads: Mutex::default(),
            down: AtomicBool::new(false),
            looked_at: AtomicU64::new(0),
        }))
    }

    /// From here on URLs are accepted.
    pub fn queue_is_declared(&self) {
        self.0.publisher.store(true, Ordering::Release);
    }

    /// From here on records are read from there. The first one counts.
    pub fn read_from(&self, records: Arc<dyn UrlRecords>) {
        let _ = self.0.records.set(records);
    }

    /// Why a URL with a literal address is refused, if the guard forbids that address. What a name resolves to is seen when it
    /// is fetched.
    pub(crate) fn refused_address(&self, url: &str) -> Option<Problem> {
        match crawlway_flows::inventory::check(url, &self.0.options.guard) {
            Err(error @ NotAccepted::Address { .. }) => Some(answers::refused_url(error)),
            _ => None,
        }
    }

    /// Puts a URL into the queue; answered when the broker has it durably.
    pub(crate) async fn accept(&self, url: &str) -> Result<AcceptedUrl, Problem> {
        let inner = &self.0;
        if inner.stop.is_requested() {
            return Err(Problem::publisher_not_ready(
                "the process was asked to end; ask another, or again later",
            ));
        }
        // What is wrong with a URL can be said without the broker, and should be.
        let ready = inner.publisher.load(Ordering::Acquire);
        if !ready {
            crawlway_flows::inventory::check(url, &inner.options.guard).map_err(answers::refused_url)?;
            return Err(Problem::publisher_not_ready(format!(
                "queue `{}` is not declared yet, since the broker was not there; ask again later",
                inner.options.queue
            )));
        }
        let accepted = answers::accept_url(
            &*inner.broker,
            &inner.options.queue,
            &inner.options.guard,
            url,
            inner.clock.now(),
        )
        .await?;
        inner.accepted.remember(accepted.clone());
        // Or its old record would be answered until its time is over, were the message forgotten before it is begun.
        inner.cache.outdate(accepted.id);
        queued::write_soon(inner, accepted.request());
        Ok(accepted.into())
    }

    /// Returns when what was accepted is in the records, or cannot be in the time that is left. For the end of the process.
    pub async fn flush(&self) {
        queued::flush(&self.0).await;
    }

    /// The record with this id; none if nobody has asked for its URL, as far as is known.
    pub(crate) async fn record(&self, id: RecordId) -> Result<Option<Found>, Problem> {
        let inner = &self.0;
        let now = inner.clock.now();
        let kept = inner.cache.get(id, now);
        if let Some(kept) = &kept
            && kept.fresh
            && !inner.accepted.is_waiting(id)
        {
            self.keep_an_eye_on_the_store();
            let stale = inner.down.load(Ordering::Relaxed);
            return Ok(Some(Found { body: kept.body.clone(), age: kept.age, stale }));
        }
        let queued = inner.accepted.queued(id, now).map(|record| body_of(&record));
        let found = |body, age, stale| Ok(Some(Found { body, age, stale }));
        let else_known = kept.is_some() || queued.is_some();
        let load = self.load(id);
        let loaded = if else_known || inner.down.load(Ordering::Relaxed) {
            // The load goes on, and the next read has it.
            tokio::time::timeout(ANSWER_WITHIN, load).await.unwrap_or_else(|_| {
                // As far as is known; the load corrects it.
                inner.down.store(true, Ordering::Relaxed);
                Err(late(ANSWER_WITHIN))
            })
        } else {
            load.await
        };
        match loaded {
            Ok(Some(body)) => found(body, Duration::ZERO, false),
            Ok(None) => queued.map_or(Ok(None), |body| found(body, Duration::ZERO, false)),
            Err(error) => match (kept, queued) {
                (Some(kept), _) => found(kept.body, kept.age, true),
                (None, Some(body)) => found(body, Duration::ZERO, true),
                (None, None) => Err(error.into()),
            },
        }
    }

    /// The store, if it is there by now.
    pub(crate) fn records(&self) -> Result<&Arc<dyn UrlRecords>, Problem> {
        self.0.records.get().ok_or_else(|| not_there().into())
    }

    /// Records that fit. The request does not wait long for a store that is known to be down.
    pub(crate) async fn list(&self, wanted: &Wanted) -> Result<UrlList, Problem> {
        let down = &self.0.down;
        let within = if down.load(Ordering::Relaxed) { ANSWER_WITHIN } else { PATIENCE };
        match tokio::time::timeout(within, answers::url_list(&**self.records()?, wanted)).await {
            Ok(list) => list,
            Err(_) => {
                down.store(true, Ordering::Relaxed);
                Err(late(within).into())
            }
        }
    }

    /// Forgets what the cache has of a record, or of all, and says of how many.
    pub(crate) fn forget(&self, id: Option<RecordId>) -> u64 {
        self.0.cache.forget(id)
    }

    /// The broker that URLs are put into.
    pub(crate) fn broker(&self) -> &Arc<dyn Broker> {
        &self.0.broker
    }

    /// Joins the load of this record that is under way, or begins one. It goes on when nobody waits for it any more.
    fn load(&self, id: RecordId) -> Load {
        let mut loads = self.0.loads.lock();
        if let Some(load) = loads.get(&id) {
            return load.clone();
        }
        let this = self.clone();
        let loading = tokio::spawn(async move {
            let loaded = this.read(id).await;
            this.0.loads.lock().remove(&id);
            loaded
        });
        let broke = |_| Err(StoreError::Unavailable { detail: "reading the record broke".to_owned() });
        let load = async move { loading.await.unwrap_or_else(broke) }.boxed().shared();
        loads.insert(id, load.clone());
        load
    }

    async fn read(&self, id: RecordId) -> Result<Option<Bytes>, StoreError> {
        let inner = &self.0;
        let records = inner.records.get().ok_or_else(not_there)?;
        let loading = inner.cache.loading();
        let reading = tokio::time::timeout(PATIENCE, records.get(id)).await;
        let read = reading.unwrap_or_else(|_| Err(late(PATIENCE)));
        inner.down.store(read.is_err(), Ordering::Relaxed);
        let Some(mut record) = read? else { return Ok(None) };
        let ahead = inner.accepted.ahead_of(&record);
        let outdated = ahead.is_some() || !record.status.is_finished();
        if let Some(request) = ahead.filter(|_| record.status.is_finished()) {
            // As the write in the background will have it.
            record.queue_again(&request, request.requested_at);
        }
        let body = body_of(&record);
        // What is not finished is kept for the page that it may have, for when the store is down.
        if !outdated || record.metadata != Metadata::default() {
            inner.cache.put(id, body.clone(), outdated, loading, inner.clock.now());
            if inner.accepted.is_waiting(id) {
                inner.cache.outdate(id);
            }
        }
        Ok(Some(body))
    }

    /// Looks now and then, in the background, whether the store is down: who is answered from the cache would not find
    /// out.
    fn keep_an_eye_on_the_store(&self) {
        let inner = &self.0;
        let (now, last) = (inner.clock.now().as_millis(), inner.looked_at.load(Ordering::Relaxed));
        let due = now.saturating_sub(last) >= LOOK_AGAIN_MS;
        // One of those who come at this moment looks.
        if !due || inner.looked_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let Some(records) = this.0.records.get() else { return };
            let up = matches!(tokio::time::timeout(PATIENCE, records.ready()).await, Ok(Ok(())));
            this.0.down.store(!up, Ordering::Relaxed);
        });
    }
}

fn not_there() -> StoreError {
    StoreError::Unavailable { detail: "the records are not there yet; the process waits for them".to_owned() }
}

fn late(after: Duration) -> StoreError {
    StoreError::Unavailable { detail: format!("the records did not answer within {after:?}") }
}

/// Nothing in a record can fail to be written.
fn body_of(record: &Record) -> Bytes {
    serde_json::to_vec(record).unwrap_or_default().into()
}

impl Found {
    /// The JSON, which says so if it may be out of date.
    pub(crate) fn json(&self) -> Bytes {
        match self.body.strip_prefix(b"{") {
            Some(rest) if self.stale => [&b"{\"stale\":true,"[..], rest].concat().into(),
            _ => self.body.clone(),
        }
    }
}
