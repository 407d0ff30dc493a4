//! Service of the flow `inventory`: accepts URLs, and reads their records from the store or the cache.
//!
//! ```text
//! POST ─▶ broker ─▶ pending URLs ─▶ 202 ─▶ write-behind to the store
//! GET  ─▶ cache ─▶ store (concurrent reads are coalesced) ─▶ pending URLs ─▶ expired cache entry, marked stale
//! ```

mod cache;
mod pending;
mod write_behind;

use crate::{
    dto::{AcceptedUrl, UrlList},
    service::{self, Error, ErrorKind},
};
use axum::body::Bytes;
use cache::Cache;
use crawlway_broker::{QueueBackend, QueueName};
use crawlway_clock::Clock;
use crawlway_fetch::SsrfGuard;
use crawlway_flow::Shutdown;
use crawlway_flows::inventory::AcceptError;
use crawlway_store::{
    StoreError, UrlRecords,
    inventory::{InventoryRecord, Metadata, RecordId, RecordQuery},
};
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use pending::PendingUrls;
use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use write_behind::WriteBehind;

/// Timeout of a call to the store, after which it is down.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a read that has a fallback, or whose store is known to be down.
const FALLBACK_TIMEOUT: Duration = Duration::from_millis(700);
/// Interval of the probes of the store while reads are served from the cache, in milliseconds.
const PROBE_INTERVAL_MS: u64 = 1000;

/// Options of the flow `inventory` in the gateway.
#[derive(Debug, Clone)]
pub struct InventoryOptions {
    /// Queue of accepted URLs.
    pub queue: QueueName,
    /// SSRF guard for literal addresses.
    pub guard: SsrfGuard,
    /// Time to live of finished records in the cache.
    pub cache_ttl: Duration,
    /// Size of the cache in bytes.
    pub cache_size: usize,
    /// Maximum number of pending URLs in memory, and of records to be written.
    pub max_accepted: usize,
}

/// Service of the flow `inventory`. It exists before the broker and the store are connected, and reports which is missing.
#[derive(Debug, Clone)]
pub struct InventoryService(Arc<Inner>);

type Load = Shared<BoxFuture<'static, Result<Option<Bytes>, StoreError>>>;

#[derive(Debug)]
struct Inner {
    broker: Arc<dyn QueueBackend>,
    records: OnceLock<Arc<dyn UrlRecords>>,
    options: InventoryOptions,
    clock: Clock,
    stop: Shutdown,
    publisher_ready: AtomicBool,
    pending: PendingUrls,
    writes: WriteBehind,
    cache: Cache,
    loads: Mutex<HashMap<RecordId, Load>>,
    /// Whether the last call to the store failed.
    down: AtomicBool,
    /// Time of the last probe, in milliseconds since 1970.
    probed_at: AtomicU64,
}

/// Record with its age, for a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CurrentRecord {
    /// JSON of the record.
    pub(crate) body: Bytes,
    /// Time since it was loaded.
    pub(crate) age: Duration,
    /// Whether the store is unavailable, so that the record may be out of date.
    pub(crate) stale: bool,
}

impl InventoryService {
    /// Service on this broker, which may not be connected yet. URLs are accepted from
    /// [`start_accepting`](Self::start_accepting) on, and records read from [`set_records`](Self::set_records) on.
    pub fn new(
        broker: Arc<dyn QueueBackend>,
        options: InventoryOptions,
        clock: Clock,
        stop: Shutdown,
    ) -> Self {
        Self(Arc::new(Inner {
            broker,
            records: OnceLock::new(),
            pending: PendingUrls::new(options.max_accepted),
            writes: WriteBehind::new(options.max_accepted),
            cache: Cache::new(options.cache_ttl, options.cache_size),
            options,
            clock,
            stop,
            publisher_ready: AtomicBool::new(false),
            loads: Mutex::default(),
            down: AtomicBool::new(false),
            probed_at: AtomicU64::new(0),
        }))
    }

    /// Starts to accept URLs.
    pub fn start_accepting(&self) {
        self.0.publisher_ready.store(true, Ordering::Release);
    }

    /// Sets the store of the records; later calls are ignored.
    pub fn set_records(&self, records: Arc<dyn UrlRecords>) {
        let _ = self.0.records.set(records);
    }

    /// Error of a URL with a literal address that the SSRF guard forbids. Names are checked when they are resolved.
    pub(crate) fn refused_address(&self, url: &str) -> Option<Error> {
        match crawlway_flows::inventory::check(url, &self.0.options.guard) {
            Err(error @ AcceptError::Address { .. }) => Some(service::refused_url(error)),
            _ => None,
        }
    }

    /// Publishes a URL, and returns after the publisher confirm.
    pub(crate) async fn accept(&self, url: &str) -> Result<AcceptedUrl, Error> {
        let inner = &self.0;
        if inner.stop.is_requested() {
            return Err(Error::new(
                ErrorKind::PublisherNotReady,
                "the process is shutting down; use another gateway, or retry later",
            ));
        }
        // An invalid URL is rejected also without a broker.
        if !inner.publisher_ready.load(Ordering::Acquire) {
            crawlway_flows::inventory::check(url, &inner.options.guard).map_err(service::refused_url)?;
            return Err(Error::new(
                ErrorKind::PublisherNotReady,
                format!(
                    "queue `{}` is not declared yet, since the broker is not connected; retry later",
                    inner.options.queue
                ),
            ));
        }
        let accepted = service::accept_url(
            &*inner.broker,
            &inner.options.queue,
            &inner.options.guard,
            url,
            inner.clock.now(),
        )
        .await?;
        inner.pending.insert(accepted.clone());
        // Otherwise the old record would be served until its TTL, if the pending URL is evicted early.
        inner.cache.mark_outdated(accepted.id);
        write_behind::schedule(inner, accepted.request());
        Ok(accepted.into())
    }

    /// Writes the records of all accepted URLs at shutdown, up to a timeout.
    pub async fn flush(&self) {
        write_behind::flush(&self.0).await;
    }

    /// Record by id; `None` for an unknown URL.
    pub(crate) async fn record(&self, id: RecordId) -> Result<Option<CurrentRecord>, Error> {
        let inner = &self.0;
        let now = inner.clock.now();
        let cached = inner.cache.get(id, now);
        if let Some(cached) = &cached
            && cached.fresh
            && !inner.pending.is_pending(id)
        {
            self.probe_store();
            let stale = inner.down.load(Ordering::Relaxed);
            return Ok(Some(CurrentRecord { body: cached.body.clone(), age: cached.age, stale }));
        }
        let pending = inner.pending.record(id, now).map(|record| to_json(&record));
        let record = |body, age, stale| Ok(Some(CurrentRecord { body, age, stale }));
        let has_fallback = cached.is_some() || pending.is_some();
        let load = self.load(id);
        let loaded = if has_fallback || inner.down.load(Ordering::Relaxed) {
            // The load continues, for the next read.
            tokio::time::timeout(FALLBACK_TIMEOUT, load).await.unwrap_or_else(|_| {
                // Corrected when the load ends.
                inner.down.store(true, Ordering::Relaxed);
                Err(timed_out(FALLBACK_TIMEOUT))
            })
        } else {
            load.await
        };
        match loaded {
            Ok(Some(body)) => record(body, Duration::ZERO, false),
            Ok(None) => pending.map_or(Ok(None), |body| record(body, Duration::ZERO, false)),
            Err(error) => match (cached, pending) {
                (Some(cached), _) => record(cached.body, cached.age, true),
                (None, Some(body)) => record(body, Duration::ZERO, true),
                (None, None) => Err(error.into()),
            },
        }
    }

    /// List of records. The timeout is short for a store that is known to be down.
    pub(crate) async fn list(&self, wanted: &RecordQuery) -> Result<UrlList, Error> {
        let records = self.0.records.get().ok_or_else(not_connected)?;
        let down = &self.0.down;
        let timeout = if down.load(Ordering::Relaxed) { FALLBACK_TIMEOUT } else { STORE_TIMEOUT };
        match tokio::time::timeout(timeout, service::url_list(&**records, wanted)).await {
            Ok(list) => list,
            Err(_) => {
                down.store(true, Ordering::Relaxed);
                Err(timed_out(timeout).into())
            }
        }
    }

    /// Removes one record or all from the cache, and returns their number.
    pub(crate) fn invalidate(&self, id: Option<RecordId>) -> u64 {
        self.0.cache.invalidate(id)
    }

    /// Joins the pending load of this record, or starts one. It continues without its callers.
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
        let panicked =
            |_| Err(StoreError::Unavailable { detail: "the read of the record panicked".to_owned() });
        let load = async move { loading.await.unwrap_or_else(panicked) }.boxed().shared();
        loads.insert(id, load.clone());
        load
    }

    async fn read(&self, id: RecordId) -> Result<Option<Bytes>, StoreError> {
        let inner = &self.0;
        let records = inner.records.get().ok_or_else(not_connected)?;
        let token = inner.cache.start_load();
        let reading = tokio::time::timeout(STORE_TIMEOUT, records.get(id)).await;
        let read = reading.unwrap_or_else(|_| Err(timed_out(STORE_TIMEOUT)));
        inner.down.store(read.is_err(), Ordering::Relaxed);
        let Some(mut record) = read? else { return Ok(None) };
        let newer = inner.pending.newer_than(&record);
        let outdated = newer.is_some() || !record.status.is_finished();
        if let Some(request) = newer.filter(|_| record.status.is_finished()) {
            // Same change as the write-behind will make.
            record.queue_again(&request, request.requested_at);
        }
        let body = to_json(&record);
        // An unfinished record is cached for its last page, for an outage of the store.
        if !outdated || record.metadata != Metadata::default() {
            inner.cache.put(id, body.clone(), outdated, token, inner.clock.now());
            if inner.pending.is_pending(id) {
                inner.cache.mark_outdated(id);
            }
        }
        Ok(Some(body))
    }

    /// Probes the store in the background at intervals, since reads from the cache do not notice an outage.
    fn probe_store(&self) {
        let inner = &self.0;
        let (now, last) = (inner.clock.now().as_millis(), inner.probed_at.load(Ordering::Relaxed));
        let due = now.saturating_sub(last) >= PROBE_INTERVAL_MS;
        // Only one of several concurrent requests probes.
        if !due || inner.probed_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let Some(records) = this.0.records.get() else { return };
            let up = matches!(tokio::time::timeout(STORE_TIMEOUT, records.ready()).await, Ok(Ok(())));
            this.0.down.store(!up, Ordering::Relaxed);
        });
    }
}

fn not_connected() -> StoreError {
    StoreError::Unavailable { detail: "the record store is not connected yet; retry later".to_owned() }
}

fn timed_out(timeout: Duration) -> StoreError {
    StoreError::Unavailable { detail: format!("no response of the record store within {timeout:?}") }
}

/// JSON of a record; its serialization cannot fail.
fn to_json(record: &InventoryRecord) -> Bytes {
    serde_json::to_vec(record).unwrap_or_default().into()
}

impl CurrentRecord {
    /// JSON of the record, with `stale` if it may be out of date.
    pub(crate) fn json(&self) -> Bytes {
        match self.body.strip_prefix(b"{") {
            Some(rest) if self.stale => [&b"{\"stale\":true,"[..], rest].concat().into(),
            _ => self.body.clone(),
        }
    }
}
