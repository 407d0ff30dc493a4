//! The test oracle: the inventory records as simply as they can be said, with faults that can be switched on.

use crawlway_store::{
    StoreError, Timestamp, UrlRecords,
    conformance::inventory::Harness,
    inventory::{
        Attempt, Begun, Counts, Cursor, Ended, Fetched, Listed, Metadata, PageSource, Processing, Record,
        RecordId, Request, Status, Wanted, Work, error_text,
    },
};
use serde_json::{Map, Value};
use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

crawlway_conformance::faults! {
    StaysQueued,
    CountsCrashes,
    ReusesNumbers,
    MakesAnew,
    ResetsOnRedelivery,
    ClearsErrorOnRedelivery,
    FetchesAgain,
    TriesTheDeadAgain,
    KeepsCountForNewer,
    KeepsErrorForNewer,
    BeginningClearsThePage,
    WaitsForTheOlder,
    CountsByMessage,
    FoldsCase,
    TakesEmptyIds,
    TakesAnyLength,
    QueuesNothing,
    QueueingClearsThePage,
    QueueingKeepsTheCount,
    QueuesWhatIsInProgress,
    QueuesItsOwnEnd,
    QueuesOlder,
    QueuesAgain,
    QueuesAnything,
    TakesOlder,
    TakesOlderAfterTheEnd,
    TiesGoToTheLatest,
    OrdersWithoutCase,
    BelievesTheFuture,
    DropsCookies,
    EndIsAnAttempt,
    EmptyIsMissing,
    CompletesAgain,
    OneTryMore,
    DropsErrors,
    CountsAgain,
    LastEndCounts,
    IgnoresNumbers,
    IgnoresMessages,
    LostIsOvertaken,
    ThreeTriesAlways,
    KeepsErrors,
    FailureClearsThePage,
    MergesPages,
    TrimsTexts,
    DropsOddNames,
    MakesNumbersFloat,
    KeepsWhatItGets,
    KeepsLongErrors,
    RefusesAMegabyte,
    TooLargeIsAnEnd,
    OldestFirst,
    ByLastChange,
    SmallestIdFirst,
    RangeHasItsEnd,
    RangeLacksItsStart,
    AnyStatus,
    SkipsTies,
    RepeatsTies,
    PagesByCount,
    AlwaysMore,
    SourcesWithoutLimit,
    SourcesAlways,
    SourcesNever,
    CountsTheFinished,
    HandlesApart,
    LosesEverything,
    NeverReady,
    RacesItself,
}

type Records = HashMap<RecordId, Record>;

#[derive(Clone)]
struct Oracle {
    records: Arc<Mutex<Records>>,
    /// How many were listed before, for who pages by that.
    seen: Arc<Mutex<HashMap<String, usize>>>,
    fault: Fault,
}

impl std::fmt::Debug for Oracle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oracle({:?})", self.fault)
    }
}

impl Oracle {
    fn new(fault: Fault) -> Self {
        Self { records: Arc::default(), seen: Arc::default(), fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().expect("no panic under the lock")
    }

    /// Lets something happen to the records, as a whole unless it races itself.
    async fn change<T>(&self, change: impl FnOnce(&mut Records) -> T) -> T {
        if self.has(Fault::RacesItself) {
            let mut copy = self.records().clone();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let answer = change(&mut copy);
            *self.records() = copy;
            return answer;
        }
        change(&mut self.records())
    }

    fn id(&self, url: &str) -> RecordId {
        if self.has(Fault::FoldsCase) { RecordId::of_url(&url.to_lowercase()) } else { RecordId::of_url(url) }
    }

    fn taken_in(&self, request: &Request, now: Timestamp) -> Result<Request, StoreError> {
        let careless = match self.fault {
            Fault::TakesEmptyIds => request.message_id.is_empty(),
            Fault::TakesAnyLength => true,
            _ => false,
        };
        if careless {
            return Ok(request.clone());
        }
        let mut request_kept = request.storable(now)?;
        if self.has(Fault::BelievesTheFuture) {
            request_kept.requested_at = request.requested_at;
        }
        Ok(request_kept)
    }

    /// Whether a message is older than the one that has the record.
    fn is_older(&self, request: &Request, record: &Record) -> bool {
        let Some(work) = &record.work else { return false };
        let order = |time, id: &str| match self.fault {
            Fault::OrdersWithoutCase => (time, id.to_lowercase()),
            _ => (time, id.to_owned()),
        };
        let (this, last) =
            (order(request.requested_at, &request.message_id), order(work.requested_at, &work.message_id));
        match self.fault {
            Fault::TakesOlder => false,
            Fault::TakesOlderAfterTheEnd if record.status.is_finished() => false,
            Fault::WaitsForTheOlder if record.status.is_open() => true,
            Fault::TiesGoToTheLatest => this.0 < last.0,
            _ => this < last,
        }
    }

    fn begun(&self, records: &mut Records, request: &Request, now: Timestamp) -> Begun {
        let id = self.id(&request.url);
        let status = if self.has(Fault::StaysQueued) { Status::Queued } else { Status::InProgress };
        let made = || Record {
            id,
            url: request.url.clone(),
            status,
            metadata: Metadata::default(),
            processing: Processing::default(),
            additional_details: None,
            work: None,
            created_at: now,
            updated_at: now,
        };
        let record = records.entry(id).or_insert_with(made);
        let same = record.work.as_ref().is_some_and(|work| work.message_id == request.message_id);
        let retry_count = record.processing.retry_count;
        let finished = match self.fault {
            Fault::FetchesAgain => false,
            Fault::TriesTheDeadAgain => record.status == Status::Completed,
            _ => record.status.is_finished(),
        };
        if same && finished {
            return Begun::Finished { status: record.status, retry_count };
        }
        if !same && self.is_older(request, record) {
            return Begun::Superseded { by: record.work.as_ref().expect("it is newer").message_id.clone() };
        }
        let last = record.work.as_ref().map_or(0, |work| work.attempt);
        let number = if self.has(Fault::ReusesNumbers) && same { last } else { last + 1 };
        let processing = &mut record.processing;
        if !same && last > 0 {
            if !self.has(Fault::KeepsCountForNewer) {
                processing.retry_count = 0;
            }
            if !self.has(Fault::KeepsErrorForNewer) {
                processing.error_message = None;
            }
            if self.has(Fault::BeginningClearsThePage) {
                record.metadata = Metadata::default();
            }
        }
        match self.fault {
            Fault::CountsCrashes if same && record.status == Status::InProgress => {
                processing.retry_count += 1;
            }
            Fault::ResetsOnRedelivery => processing.retry_count = 0,
            Fault::ClearsErrorOnRedelivery => processing.error_message = None,
            Fault::MakesAnew => record.created_at = now,
            _ => {}
        }
        processing.last_attempt_at = Some(now);
        let requested_at = match &record.work {
            Some(work) if same => work.requested_at,
            _ => request.requested_at,
        };
        record.work = Some(Work { message_id: request.message_id.clone(), requested_at, attempt: number });
        (record.status, record.updated_at) = (status, now);
        let attempt = Attempt { id, message_id: request.message_id.clone(), number };
        Begun::Yours { attempt, retry_count: record.processing.retry_count }
    }

    fn marked(&self, records: &mut Records, request: &Request, now: Timestamp) {
        let Some(record) = records.get_mut(&self.id(&request.url)) else {
            let queued = Record::queued(request, now);
            records.insert(queued.id, queued);
            return;
        };
        let same = record.work.as_ref().is_some_and(|work| work.message_id == request.message_id);
        let at_rest = match self.fault {
            Fault::QueuesWhatIsInProgress => record.status != Status::Queued,
            Fault::QueuesAgain => record.status.is_finished() || record.status == Status::Queued,
            _ => record.status.is_finished(),
        };
        let own_end = same && !matches!(self.fault, Fault::QueuesItsOwnEnd | Fault::QueuesAgain);
        let older = self.is_older(request, record) && !self.has(Fault::QueuesOlder);
        if !at_rest || own_end || older {
            return;
        }
        let tries = record.processing.retry_count;
        record.queue_again(request, now);
        match self.fault {
            Fault::QueueingClearsThePage => record.metadata = Metadata::default(),
            Fault::QueueingKeepsTheCount => record.processing.retry_count = tries,
            _ => {}
        }
    }

    /// Ends an attempt by this change, unless it has ended or is not the latest.
    async fn end(&self, attempt: &Attempt, again: Fault, change: impl FnOnce(&mut Record)) -> Ended {
        self.change(|records| {
            let Some(record) = records.get_mut(&attempt.id) else {
                return if self.has(Fault::LostIsOvertaken) { Ended::Overtaken } else { Ended::Lost };
            };
            let work = record.work.as_ref().expect("all are ours");
            let message = work.message_id == attempt.message_id || self.has(Fault::IgnoresMessages);
            let number = work.attempt == attempt.number || self.has(Fault::IgnoresNumbers);
            if !(message && number) {
                return Ended::Overtaken;
            }
            if record.status.is_open() || self.has(Fault::LastEndCounts) || self.has(again) {
                change(record);
            }
            Ended::As { status: record.status, retry_count: record.processing.retry_count }
        })
        .await
    }

    fn kept(&self, fetched: &Fetched) -> Result<Fetched, StoreError> {
        let too_large = || StoreError::Invalid { problem: "too large".to_owned() };
        let mut kept = match self.fault {
            Fault::KeepsWhatItGets => fetched.clone(),
            Fault::RefusesAMegabyte if fetched.weight() > 1 << 20 => return Err(too_large()),
            _ => fetched.storable()?.into_owned(),
        };
        match self.fault {
            Fault::DropsCookies => kept.cookies = None,
            Fault::EmptyIsMissing => {
                kept.headers = kept.headers.filter(|headers| !headers.is_empty());
                kept.page_source = kept.page_source.filter(|source| !source.is_empty());
            }
            Fault::TrimsTexts => kept.page_source = kept.page_source.map(|source| source.trim().to_owned()),
            Fault::DropsOddNames => kept.additional_details.retain(|name, _| !name.contains(['.', '$'])),
            Fault::MakesNumbersFloat => kept.additional_details = floating(&kept.additional_details),
            _ => {}
        }
        Ok(kept)
    }

    fn shown(&self, record: &Record, with_source: bool) -> Record {
        let mut record = record.clone();
        let with_source = match self.fault {
            Fault::SourcesAlways => true,
            Fault::SourcesNever => false,
            _ => with_source,
        };
        if !with_source {
            record.metadata.page_source = PageSource::LeftOut;
        }
        record
    }

    fn is_wanted(&self, record: &Record, wanted: &Wanted) -> bool {
        let at = record.created_at;
        let from = wanted
            .from
            .is_none_or(|from| if self.has(Fault::RangeLacksItsStart) { from < at } else { from <= at });
        let to = wanted.to.is_none_or(|to| if self.has(Fault::RangeHasItsEnd) { at <= to } else { at < to });
        let status = wanted.status.is_none_or(|status| status == record.status) || self.has(Fault::AnyStatus);
        let after = wanted.after.is_none_or(|cursor| match self.fault {
            Fault::SkipsTies => at < cursor.created_at,
            Fault::RepeatsTies => at <= cursor.created_at && record.id != cursor.id,
            Fault::PagesByCount => true,
            Fault::SmallestIdFirst => (at, Reverse(record.id)) < (cursor.created_at, Reverse(cursor.id)),
            _ => (at, record.id) < (cursor.created_at, cursor.id),
        });
        from && to && status && after
    }
}

fn floating(object: &Map<String, Value>) -> Map<String, Value> {
    fn float(value: &Value) -> Value {
        match value {
            Value::Number(number) => number.as_f64().into(),
            Value::Array(values) => values.iter().map(float).collect(),
            other => other.clone(),
        }
    }
    object.iter().map(|(name, value)| (name.clone(), float(value))).collect()
}

#[async_trait::async_trait]
impl UrlRecords for Oracle {
    async fn mark_queued(&self, requests: &[Request], now: Timestamp) -> Result<(), StoreError> {
        for request in requests {
            let request = match self.fault {
                Fault::QueuesNothing => return Ok(()),
                Fault::QueuesAnything => request.clone(),
                _ => request.storable(now)?,
            };
            self.change(|records| self.marked(records, &request, now)).await;
        }
        Ok(())
    }

    async fn begin(&self, request: &Request, now: Timestamp) -> Result<Begun, StoreError> {
        let request = self.taken_in(request, now)?;
        Ok(self.change(|records| self.begun(records, &request, now)).await)
    }

    async fn complete(
        &self,
        attempt: &Attempt,
        fetched: &Fetched,
        now: Timestamp,
    ) -> Result<Ended, StoreError> {
        let kept = match self.kept(fetched) {
            Err(_) if self.has(Fault::TooLargeIsAnEnd) => Fetched::default(),
            kept => kept?,
        };
        let change = |record: &mut Record| {
            let cookies = match kept.cookies {
                None if self.has(Fault::MergesPages) => record.metadata.cookies.take(),
                cookies => cookies,
            };
            record.metadata =
                Metadata { headers: kept.headers, cookies, page_source: kept.page_source.into() };
            record.additional_details = Some(kept.additional_details).filter(|details| !details.is_empty());
            (record.status, record.updated_at) = (Status::Completed, now);
            if !self.has(Fault::KeepsErrors) {
                record.processing.error_message = None;
            }
            if self.has(Fault::EndIsAnAttempt) {
                record.processing.last_attempt_at = Some(now);
            }
        };
        Ok(self.end(attempt, Fault::CompletesAgain, change).await)
    }

    async fn fail(
        &self,
        attempt: &Attempt,
        error: &str,
        most_tries: u32,
        now: Timestamp,
    ) -> Result<Ended, StoreError> {
        let most = match self.fault {
            Fault::ThreeTriesAlways => 3,
            Fault::OneTryMore => most_tries + 1,
            _ => most_tries,
        };
        let error = match self.fault {
            Fault::DropsErrors => None,
            Fault::KeepsLongErrors => Some(error.to_owned()),
            _ => Some(error_text(error).into_owned()),
        };
        if self.has(Fault::CountsByMessage) {
            let mut records = self.records();
            for other in records.values_mut().filter(|record| record.id != attempt.id) {
                other.processing.retry_count += 1;
            }
        }
        let change = |record: &mut Record| {
            let processing = &mut record.processing;
            processing.retry_count += 1;
            processing.error_message = error;
            record.status =
                if processing.retry_count < most { Status::FailedRetryable } else { Status::FailedPermanent };
            record.updated_at = now;
            if self.has(Fault::FailureClearsThePage) {
                record.metadata = Metadata::default();
            }
        };
        Ok(self.end(attempt, Fault::CountsAgain, change).await)
    }

    async fn get(&self, id: RecordId) -> Result<Option<Record>, StoreError> {
        Ok(self.records().get(&id).cloned())
    }

    async fn list(&self, wanted: &Wanted) -> Result<Listed, StoreError> {
        let records = self.records();
        let mut found: Vec<&Record> =
            records.values().filter(|record| self.is_wanted(record, wanted)).collect();
        found.sort_by_key(|record| match self.fault {
            Fault::ByLastChange => Reverse((record.updated_at, record.id)),
            _ => Reverse((record.created_at, record.id)),
        });
        match self.fault {
            Fault::OldestFirst => found.reverse(),
            Fault::SmallestIdFirst => found.sort_by_key(|record| (Reverse(record.created_at), record.id)),
            _ => {}
        }
        let most = if self.has(Fault::SourcesWithoutLimit) { wanted.limit } else { wanted.page() };
        let mut seen = self.seen.lock().expect("no panic under the lock");
        let before = wanted.after.map_or(0, |cursor| seen.get(&cursor.to_string()).copied().unwrap_or(0));
        let skipped = if self.has(Fault::PagesByCount) { before } else { 0 };
        let shown = found.into_iter().skip(skipped).take(most.saturating_add(1));
        let shown: Vec<Record> = shown.map(|record| self.shown(record, wanted.with_source)).collect();
        if most == 0 {
            return Ok(Listed { records: vec![], next: None });
        }
        let mut listed = Listed::page(shown, most);
        if self.has(Fault::AlwaysMore) {
            listed.next = listed.records.last().map(Cursor::at);
        }
        if let Some(next) = listed.next {
            seen.insert(next.to_string(), before + listed.records.len());
        }
        Ok(listed)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        for record in self.records().values() {
            if record.status.is_finished() || !self.has(Fault::CountsTheFinished) {
                counts.add(record.status, 1);
            }
        }
        Ok(counts)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if self.has(Fault::NeverReady) { Err(StoreError::Closed) } else { Ok(()) }
    }
}

pub(crate) struct OracleHarness {
    oracle: Oracle,
}

impl OracleHarness {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { oracle: Oracle::new(fault) }
    }
}

#[async_trait::async_trait]
impl Harness for OracleHarness {
    async fn fresh(&mut self) -> Arc<dyn UrlRecords> {
        Arc::new(self.oracle.clone())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn UrlRecords>> {
        if self.oracle.has(Fault::HandlesApart) {
            return Some(Arc::new(Oracle::new(Fault::HandlesApart)));
        }
        Some(Arc::new(self.oracle.clone()))
    }

    async fn reopen(&mut self) -> Arc<dyn UrlRecords> {
        if self.oracle.has(Fault::LosesEverything) {
            self.oracle.records().clear();
        }
        Arc::new(self.oracle.clone())
    }
}
