//! Deleting a crawl in batches, so that other transactions are not held up.

use super::crawls;
use crate::{
    connection::{Arg, Durability, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    store::{SqlStore, transact},
};
use crawlway_store::{StoreError, frontier::CrawlId};

/// URLs deleted by one transaction.
const BATCH: i64 = 2_000;

pub(super) async fn delete(store: &SqlStore, id: &CrawlId) -> Result<bool, StoreError> {
    let Some(num) = transact!(Durability::PowerLoss, store, tx, hide(tx, id))? else { return Ok(false) };
    store.0.crawls.lock().remove(id.as_str());
    while transact!(store, tx, delete_batch(tx, num))? {}
    // Until no process has its number cached, so that a crawl of the same name can be opened.
    tokio::time::sleep(crawls::CACHE_TTL).await;
    Ok(true)
}

/// Hides the crawl from all calls and frees its name. The row stays, so that its number, by which processes cache URLs, is
/// never reused.
async fn hide(tx: &mut Tx, id: &CrawlId) -> Result<Option<i64>, Fault> {
    static HIDE: Sql = Sql::pair(
        "UPDATE crawls SET state = 5, id = 'deleted/' || num, definition = '', waiting = 0, in_flight = 0, done = 0, dead = 0
         WHERE id = $1 RETURNING num",
        "UPDATE crawls SET state = 5, id = 'deleted/' || num::text, definition = '', waiting = 0, in_flight = 0, done = 0,
             dead = 0
         WHERE id = $1 RETURNING num",
    );
    tx.run(&HIDE, vec![Arg::Text(id.as_str())]).await?.first().map(|row| row.int(0)).transpose()
}

/// Deletes a batch of a crawl's URLs, or in the end its other rows; answers whether there may be more.
async fn delete_batch(tx: &mut Tx, num: i64) -> Result<bool, Fault> {
    // The last row of the table stays, since SQLite would reuse its number, and the key index skips rows up to the last
    // number that it has loaded. See `keys`.
    static URLS: Sql = Sql::new(
        "DELETE FROM entries WHERE num IN
         (SELECT e.num FROM entries e WHERE e.crawl = $1 AND e.num < (SELECT max(l.num) FROM entries l) {limit $2})
         RETURNING num",
    );
    static LINKS: Sql =
        Sql::new("DELETE FROM page_links WHERE entry IN (SELECT r.num FROM {rows num int} r)");
    static LAST: Sql = Sql::new("UPDATE entries SET state = 2, due = NULL WHERE crawl = $1");
    static LAST_LINKS: Sql =
        Sql::new("DELETE FROM page_links WHERE entry IN (SELECT e.num FROM entries e WHERE e.crawl = $1)");
    static HOSTS: Sql = Sql::new("DELETE FROM hosts WHERE crawl = $1");
    static BUDGETS: Sql = Sql::new("DELETE FROM budgets WHERE crawl = $1");
    static COUNTS: Sql = Sql::new("DELETE FROM crawl_counts WHERE crawl = $1");
    let gone = tx.run(&URLS, vec![Arg::Int(num), Arg::Int(BATCH)]).await?;
    if !gone.is_empty() {
        let nums = gone.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, Fault>>()?;
        tx.run(&LINKS, vec![Arg::Rows(Rows::of_ints(nums))]).await?;
        return Ok(true);
    }
    for rest in [&LAST_LINKS, &LAST, &HOSTS, &BUDGETS, &COUNTS] {
        tx.run(rest, vec![Arg::Int(num)]).await?;
    }
    Ok(false)
}
