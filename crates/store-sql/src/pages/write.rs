//! Pages in and out. Rows are locked in the order of their keys, so that writers wait for each other and not in a circle.

use super::row::Searched;
use crate::{
    dialect::Sql,
    fault::Fault,
    key::Key,
    link::{Arg, Tx},
    rows::Rows,
    time::{millis, whole},
};
use crawlway_store::IndexedPage;
use std::collections::{BTreeMap, BTreeSet};

/// What is sent with one statement, in bytes; a page that is longer goes alone.
const STATEMENT: usize = 4 << 20;

/// The longest page with the words that it is found by, in bytes: PostgreSQL reads no longer JSON.
const LONGEST_PAGE: usize = 200 << 20;

/// The last page of each URL, in the order of keys.
pub(super) fn latest(pages: &[IndexedPage]) -> BTreeMap<Key, &IndexedPage> {
    pages.iter().map(|page| (Key::of(&page.url), page)).collect()
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
           head_words = excluded.head_words, body = excluded.body, body_words = excluded.body_words",
    );
    let mut rows = Rows::new();
    let mut length = 0;
    for (key, page) in pages {
        let searched = Searched::of(page);
        let description = page.description.as_deref();
        let own = page.url.len()
            + page.title.len()
            + page.text.len()
            + description.map_or(0, str::len)
            + searched.head.len()
            + searched.body.len();
        if own > LONGEST_PAGE {
            return Err(Fault::invalid(format!(
                "the page {:.200} has {own} bytes with its words; PostgreSQL takes {LONGEST_PAGE} at most",
                page.url
            )));
        }
        if length + own > STATEMENT && !rows.is_empty() {
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
            .text(&searched.head)
            .int(whole(searched.head_words))
            .text(&searched.body)
            .int(whole(searched.body_words));
    }
    tx.run(&WRITE, vec![Arg::Rows(rows)]).await?;
    Ok(())
}

pub(super) async fn remove(tx: &mut Tx, urls: &[String]) -> Result<u64, Fault> {
    static REMOVE: Sql = Sql::new(
        "WITH gone AS MATERIALIZED (
           SELECT p.num FROM {rows hash key} r JOIN pages p ON p.hash = r.hash ORDER BY p.hash FOR UPDATE OF p
         )
         DELETE FROM pages WHERE num IN (SELECT num FROM gone) RETURNING 1",
    );
    let keys: BTreeSet<Key> = urls.iter().map(|url| Key::of(url)).collect();
    let mut rows = Rows::new();
    for key in keys {
        rows.row().key(key);
    }
    Ok(tx.run(&REMOVE, vec![Arg::Rows(rows)]).await?.len() as u64)
}
