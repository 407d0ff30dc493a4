//! Rows of requests and of change feeds.

use super::{columns, key_args};
use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    time::{millis, saturating_i64},
};
use crawlway_store::requests::{Change, ChangeId, CrawlRequest, MAX_CHANGES, RequestKey, RequestStatus};
use std::str::FromStr;

pub(super) async fn get(tx: &mut Tx, key: &RequestKey) -> Result<Option<CrawlRequest>, Fault> {
    static GET: Sql = Sql::new(concat!(
        "SELECT ",
        columns!(),
        " FROM crawl_requests WHERE email = $1 AND id = $2 AND deleted_at IS NULL"
    ));
    tx.run(&GET, key_args(key)).await?.first().map(request).transpose()
}

/// Stores the end of a request that is locked.
pub(super) async fn end(tx: &mut Tx, request: &CrawlRequest, now: i64) -> Result<(), Fault> {
    static END: Sql = Sql::new(
        "UPDATE crawl_requests SET status = $3, result = $4, deadline = NULL, publish_at = NULL, ended_at = $5
         WHERE email = $1 AND id = $2",
    );
    let CrawlRequest { id, email, status, result, .. } = request;
    let result = result.as_ref().map(|result| result.get());
    let args = vec![
        Arg::Text(email),
        Arg::Text(id),
        Arg::Text(status.as_str()),
        Arg::OptText(result),
        Arg::Int(now),
    ];
    tx.run(&END, args).await?;
    add_change(tx, email, id, Some(*status)).await
}

/// Stores a request of which only the answer is known.
pub(super) async fn insert_answered(tx: &mut Tx, request: &CrawlRequest, now: i64) -> Result<(), Fault> {
    static INSERT: Sql = Sql::new(
        "INSERT INTO crawl_requests (email, id, url, status, result, created_at, created, ended_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (email, id) DO NOTHING RETURNING id",
    );
    let CrawlRequest { id, url, email, status, result, created_at } = request;
    let args = vec![
        Arg::Text(email),
        Arg::Text(id),
        Arg::Text(url),
        Arg::Text(status.as_str()),
        Arg::OptText(result.as_ref().map(|result| result.get())),
        Arg::Text(created_at),
        Arg::Int(millis(request.created())),
        Arg::Int(now),
    ];
    if tx.run(&INSERT, args).await?.is_empty() {
        return Err(Fault::Conflict("a request was stored while its answer was applied".to_owned()));
    }
    Ok(())
}

/// Adds an entry to the change feed of a user.
pub(super) async fn add_change(
    tx: &mut Tx,
    email: &str,
    id: &str,
    status: Option<RequestStatus>,
) -> Result<(), Fault> {
    static NEXT: Sql = Sql::new(
        "INSERT INTO request_feeds (email, last) VALUES ($1, 1)
         ON CONFLICT (email) DO UPDATE SET last = request_feeds.last + 1 RETURNING last",
    );
    static ADD: Sql =
        Sql::new("INSERT INTO request_changes (email, num, id, status) VALUES ($1, $2, $3, $4)");
    static TRIM: Sql = Sql::new("DELETE FROM request_changes WHERE email = $1 AND num <= $2");
    let rows = tx.run(&NEXT, vec![Arg::Text(email)]).await?;
    let last = rows.first().map_or(Ok(1), |row| row.int(0))?;
    let status = status.map(RequestStatus::as_str);
    tx.run(&ADD, vec![Arg::Text(email), Arg::Int(last), Arg::Text(id), Arg::OptText(status)]).await?;
    let trimmed = last - saturating_i64(MAX_CHANGES as u64);
    if trimmed > 0 {
        tx.run(&TRIM, vec![Arg::Text(email), Arg::Int(trimmed)]).await?;
    }
    Ok(())
}

pub(super) async fn last_change(tx: &mut Tx, email: &str) -> Result<i64, Fault> {
    static LAST: Sql = Sql::new("SELECT last FROM request_feeds WHERE email = $1");
    tx.run(&LAST, vec![Arg::Text(email)]).await?.first().map_or(Ok(0), |row| row.int(0))
}

pub(super) fn request(row: &Row) -> Result<CrawlRequest, Fault> {
    let damaged = |error: &dyn std::fmt::Display| Fault::Failed(format!("a request is damaged: {error}"));
    let result = row.opt_text(4)?.map(serde_json::value::RawValue::from_string);
    Ok(CrawlRequest {
        id: row.text(0)?,
        url: row.text(1)?,
        email: row.text(2)?,
        status: RequestStatus::from_str(&row.text(3)?).map_err(|error| damaged(&error))?,
        result: result.transpose().map_err(|error| damaged(&error))?,
        created_at: row.text(5)?,
    })
}

pub(super) fn change(row: &Row) -> Result<Change, Fault> {
    let status = row.opt_text(2)?.map(|status| RequestStatus::from_str(&status)).transpose();
    Ok(Change {
        id: ChangeId(row.int(0)?.to_string()),
        request: row.text(1)?,
        status: status.map_err(|error| Fault::Failed(format!("a change is damaged: {error}")))?,
    })
}
