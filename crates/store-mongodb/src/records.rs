//! The contract of the records: each call is one command on one document, which the server runs atomically.

use crate::{
    document::{date, decode, document, fields, metadata, object_id, record, retry_count, status, work},
    fault::Fault,
    store::MongoStore,
};
use crawlway_store::{
    StoreError, Timestamp, UrlRecords,
    inventory::{
        Attempt, BeginOutcome, CRAWLWAY_FIELD, EndOutcome, FetchedContent, InventoryRecord, LatestAttempt,
        RecordId, RecordPage, RecordQuery, RecordRequest, RecordStatus, StatusCounts, sanitize_error,
        sanitize_text,
    },
};
use futures::{StreamExt, TryStreamExt};
use mongodb::{
    bson::{Bson, DateTime, Document, RawDocumentBuf, doc},
    error::Result as MongoResult,
    options::ReturnDocument,
};

/// Maximum number of retries after a concurrent insert of the same document.
const MAX_RETRIES: u32 = 8;

/// Maximum number of concurrent commands of `mark_queued`.
const CONCURRENCY: usize = 16;

const MESSAGE: &str = "additional_details.crawlway.message_id";
const ATTEMPT: &str = "additional_details.crawlway.attempt";
/// Field path as an expression.
const REQUESTED: &str = "$additional_details.crawlway.requested_at";

#[async_trait::async_trait]
impl UrlRecords for MongoStore {
    async fn mark_queued(&self, requests: &[RecordRequest], now: Timestamp) -> Result<(), StoreError> {
        let mut changes = Vec::with_capacity(requests.len());
        for request in requests {
            let id = object_id(RecordId::of_url(&request.url));
            changes.push((id, mark_queued(&request.sanitized(now)?, date(now))));
        }
        let updates = changes.into_iter().map(|(id, change)| async move {
            self.retry_conflicts(|| {
                self.records.update_one(doc! { "_id": id }, vec![change.clone()]).upsert(true).into_future()
            })
            .await
        });
        let mut updates = futures::stream::iter(updates).buffer_unordered(CONCURRENCY);
        while let Some(result) = updates.next().await {
            result?;
        }
        Ok(())
    }

    async fn begin(&self, request: &RecordRequest, now: Timestamp) -> Result<BeginOutcome, StoreError> {
        let id = RecordId::of_url(&request.url);
        let request = request.sanitized(now)?;
        let update = begin(&request, date(now));
        let command = || {
            self.records
                .find_one_and_update(doc! { "_id": object_id(id) }, vec![update.clone()])
                .upsert(true)
                .return_document(ReturnDocument::After)
                .projection(head())
                .into_future()
        };
        let Some(head) = self.retry_conflicts(command).await?.map(Head::decode).transpose()? else {
            return Err(unreadable("the upsert returned no document"));
        };
        // A message that takes over the record leaves it in progress, so that the new state shows the outcome.
        Ok(if head.work.message_id != request.message_id {
            BeginOutcome::Superseded { by: head.work.message_id }
        } else if head.status.is_finished() {
            BeginOutcome::AlreadyFinished { status: head.status, retry_count: head.retry_count }
        } else {
            let attempt = Attempt { id, message_id: request.message_id, number: head.work.attempt };
            BeginOutcome::Started { attempt, retry_count: head.retry_count }
        })
    }

    async fn complete(
        &self,
        attempt: &Attempt,
        fetched: &FetchedContent,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError> {
        let fetched = fetched.sanitized()?;
        self.end(
            attempt,
            doc! { "$set": {
                "status": RecordStatus::Completed.as_str(),
                "metadata": literal(metadata(&fetched)),
                "processing.error_message": Bson::Null,
                "additional_details": { "$mergeObjects": [
                    literal(document(&fetched.additional_details)),
                    { CRAWLWAY_FIELD: "$additional_details.crawlway" },
                ] },
                "updated_at": date(now),
            } },
        )
        .await
    }

    async fn fail(
        &self,
        attempt: &Attempt,
        error: &str,
        max_attempts: u32,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError> {
        let failed = doc! { "$add": [{ "$ifNull": ["$processing.retry_count", 0] }, 1] };
        self.end(
            attempt,
            doc! { "$set": {
                "status": { "$cond": [
                    { "$lt": [failed.clone(), i64::from(max_attempts)] },
                    RecordStatus::FailedRetryable.as_str(),
                    RecordStatus::FailedPermanent.as_str(),
                ] },
                "processing.retry_count": failed,
                "processing.error_message": literal(sanitize_error(error).into_owned()),
                "updated_at": date(now),
            } },
        )
        .await
    }

    async fn get(&self, id: RecordId) -> Result<Option<InventoryRecord>, StoreError> {
        let found = self.run(self.records.find_one(doc! { "_id": object_id(id) }).into_future()).await?;
        found.map(|document| record(document, true).map_err(unreadable)).transpose()
    }

    async fn list(&self, wanted: &RecordQuery) -> Result<RecordPage, StoreError> {
        let max = wanted.page_size();
        if max == 0 {
            return Ok(RecordPage { records: vec![], next: None });
        }
        let filter = filter(wanted);
        let projection = if wanted.with_source {
            doc! {}
        } else {
            doc! { "metadata.page_source": 0 }
        };
        let found: Vec<RawDocumentBuf> = self
            .run(async {
                let found = self
                    .records
                    .find(filter)
                    .sort(doc! { "created_at": -1, "_id": -1 })
                    .limit(i64::try_from(max).unwrap_or(i64::MAX).saturating_add(1))
                    .projection(projection)
                    .await?;
                found.try_collect().await
            })
            .await?;
        let records: Result<Vec<InventoryRecord>, String> =
            found.into_iter().map(|document| record(document, wanted.with_source)).collect();
        Ok(RecordPage::from_rows(records.map_err(unreadable)?, max))
    }

    async fn counts(&self) -> Result<StatusCounts, StoreError> {
        let groups: Vec<Document> = self
            .run(async {
                let by_status = [
                    doc! { "$match": { "status": { "$in": all_statuses() } } },
                    doc! { "$group": { "_id": "$status", "count": { "$sum": 1_i64 } } },
                ];
                self.records.aggregate(by_status).await?.try_collect().await
            })
            .await?;
        let mut counts = StatusCounts::default();
        for group in groups {
            let status = group.get_str("_id").ok().and_then(RecordStatus::from_name);
            let count = group.get_i64("count").ok().and_then(|count| u64::try_from(count).ok());
            if let (Some(status), Some(count)) = (status, count) {
                counts.add(status, count);
            }
        }
        Ok(counts)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(self.ping().await?)
    }
}

impl MongoStore {
    /// Runs a command, with retries after a concurrent insert of the same document.
    async fn retry_conflicts<T, F>(&self, command: impl Fn() -> F) -> Result<T, Fault>
    where
        F: Future<Output = MongoResult<T>>,
    {
        let mut retries = 0;
        loop {
            match self.run(command()).await {
                Err(Fault::Conflict(_)) if retries < MAX_RETRIES => retries += 1,
                result => return result,
            }
        }
    }

    /// Ends an attempt with this change, if it is the latest and has not ended.
    async fn end(&self, attempt: &Attempt, change: Document) -> Result<EndOutcome, StoreError> {
        let id = object_id(attempt.id);
        let message_id = sanitize_text(&attempt.message_id);
        let number = i64::try_from(attempt.number).unwrap_or(i64::MAX);
        let open: Vec<&str> = RecordStatus::ALL
            .into_iter()
            .filter(|status| status.is_open())
            .map(RecordStatus::as_str)
            .collect();
        let filter = doc! { "_id": id, MESSAGE: &*message_id, ATTEMPT: number, "status": { "$in": open } };
        let change = vec![change];
        let after = self
            .run(async {
                self.records
                    .find_one_and_update(filter, change)
                    .return_document(ReturnDocument::After)
                    .projection(head())
                    .await
            })
            .await?;
        let ended = match after {
            Some(after) => Some(after),
            None => {
                self.run(self.records.find_one(doc! { "_id": id }).projection(head()).into_future()).await?
            }
        };
        let Some(head) = ended.map(Head::decode).transpose()? else { return Ok(EndOutcome::NotFound) };
        if head.work.message_id != message_id || head.work.attempt != attempt.number {
            return Ok(EndOutcome::Fenced);
        }
        Ok(EndOutcome::Recorded { status: head.status, retry_count: head.retry_count })
    }
}

/// Status and latest attempt of a record, without its content.
struct Head {
    status: RecordStatus,
    retry_count: u32,
    work: LatestAttempt,
}

impl Head {
    fn decode(document: RawDocumentBuf) -> Result<Self, StoreError> {
        let mut document = decode(document).map_err(unreadable)?;
        let status =
            status(&document).map_err(|word| unreadable(format!("a record has the status `{word}`")))?;
        let mut details = fields(document.remove("additional_details"));
        // Another program has overwritten the document, so that no attempt is the latest.
        let none =
            || LatestAttempt { message_id: String::new(), requested_at: Timestamp::default(), attempt: 0 };
        Ok(Self {
            status,
            retry_count: retry_count(&fields(document.remove("processing"))),
            work: work(&fields(details.remove(CRAWLWAY_FIELD))).unwrap_or_else(none),
        })
    }
}

/// Projection for [`Head`].
fn head() -> Document {
    doc! { "status": 1, "processing.retry_count": 1, "additional_details.crawlway": 1 }
}

/// Update that records an accepted message, unless the record is unfinished, or belongs to this message or a newer one.
fn mark_queued(request: &RecordRequest, now: DateTime) -> Document {
    let message = || literal(request.message_id.clone());
    let requested_at = date(request.requested_at);
    let last_message = format!("${MESSAGE}");
    let absent = doc! { "$eq": [{ "$type": "$status" }, "missing"] };
    let condition = doc! { "$or": [absent, { "$and": [
        { "$in": ["$status", finished()] },
        { "$ne": [&last_message, message()] },
        newer(request),
    ] }] };
    let replacement = doc! {
        "url": literal(request.url.clone()),
        "status": RecordStatus::Queued.as_str(),
        "metadata": or_default("metadata", no_metadata()),
        "processing": {
            "retry_count": 0,
            "error_message": Bson::Null,
            "last_attempt_at": or_default("processing.last_attempt_at", Bson::Null),
        },
        "additional_details": { "$mergeObjects": ["$additional_details", { CRAWLWAY_FIELD: {
            "message_id": message(),
            "requested_at": requested_at,
            "attempt": or_default(ATTEMPT, 0_i64.into()),
        } }] },
        "created_at": or_default("created_at", requested_at.into()),
        "updated_at": now,
    };
    doc! { "$replaceWith": { "$cond": [condition, { "$mergeObjects": ["$$ROOT", replacement] }, "$$ROOT"] } }
}

/// Expression: whether a request is newer than the message of the record.
fn newer(request: &RecordRequest) -> Document {
    let requested_at = date(request.requested_at);
    let (last_message, last_time) = (format!("${MESSAGE}"), REQUESTED);
    doc! { "$or": [
        { "$gt": [requested_at, last_time] },
        { "$and": [
            { "$eq": [requested_at, last_time] },
            { "$gt": [literal(request.message_id.clone()), last_message] },
        ] },
    ] }
}

/// Expression: a field's value, or a default.
fn or_default(field: &str, default: Bson) -> Document {
    doc! { "$ifNull": [format!("${field}"), default] }
}

/// Metadata of a record that was never completed.
fn no_metadata() -> Bson {
    doc! { "headers": Bson::Null, "cookies": Bson::Null, "page_source": Bson::Null }.into()
}

fn finished() -> Vec<&'static str> {
    RecordStatus::ALL.into_iter().filter(|status| status.is_finished()).map(RecordStatus::as_str).collect()
}

/// Update that begins an attempt, unless the message has ended or the record belongs to a newer one. A missing field
/// compares less than any value, so that any message is newer than none.
fn begin(request: &RecordRequest, now: DateTime) -> Document {
    let message = || literal(request.message_id.clone());
    let requested_at = date(request.requested_at);
    let same = doc! { "$eq": [format!("${MESSAGE}"), message()] };
    let condition =
        doc! { "$cond": [same.clone(), { "$not": [{ "$in": ["$status", finished()] }] }, newer(request)] };
    let if_same = |then: Bson, otherwise: Bson| doc! { "$cond": [same.clone(), then, otherwise] };
    let replacement = doc! {
        "url": literal(request.url.clone()),
        "status": RecordStatus::InProgress.as_str(),
        "metadata": or_default("metadata", no_metadata()),
        "processing": {
            "retry_count": if_same(or_default("processing.retry_count", 0.into()).into(), 0.into()),
            "error_message": if_same(or_default("processing.error_message", Bson::Null).into(), Bson::Null),
            "last_attempt_at": now,
        },
        "additional_details": { "$mergeObjects": ["$additional_details", { CRAWLWAY_FIELD: {
            "message_id": message(),
            "requested_at": if_same(REQUESTED.into(), requested_at.into()),
            "attempt": { "$add": [or_default(ATTEMPT, 0_i64.into()), 1_i64] },
        } }] },
        "created_at": or_default("created_at", now.into()),
        "updated_at": now,
    };
    doc! { "$replaceWith": { "$cond": [condition, { "$mergeObjects": ["$$ROOT", replacement] }, "$$ROOT"] } }
}

/// Filter for a page of records, which excludes documents of other programs.
fn filter(wanted: &RecordQuery) -> Document {
    let mut filter = doc! {
        "_id": { "$type": "objectId" },
        "status": match wanted.status {
            Some(status) => Bson::from(status.as_str()),
            None => doc! { "$in": all_statuses() }.into(),
        },
    };
    let mut created_at = doc! { "$gte": date(wanted.from.unwrap_or_default()) };
    if let Some(to) = wanted.to {
        created_at.insert("$lt", date(to));
    }
    if let Some(cursor) = wanted.after {
        let at = date(cursor.created_at);
        created_at.insert("$lte", at);
        filter.insert(
            "$or",
            vec![
                doc! { "created_at": { "$lt": at } },
                doc! { "created_at": at, "_id": { "$lt": object_id(cursor.id) } },
            ],
        );
    }
    filter.insert("created_at", created_at);
    filter
}

fn all_statuses() -> Vec<&'static str> {
    RecordStatus::ALL.map(RecordStatus::as_str).to_vec()
}

/// Value that the server must not evaluate as an expression.
fn literal(value: impl Into<Bson>) -> Document {
    doc! { "$literal": value.into() }
}

fn unreadable(problem: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable { detail: format!("invalid document in MongoDB: {problem}") }
}
