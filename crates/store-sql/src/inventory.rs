//! Inventory records: one row for each URL, and a row of another table for the source of its page.

use crate::{
    connection::{Arg, Durability, Row, Tx},
    dialect::Sql,
    fault::Fault,
    store::{SqlStore, read, transact},
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::{
    StoreError, Timestamp, UrlRecords,
    inventory::{
        Attempt, BeginOutcome, EndOutcome, FetchedContent, InventoryRecord, LatestAttempt, Metadata,
        PageSource, Processing, RecordId, RecordPage, RecordQuery, RecordRequest, RecordStatus, StatusCounts,
        sanitize_error,
    },
};
use serde_json::{Map, Value};

/// Columns for [`record`], which the page source may follow.
macro_rules! columns {
    () => {
        "r.id, r.url, r.status, r.retry_count, r.last_attempt_at, r.created_at, r.updated_at, r.message_id, \
         r.requested_at, r.attempt, r.error_message, r.headers, r.cookies, r.additional_details"
    };
}

#[async_trait::async_trait]
impl UrlRecords for SqlStore {
    async fn mark_queued(&self, requests: &[RecordRequest], now: Timestamp) -> Result<(), StoreError> {
        let mut queued = Vec::with_capacity(requests.len());
        for request in requests {
            queued.push((RecordId::of_url(&request.url).to_string(), request.sanitized(now)?));
        }
        // In the order of ids, against deadlocks between gateways.
        queued.sort_by(|(one, _), (other, _)| one.cmp(other));
        transact!(self, tx, mark_queued(tx, &queued, millis(now)))
    }

    async fn begin(&self, request: &RecordRequest, now: Timestamp) -> Result<BeginOutcome, StoreError> {
        let id = RecordId::of_url(&request.url);
        let request = request.sanitized(now)?;
        transact!(self, tx, begin(tx, id, &request, millis(now)))
    }

    async fn complete(
        &self,
        attempt: &Attempt,
        fetched: &FetchedContent,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError> {
        let fetched = fetched.sanitized()?;
        let texts = Texts::of(&fetched)?;
        transact!(Durability::PowerLoss, self, tx, complete(tx, attempt, &texts, millis(now)))
    }

    async fn fail(
        &self,
        attempt: &Attempt,
        error: &str,
        max_attempts: u32,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError> {
        let error = sanitize_error(error);
        transact!(Durability::PowerLoss, self, tx, fail(tx, attempt, &error, max_attempts, millis(now)))
    }

    async fn get(&self, id: RecordId) -> Result<Option<InventoryRecord>, StoreError> {
        static GET: Sql = Sql::new(concat!(
            "SELECT ",
            columns!(),
            ", s.page_source FROM url_records r LEFT JOIN url_sources s ON s.id = r.id WHERE r.id = $1"
        ));
        let id = id.to_string();
        let rows = read!(self, tx, tx.run(&GET, vec![Arg::Text(&id)]))?;
        Ok(rows.first().map(|row| record(row, true)).transpose()?)
    }

    async fn list(&self, wanted: &RecordQuery) -> Result<RecordPage, StoreError> {
        let max = wanted.page_size();
        if max == 0 {
            return Ok(RecordPage { records: vec![], next: None });
        }
        let (before, before_id) = bound(wanted);
        let rows = read!(self, tx, async {
            let mut args = vec![
                Arg::Int(before),
                Arg::Text(&before_id),
                Arg::Int(wanted.from.map_or(0, millis)),
                Arg::Int(saturating_i64(max as u64 + 1)),
            ];
            args.extend(wanted.status.map(|status| Arg::Text(status.as_str())));
            tx.run(list_statement(wanted), args).await
        })?;
        let records: Result<Vec<InventoryRecord>, Fault> =
            rows.iter().map(|row| record(row, wanted.with_source)).collect();
        Ok(RecordPage::from_rows(records?, max))
    }

    async fn counts(&self) -> Result<StatusCounts, StoreError> {
        static COUNT: Sql = Sql::new("SELECT status, count(*) FROM url_records GROUP BY status");
        let mut counts = StatusCounts::default();
        for row in read!(self, tx, tx.run(&COUNT, vec![]))? {
            counts.add(status(&row, 0)?, row.count(1)?);
        }
        Ok(counts)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        static ONE: Sql = Sql::new("SELECT 1");
        read!(self, tx, tx.run(&ONE, vec![])).map(drop)
    }
}

async fn mark_queued(tx: &mut Tx, queued: &[(String, RecordRequest)], now: i64) -> Result<(), Fault> {
    // The id decides first: a worker with a slow clock may have stored an earlier time for the same message.
    static QUEUE: Sql = Sql::new(
        "INSERT INTO url_records
             (id, url, status, retry_count, created_at, updated_at, message_id, requested_at, attempt)
         VALUES ($1, $2, 'QUEUED', 0, $5, $3, $4, $5, 0)
         ON CONFLICT (id) DO UPDATE SET
             status = 'QUEUED',
             retry_count = 0,
             error_message = NULL,
             message_id = excluded.message_id,
             requested_at = excluded.requested_at,
             updated_at = excluded.updated_at
         WHERE url_records.status IN ('COMPLETED', 'FAILED_PERMANENT')
             AND url_records.message_id <> excluded.message_id
             AND (url_records.requested_at, url_records.message_id) < (excluded.requested_at, excluded.message_id)",
    );
    for (key, request) in queued {
        tx.run(&QUEUE, request_args(key, request, now)).await?;
    }
    Ok(())
}

fn request_args<'a>(key: &'a str, request: &'a RecordRequest, now: i64) -> Vec<Arg<'a>> {
    let RecordRequest { url, message_id, requested_at } = request;
    vec![
        Arg::Text(key),
        Arg::Text(url),
        Arg::Int(now),
        Arg::Text(message_id),
        Arg::Int(millis(*requested_at)),
    ]
}

async fn begin(tx: &mut Tx, id: RecordId, request: &RecordRequest, now: i64) -> Result<BeginOutcome, Fault> {
    // Returns the row if it was inserted or updated.
    static BEGIN: Sql = Sql::new(
        "INSERT INTO url_records
             (id, url, status, retry_count, last_attempt_at, created_at, updated_at, message_id, requested_at, attempt)
         VALUES ($1, $2, 'IN_PROGRESS', 0, $3, $3, $3, $4, $5, 1)
         ON CONFLICT (id) DO UPDATE SET
             status = 'IN_PROGRESS',
             retry_count = CASE WHEN url_records.message_id = excluded.message_id
                 THEN url_records.retry_count ELSE 0 END,
             error_message = CASE WHEN url_records.message_id = excluded.message_id
                 THEN url_records.error_message END,
             requested_at = CASE WHEN url_records.message_id = excluded.message_id
                 THEN url_records.requested_at ELSE excluded.requested_at END,
             message_id = excluded.message_id,
             attempt = url_records.attempt + 1,
             last_attempt_at = excluded.last_attempt_at,
             updated_at = excluded.updated_at
         WHERE CASE WHEN url_records.message_id = excluded.message_id
             THEN url_records.status NOT IN ('COMPLETED', 'FAILED_PERMANENT')
             ELSE (url_records.requested_at, url_records.message_id) < (excluded.requested_at, excluded.message_id)
             END
         RETURNING attempt, retry_count",
    );
    let key = id.to_string();
    let message_id = &request.message_id;
    if let Some(row) = tx.run(&BEGIN, request_args(&key, request, now)).await?.first() {
        let attempt = Attempt { id, message_id: message_id.clone(), number: row.count(0)? };
        return Ok(BeginOutcome::Started { attempt, retry_count: row.small(1)? });
    }
    // On PostgreSQL the upsert has locked the row that it did not change, so this reads the same version.
    let Some(current) = current(tx, &key).await? else {
        return Err(Fault::Conflict("a record was deleted while it was begun".to_owned()));
    };
    Ok(if current.message_id == *message_id {
        BeginOutcome::AlreadyFinished { status: current.status, retry_count: current.retry_count }
    } else {
        BeginOutcome::Superseded { by: current.message_id }
    })
}

async fn complete(tx: &mut Tx, attempt: &Attempt, texts: &Texts<'_>, now: i64) -> Result<EndOutcome, Fault> {
    static COMPLETE: Sql = Sql::new(
        "UPDATE url_records SET status = 'COMPLETED', error_message = NULL, updated_at = $4,
             headers = $5, cookies = $6, additional_details = $7
         WHERE id = $1 AND message_id = $2 AND attempt = $3 AND status IN ('QUEUED', 'IN_PROGRESS')
         RETURNING retry_count",
    );
    static KEEP: Sql = Sql::new(
        "INSERT INTO url_sources (id, page_source) VALUES ($1, $2)
         ON CONFLICT (id) DO UPDATE SET page_source = excluded.page_source",
    );
    static FORGET: Sql = Sql::new("DELETE FROM url_sources WHERE id = $1");
    let key = attempt.id.to_string();
    let args = vec![
        Arg::Text(&key),
        Arg::Text(&attempt.message_id),
        Arg::Int(saturating_i64(attempt.number)),
        Arg::Int(now),
        Arg::OptText(texts.headers.as_deref()),
        Arg::OptText(texts.cookies.as_deref()),
        Arg::OptText(texts.additional_details.as_deref()),
    ];
    let rows = tx.run(&COMPLETE, args).await?;
    let Some(row) = rows.first() else { return not_ended(tx, attempt, &key).await };
    match texts.page_source {
        Some(source) => tx.run(&KEEP, vec![Arg::Text(&key), Arg::Text(source)]).await?,
        None => tx.run(&FORGET, vec![Arg::Text(&key)]).await?,
    };
    Ok(EndOutcome::Recorded { status: RecordStatus::Completed, retry_count: row.small(0)? })
}

async fn fail(
    tx: &mut Tx,
    attempt: &Attempt,
    error: &str,
    max_attempts: u32,
    now: i64,
) -> Result<EndOutcome, Fault> {
    static FAIL: Sql = Sql::new(
        "UPDATE url_records SET retry_count = retry_count + 1, error_message = $4, updated_at = $5,
             status = CASE WHEN retry_count + 1 < $6 THEN 'FAILED_RETRYABLE' ELSE 'FAILED_PERMANENT' END
         WHERE id = $1 AND message_id = $2 AND attempt = $3 AND status IN ('QUEUED', 'IN_PROGRESS')
         RETURNING status, retry_count",
    );
    let key = attempt.id.to_string();
    let args = vec![
        Arg::Text(&key),
        Arg::Text(&attempt.message_id),
        Arg::Int(saturating_i64(attempt.number)),
        Arg::Text(error),
        Arg::Int(now),
        Arg::Int(i64::from(max_attempts)),
    ];
    let rows = tx.run(&FAIL, args).await?;
    let Some(row) = rows.first() else { return not_ended(tx, attempt, &key).await };
    Ok(EndOutcome::Recorded { status: status(row, 0)?, retry_count: row.small(1)? })
}

/// Answer for an attempt that could not be ended.
async fn not_ended(tx: &mut Tx, attempt: &Attempt, key: &str) -> Result<EndOutcome, Fault> {
    let Some(current) = current(tx, key).await? else { return Ok(EndOutcome::NotFound) };
    if current.message_id != attempt.message_id || current.attempt != attempt.number {
        return Ok(EndOutcome::Fenced);
    }
    Ok(EndOutcome::Recorded { status: current.status, retry_count: current.retry_count })
}

/// Current attempt at a record.
struct CurrentAttempt {
    status: RecordStatus,
    retry_count: u32,
    message_id: String,
    attempt: u64,
}

async fn current(tx: &mut Tx, key: &str) -> Result<Option<CurrentAttempt>, Fault> {
    static CURRENT: Sql = Sql::new(
        "SELECT r.status, r.retry_count, r.message_id, r.attempt FROM url_records r WHERE r.id = $1",
    );
    let rows = tx.run(&CURRENT, vec![Arg::Text(key)]).await?;
    let current = |row: &Row| {
        Ok(CurrentAttempt {
            status: status(row, 0)?,
            retry_count: row.small(1)?,
            message_id: row.text(2)?,
            attempt: row.count(3)?,
        })
    };
    rows.first().map(current).transpose()
}

/// Exclusive upper bound of a page: time and id.
fn bound(wanted: &RecordQuery) -> (i64, String) {
    // After and before every id, which is hexadecimal.
    const LAST: &str = "g";
    const FIRST: &str = "";
    let after = wanted.after.map(|cursor| (millis(cursor.created_at), cursor.id.to_string()));
    let to = wanted.to.map(|to| (millis(to), FIRST.to_owned()));
    after.into_iter().chain(to).min().unwrap_or_else(|| (i64::MAX, LAST.to_owned()))
}

fn list_statement(wanted: &RecordQuery) -> &'static Sql {
    macro_rules! list {
        ($source:literal, $join:literal, $status:literal) => {{
            static LIST: Sql = Sql::new(concat!(
                "SELECT ",
                columns!(),
                $source,
                " FROM url_records r ",
                $join,
                " WHERE (r.created_at, r.id) < ($1, $2) AND r.created_at >= $3 ",
                $status,
                " ORDER BY r.created_at DESC, r.id DESC {limit $4}"
            ));
            &LIST
        }};
    }
    match (wanted.with_source, wanted.status) {
        (false, None) => list!("", "", ""),
        (false, Some(_)) => list!("", "", "AND r.status = $5"),
        (true, None) => list!(", s.page_source", "LEFT JOIN url_sources s ON s.id = r.id", ""),
        (true, Some(_)) => {
            list!(", s.page_source", "LEFT JOIN url_sources s ON s.id = r.id", "AND r.status = $5")
        }
    }
}

/// Columns of a fetched page, as JSON texts.
struct Texts<'a> {
    headers: Option<String>,
    cookies: Option<String>,
    additional_details: Option<String>,
    page_source: Option<&'a str>,
}

impl<'a> Texts<'a> {
    fn of(fetched: &'a FetchedContent) -> Result<Self, StoreError> {
        let text = |object: &Map<String, Value>| {
            serde_json::to_string(object).map_err(|error| StoreError::Invalid {
                problem: format!("the record cannot be written as JSON: {error}"),
            })
        };
        let details = Some(&fetched.additional_details).filter(|details| !details.is_empty());
        Ok(Self {
            headers: fetched.headers.as_ref().map(text).transpose()?,
            cookies: fetched.cookies.as_ref().map(text).transpose()?,
            additional_details: details.map(text).transpose()?,
            page_source: fetched.page_source.as_deref(),
        })
    }
}

fn record(row: &Row, with_source: bool) -> Result<InventoryRecord, Fault> {
    let page_source = if with_source { row.opt_text(14)?.into() } else { PageSource::Omitted };
    let id = row.text(0)?;
    Ok(InventoryRecord {
        id: id.parse().map_err(|error| Fault::Failed(format!("a record is damaged: {error}")))?,
        url: row.text(1)?,
        status: status(row, 2)?,
        metadata: Metadata { headers: object(row, 11)?, cookies: object(row, 12)?, page_source },
        processing: Processing {
            retry_count: row.small(3)?,
            error_message: row.opt_text(10)?,
            last_attempt_at: row.opt_int(4)?.map(timestamp),
        },
        additional_details: object(row, 13)?,
        latest_attempt: Some(LatestAttempt {
            message_id: row.text(7)?,
            requested_at: timestamp(row.int(8)?),
            attempt: row.count(9)?,
        }),
        created_at: timestamp(row.int(5)?),
        updated_at: timestamp(row.int(6)?),
    })
}

fn status(row: &Row, place: usize) -> Result<RecordStatus, Fault> {
    let word = row.text(place)?;
    RecordStatus::from_name(&word)
        .ok_or_else(|| Fault::Failed(format!("a record has the unknown status `{word}`")))
}

fn object(row: &Row, place: usize) -> Result<Option<Map<String, Value>>, Fault> {
    let read = |text: String| {
        serde_json::from_str(&text).map_err(|error| {
            Fault::Failed(format!("a record is damaged, a JSON object was expected: {error}"))
        })
    };
    row.opt_text(place)?.map(read).transpose()
}
