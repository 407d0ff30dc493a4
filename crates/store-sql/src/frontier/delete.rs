//! Deleting a crawl, in steps, so that other work goes on meanwhile.

use super::crawls;
use crate::{
    dialect::Sql,
    fault::Fault,
    link::{Arg, Lasts, Tx},
    rows::Rows,
    store::{SqlStore, transact},
};
use crawlway_store::{StoreError, frontier::CrawlId};

/// How many URLs are deleted by one transaction.
const AT_ONCE: i64 = 2_000;

pub(super) async fn delete(store: &SqlStore, id: &CrawlId) -> Result<bool, StoreError> {
    let Some(num) = transact!(Lasts::PowerCut, store, tx, hide(tx, id))? else { return Ok(false) };
    store.0.crawls.lock().remove(id.as_str());
    while transact!(store, tx, some(tx, num))? {}
    // Until no process adds to it any more, and a crawl of the same name can be opened.
    tokio::time::sleep(crawls::REMEMBERED_FOR).await;
    Ok(true)
}

/// Gives the crawl a state that no call looks at and frees its name. The row stays: what processes remember of a crawl
/// goes by its number, which must not become another crawl's.
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

/// Deletes some of a crawl's URLs, and at last the rest; says whether there may be more.
async fn some(tx: &mut Tx, num: i64) -> Result<bool, Fault> {
    // The last row of all stays until there is a later one: on SQLite its number would be given out again, and the
    // index by hash takes every row up to a number for known. See `keys`.
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
    let gone = tx.run(&URLS, vec![Arg::Int(num), Arg::Int(AT_ONCE)]).await?;
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
