//! The calls on records: each is one command, which the server decides on one document, so that nobody comes in between.

use crate::{
    document::{date, document, fields, metadata, object_id, read, record, retry_count, status, work},
    fault::Fault,
    store::MongoStore,
};
use crawlway_store::{
    StoreError, Timestamp, UrlRecords,
    inventory::{
        Attempt, Begun, Counts, Ended, Fetched, Listed, OURS, Record, RecordId, Request, Status, Wanted,
        Work, error_text, text,
    },
};
use futures::{StreamExt, TryStreamExt};
use mongodb::{
    bson::{Bson, DateTime, Document, RawDocumentBuf, doc},
    options::ReturnDocument,
};

/// How often a document is asked for again that others were making.
const TRIES: u32 = 8;

/// How many documents are marked as queued at the same time.
const MARKED_AT_ONCE: usize = 16;

const MESSAGE: &str = "additional_details.crawlway.message_id";
const ATTEMPT: &str = "additional_details.crawlway.attempt";
/// As an expression.
const REQUESTED: &str = "$additional_details.crawlway.requested_at";

#[async_trait::async_trait]
impl UrlRecords for MongoStore {
    async fn mark_queued(&self, requests: &[Request], now: Timestamp) -> Result<(), StoreError> {
        let mut changes = Vec::with_capacity(requests.len());
        for request in requests {
            let id = object_id(RecordId::of_url(&request.url));
            changes.push((id, mark_queued(&request.storable(now)?, date(now))));
        }
        let marking = changes.into_iter().map(|(id, change)| async move {
            let mut tries = 0;
            loop {
                let command = self.records.update_one(doc! { "_id": id }, vec![change.clone()]).upsert(true);
                match self.ask(command.into_future()).await {
                    // Two made the document at once, and the other was first.
                    Err(Fault::InTheWay(_)) if tries < TRIES => tries += 1,
                    answer => return answer.map(drop),
                }
            }
        });
        let mut marked = futures::stream::iter(marking).buffer_unordered(MARKED_AT_ONCE);
        while let Some(answer) = marked.next().await {
            answer?;
        }
        Ok(())
    }

    async fn begin(&self, request: &Request, now: Timestamp) -> Result<Begun, StoreError> {
        let id = RecordId::of_url(&request.url);
        let request = request.storable(now)?;
        let update = begin(&request, date(now));
        let mut tries = 0;
        let after = loop {
            let command = self
                .records
                .find_one_and_update(doc! { "_id": object_id(id) }, vec![update.clone()])
                .upsert(true)
                .return_document(ReturnDocument::After)
                .projection(head());
            match self.ask(command.into_future()).await {
                // Two made the document at once, and the other was first.
                Err(Fault::InTheWay(_)) if tries < TRIES => tries += 1,
                answer => break answer?,
            }
        };
        let Some(held) = after.map(Held::of).transpose()? else {
            return Err(unreadable("the server made no document and says nothing of it"));
        };
        // Who takes the record over leaves it in progress, so its state tells what has happened.
        Ok(if held.work.message_id != request.message_id {
            Begun::Superseded { by: held.work.message_id }
        } else if held.status.is_finished() {
            Begun::Finished { status: held.status, retry_count: held.retry_count }
        } else {
            let attempt = Attempt { id, message_id: request.message_id, number: held.work.attempt };
            Begun::Yours { attempt, retry_count: held.retry_count }
        })
    }

    async fn complete(
        &self,
        attempt: &Attempt,
        fetched: &Fetched,
        now: Timestamp,
    ) -> Result<Ended, StoreError> {
        let fetched = fetched.storable()?;
        self.end(
            attempt,
            doc! { "$set": {
                "status": Status::Completed.as_str(),
                "metadata": literal(metadata(&fetched)),
                "processing.error_message": Bson::Null,
                "additional_details": { "$mergeObjects": [
                    literal(document(&fetched.additional_details)),
                    { OURS: "$additional_details.crawlway" },
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
        most_tries: u32,
        now: Timestamp,
    ) -> Result<Ended, StoreError> {
        let failed = doc! { "$add": [{ "$ifNull": ["$processing.retry_count", 0] }, 1] };
        self.end(
            attempt,
            doc! { "$set": {
                "status": { "$cond": [
                    { "$lt": [failed.clone(), i64::from(most_tries)] },
                    Status::FailedRetryable.as_str(),
                    Status::FailedPermanent.as_str(),
                ] },
                "processing.retry_count": failed,
                "processing.error_message": literal(error_text(error).into_owned()),
                "updated_at": date(now),
            } },
        )
        .await
    }

    async fn get(&self, id: RecordId) -> Result<Option<Record>, StoreError> {
        let found = self.ask(self.records.find_one(doc! { "_id": object_id(id) }).into_future()).await?;
        found.map(|document| record(document, true).map_err(unreadable)).transpose()
    }

    async fn list(&self, wanted: &Wanted) -> Result<Listed, StoreError> {
        let most = wanted.page();
        if most == 0 {
            return Ok(Listed { records: vec![], next: None });
        }
        let filter = filter(wanted);
        let left_out = if wanted.with_source {
            doc! {}
        } else {
            doc! { "metadata.page_source": 0 }
        };
        let found: Vec<RawDocumentBuf> = self
            .ask(async {
                let found = self
                    .records
                    .find(filter)
                    .sort(doc! { "created_at": -1, "_id": -1 })
                    .limit(i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1))
                    .projection(left_out)
                    .await?;
                found.try_collect().await
            })
            .await?;
        let records: Result<Vec<Record>, String> =
            found.into_iter().map(|document| record(document, wanted.with_source)).collect();
        Ok(Listed::page(records.map_err(unreadable)?, most))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let groups: Vec<Document> = self
            .ask(async {
                let by_status = [
                    doc! { "$match": { "status": { "$in": words() } } },
                    doc! { "$group": { "_id": "$status", "many": { "$sum": 1_i64 } } },
                ];
                self.records.aggregate(by_status).await?.try_collect().await
            })
            .await?;
        let mut counts = Counts::default();
        for group in groups {
            let status = group.get_str("_id").ok().and_then(Status::from_word);
            let many = group.get_i64("many").ok().and_then(|many| u64::try_from(many).ok());
            if let (Some(status), Some(many)) = (status, many) {
                counts.add(status, many);
            }
        }
        Ok(counts)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(self.ping().await?)
    }
}

impl MongoStore {
    /// Ends an attempt by this change, if it is the latest and has not ended.
    async fn end(&self, attempt: &Attempt, change: Document) -> Result<Ended, StoreError> {
        let id = object_id(attempt.id);
        let message_id = text(&attempt.message_id);
        let number = i64::try_from(attempt.number).unwrap_or(i64::MAX);
        let open: Vec<&str> =
            Status::ALL.into_iter().filter(|status| status.is_open()).map(Status::as_str).collect();
        let filter = doc! { "_id": id, MESSAGE: &*message_id, ATTEMPT: number, "status": { "$in": open } };
        let change = vec![change];
        let after = self
            .ask(async {
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
                self.ask(self.records.find_one(doc! { "_id": id }).projection(head()).into_future()).await?
            }
        };
        let Some(held) = ended.map(Held::of).transpose()? else { return Ok(Ended::Lost) };
        if held.work.message_id != message_id || held.work.attempt != attempt.number {
            return Ok(Ended::Overtaken);
        }
        Ok(Ended::As { status: held.status, retry_count: held.retry_count })
    }
}

/// Who has a record, and how far it is.
struct Held {
    status: Status,
    retry_count: u32,
    work: Work,
}

impl Held {
    fn of(document: RawDocumentBuf) -> Result<Self, StoreError> {
        let mut document = read(document).map_err(unreadable)?;
        let status =
            status(&document).map_err(|word| unreadable(format!("a record has the status `{word}`")))?;
        let mut details = fields(document.remove("additional_details"));
        // Somebody else has written the document since; nobody's attempt is the latest then.
        let nobody = || Work { message_id: String::new(), requested_at: Timestamp::default(), attempt: 0 };
        Ok(Self {
            status,
            retry_count: retry_count(&fields(document.remove("processing"))),
            work: work(&fields(details.remove(OURS))).unwrap_or_else(nobody),
        })
    }
}

/// What [`Held`] is read from.
fn head() -> Document {
    doc! { "status": 1, "processing.retry_count": 1, "additional_details.crawlway": 1 }
}

/// The change that notes an accepted message, unless the record is at work, or is the message's own or a newer one's.
fn mark_queued(request: &Request, now: DateTime) -> Document {
    let message = || literal(request.message_id.clone());
    let requested_at = date(request.requested_at);
    let last_message = format!("${MESSAGE}");
    let absent = doc! { "$eq": [{ "$type": "$status" }, "missing"] };
    let queues = doc! { "$or": [absent, { "$and": [
        { "$in": ["$status", finished()] },
        { "$ne": [&last_message, message()] },
        newer(request),
    ] }] };
    let taken = doc! {
        "url": literal(request.url.clone()),
        "status": Status::Queued.as_str(),
        "metadata": kept("metadata", nothing_fetched()),
        "processing": {
            "retry_count": 0,
            "error_message": Bson::Null,
            "last_attempt_at": kept("processing.last_attempt_at", Bson::Null),
        },
        "additional_details": { "$mergeObjects": ["$additional_details", { OURS: {
            "message_id": message(),
            "requested_at": requested_at,
            "attempt": kept(ATTEMPT, 0_i64.into()),
        } }] },
        "created_at": kept("created_at", requested_at.into()),
        "updated_at": now,
    };
    doc! { "$replaceWith": { "$cond": [queues, { "$mergeObjects": ["$$ROOT", taken] }, "$$ROOT"] } }
}

/// Whether a request is newer than the message that has the record.
fn newer(request: &Request) -> Document {
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

/// A field's value, or another where it has none.
fn kept(field: &str, otherwise: Bson) -> Document {
    doc! { "$ifNull": [format!("${field}"), otherwise] }
}

/// The metadata of a record that was never completed.
fn nothing_fetched() -> Bson {
    doc! { "headers": Bson::Null, "cookies": Bson::Null, "page_source": Bson::Null }.into()
}

fn finished() -> Vec<&'static str> {
    Status::ALL.into_iter().filter(|status| status.is_finished()).map(Status::as_str).collect()
}

/// The change that begins an attempt, unless the message has ended or a newer one has the record. A field that is not
/// there is less than any value, so that the first message is newer than none.
fn begin(request: &Request, now: DateTime) -> Document {
    let message = || literal(request.message_id.clone());
    let requested_at = date(request.requested_at);
    let same = doc! { "$eq": [format!("${MESSAGE}"), message()] };
    let takes =
        doc! { "$cond": [same.clone(), { "$not": [{ "$in": ["$status", finished()] }] }, newer(request)] };
    let if_same = |then: Bson, otherwise: Bson| doc! { "$cond": [same.clone(), then, otherwise] };
    let taken = doc! {
        "url": literal(request.url.clone()),
        "status": Status::InProgress.as_str(),
        "metadata": kept("metadata", nothing_fetched()),
        "processing": {
            "retry_count": if_same(kept("processing.retry_count", 0.into()).into(), 0.into()),
            "error_message": if_same(kept("processing.error_message", Bson::Null).into(), Bson::Null),
            "last_attempt_at": now,
        },
        "additional_details": { "$mergeObjects": ["$additional_details", { OURS: {
            "message_id": message(),
            "requested_at": if_same(REQUESTED.into(), requested_at.into()),
            "attempt": { "$add": [kept(ATTEMPT, 0_i64.into()), 1_i64] },
        } }] },
        "created_at": kept("created_at", now.into()),
        "updated_at": now,
    };
    doc! { "$replaceWith": { "$cond": [takes, { "$mergeObjects": ["$$ROOT", taken] }, "$$ROOT"] } }
}

/// The documents of a page. Only those that are records: what others keep in the collection has no place in lists.
fn filter(wanted: &Wanted) -> Document {
    let mut filter = doc! {
        "_id": { "$type": "objectId" },
        "status": match wanted.status {
            Some(status) => Bson::from(status.as_str()),
            None => doc! { "$in": words() }.into(),
        },
    };
    let mut made = doc! { "$gte": date(wanted.from.unwrap_or_default()) };
    if let Some(to) = wanted.to {
        made.insert("$lt", date(to));
    }
    if let Some(cursor) = wanted.after {
        let at = date(cursor.created_at);
        made.insert("$lte", at);
        filter.insert(
            "$or",
            vec![
                doc! { "created_at": { "$lt": at } },
                doc! { "created_at": at, "_id": { "$lt": object_id(cursor.id) } },
            ],
        );
    }
    filter.insert("created_at", made);
    filter
}

fn words() -> Vec<&'static str> {
    Status::ALL.map(Status::as_str).to_vec()
}

/// A value that the server must not take for an expression.
fn literal(value: impl Into<Bson>) -> Document {
    doc! { "$literal": value.into() }
}

fn unreadable(problem: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable { detail: format!("a document of MongoDB cannot be read: {problem}") }
}
