//! Writing and removing pages. Rows are locked in the order of their keys, against deadlocks.

use super::row::Tokens;
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
    rows::Rows,
    time::{millis, saturating_i64},
};
use crawlway_store::{
    IndexedPage, Timestamp,
    pages::precedence::{TOMBSTONE_RETENTION, replaces},
};
use std::collections::BTreeMap;

/// Size of one statement in bytes; a longer page has a statement of its own.
const MAX_STATEMENT: usize = 4 << 20;

/// Size of a page with its tokens in bytes: PostgreSQL parses no longer JSON.
const MAX_PAGE: usize = 200 << 20;

/// Tombstones that one sweep deletes.
const SWEEP_BATCH: i64 = 10_000;

/// The latest version of each page, in the order of keys.
pub(super) fn latest(pages: &[IndexedPage]) -> BTreeMap<Key, &IndexedPage> {
    let mut latest: BTreeMap<Key, &IndexedPage> = BTreeMap::new();
    for page in pages {
        let other = latest.entry(Key::of(&page.url)).or_insert(page);
        if replaces(page.crawled_at, other.crawled_at) {
            *other = page;
        }
    }
    latest
}

pub(super) async fn write(tx: &mut Tx, pages: &BTreeMap<Key, &IndexedPage>) -> Result<(), Fault> {
    static WRITE: Sql = Sql::new(
        "INSERT INTO pages (hash, item, url, host, title, description, text, crawled_at, status_code, simhash,
                            head, head_words, body, body_words)
         SELECT r.hash, r.item, r.url, r.host, r.title, r.description, r.text, r.crawled_at, r.status_code, r.simhash,
                r.head, r.head_words, r.body, r.body_words
         FROM {rows hash key, item text, url text, host text, title text, description text, text text, \
         crawled_at int, status_code int, simhash int, head text, head_words int, body text, body_words int} r
         ORDER BY r.hash
         ON CONFLICT (hash) DO UPDATE SET
           item = excluded.item, url = excluded.url, host = excluded.host, title = excluded.title,
           description = excluded.description, text = excluded.text, crawled_at = excluded.crawled_at,
           status_code = excluded.status_code, simhash = excluded.simhash, head = excluded.head,
           head_words = excluded.head_words, body = excluded.body, body_words = excluded.body_words, removed = 0
         WHERE pages.crawled_at < excluded.crawled_at OR pages.crawled_at = excluded.crawled_at AND pages.removed = 0",
    );
    let mut rows = Rows::new();
    let mut length = 0;
    for (key, page) in pages {
        let tokens = Tokens::of(page);
        let description = page.description.as_deref();
        let own = page.url.len()
            + page.title.len()
            + page.text.len()
            + description.map_or(0, str::len)
            + tokens.head.len()
            + tokens.body.len();
        if own > MAX_PAGE {
            return Err(Fault::invalid(format!(
                "the page {:.200} has {own} bytes with its tokens; PostgreSQL takes {MAX_PAGE} at most",
                page.url
            )));
        }
        if length + own > MAX_STATEMENT && !rows.is_empty() {
            tx.run(&WRITE, vec![Arg::Rows(std::mem::replace(&mut rows, Rows::new()))]).await?;
            length = 0;
        }
        length += own;
        rows.row()
            .key(*key)
            .text(&page.item)
            .text(&page.url)
            .text(&page.host)
            .text(&page.title)
            .opt_text(description)
            .text(&page.text)
            .int(millis(page.crawled_at))
            .int(i64::from(page.status_code))
            .int(page.simhash.cast_signed())
            .text(&tokens.head)
            .int(saturating_i64(tokens.head_words))
            .text(&tokens.body)
            .int(saturating_i64(tokens.body_words));
    }
    tx.run(&WRITE, vec![Arg::Rows(rows)]).await?;
    Ok(())
}

/// Replaces pages with tombstones, also for URLs without a page; answers how many pages were removed.
pub(super) async fn remove(tx: &mut Tx, urls: &[String], gone_at: Option<Timestamp>) -> Result<u64, Fault> {
    static REMOVE: Sql = Sql::new(
        "INSERT INTO pages (hash, crawled_at, simhash, status_code, head_words, body_words, url, item, host, title, text,
                            head, body, removed)
         SELECT r.hash, r.at, 0, 0, 0, 0, r.url, '', '', '', '', '', '', 2
         FROM {rows hash key, url text, at int} r
         ORDER BY r.hash
         ON CONFLICT (hash) DO UPDATE SET
           crawled_at = greatest(pages.crawled_at, excluded.crawled_at), simhash = 0, status_code = 0, head_words = 0,
           body_words = 0, item = '', host = '', title = '', description = NULL, text = '', head = '', body = '',
           removed = CASE pages.removed WHEN 0 THEN 1 ELSE 2 END
         WHERE pages.removed > 0 OR pages.crawled_at <= excluded.crawled_at OR $2 = 1
         RETURNING removed",
    );
    let at = millis(gone_at.unwrap_or_else(Timestamp::now));
    let unconditional = i64::from(gone_at.is_none());
    let by_key: BTreeMap<Key, &String> = urls.iter().map(|url| (Key::of(url), url)).collect();
    let mut rows = Rows::new();
    for (key, url) in by_key {
        rows.row().key(key).text(url).int(at);
    }
    let mut removed = 0;
    for row in tx.run(&REMOVE, vec![Arg::Rows(rows), Arg::Int(unconditional)]).await? {
        removed += u64::from(row.int(0)? == 1);
    }
    Ok(removed)
}

/// Deletes tombstones past their retention.
pub(super) async fn sweep(tx: &mut Tx, now: i64) -> Result<(), Fault> {
    static SWEEP: Sql = Sql::new(
        "DELETE FROM pages WHERE num IN (
           SELECT num FROM pages WHERE removed > 0 AND crawled_at < $1 ORDER BY crawled_at LIMIT $2
           FOR UPDATE SKIP LOCKED
         )",
    );
    let retention = i64::try_from(TOMBSTONE_RETENTION.as_millis()).unwrap_or(i64::MAX);
    tx.run(&SWEEP, vec![Arg::Int(now.saturating_sub(retention)), Arg::Int(SWEEP_BATCH)]).await?;
    Ok(())
}
