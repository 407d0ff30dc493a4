//! Trails: entries by item, by subject and by age.

use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
    key_cache::KeyCache,
    keys::Kind,
    rows::{Rows, storable},
    store::{SqlStore, read, transact},
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::{AttemptEnd, StoreError, Timestamp, TrailEntry, Trails};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

/// Open trails. 0 and 5 are done and dead in `AttemptEnd::ALL`. `open_trails` may contain ended ones, after concurrent or late
/// records, so each of the few candidates is checked by its entries.
static OPEN: Sql = Sql::new(
    "SELECT o.item FROM open_trails o
     WHERE EXISTS (SELECT 1 FROM trails t WHERE t.item = o.item AND t.at >= o.at)
       AND NOT EXISTS (SELECT 1 FROM trails t WHERE t.item = o.item AND t.at >= o.at AND t.ended IN (0, 5))
     ORDER BY o.item LIMIT $1",
);

#[async_trait::async_trait]
impl Trails for SqlStore {
    async fn append(&self, entries: &[TrailEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let cache = &self.0.subjects;
        let stored = transact!(self, tx, record(tx, entries, cache))?;
        stored.into_iter().for_each(|(part, key)| cache.insert(part, key));
        Ok(())
    }

    async fn of_item(&self, item: &str) -> Result<Vec<TrailEntry>, StoreError> {
        // On the writer, whose memory has the newest keys on SQLite; likewise below.
        transact!(self, tx, of_item(tx, item))
    }

    async fn of_subject(&self, subject: &str, max: usize) -> Result<Vec<Vec<TrailEntry>>, StoreError> {
        static ITEMS: Sql = Sql::new(
            "SELECT s.item, max(t.at) FROM (SELECT DISTINCT b.item FROM subjects b WHERE {hashed subjects b $1} AND b.text = $2) s
             JOIN trails t ON t.item = s.item GROUP BY s.item ORDER BY max(t.at) DESC, max(t.num) DESC LIMIT $3",
        );
        let args =
            || vec![Arg::Key(Key::of(subject)), Arg::Text(subject), Arg::Int(saturating_i64(max as u64))];
        transact!(self, tx, async {
            let mut trails = Vec::new();
            for row in tx.run(&ITEMS, args()).await? {
                trails.push(of_item(tx, &row.text(0)?).await?);
            }
            Ok(trails)
        })
    }

    async fn open_items(&self, max: usize) -> Result<Vec<String>, StoreError> {
        let rows = read!(self, tx, tx.run(&OPEN, vec![Arg::Int(saturating_i64(max as u64))]))?;
        Ok(rows.iter().map(|row| row.text(0)).collect::<Result<_, Fault>>()?)
    }

    async fn expire(&self, before: Timestamp, max: usize) -> Result<u64, StoreError> {
        static EXPIRE: Sql = Sql::new(
            "DELETE FROM trails WHERE num IN
             (SELECT t.num FROM trails t WHERE t.at < $1 ORDER BY t.at, CASE WHEN t.ended IN (0, 5) THEN 1 ELSE 0 END, t.num
              LIMIT $2 {skip locked})
             RETURNING item",
        );
        // The text of a subject stays while its item has any entry.
        static FORGET: Sql = Sql::new(
            "DELETE FROM subjects WHERE num IN
             (SELECT s.num FROM {rows item text, hash key} r CROSS JOIN subjects s
              WHERE {hashed subjects s r.hash} AND s.item = r.item
              AND NOT EXISTS (SELECT 1 FROM trails t WHERE t.item = r.item))",
        );
        static NO_LONGER_OPEN: Sql = Sql::new(
            "DELETE FROM open_trails WHERE item IN (SELECT r.item FROM {rows item text} r)
             AND NOT EXISTS (SELECT 1 FROM trails t WHERE t.item = open_trails.item AND t.at >= open_trails.at)",
        );
        static ABOUT: Sql = Sql::new(
            "SELECT DISTINCT t.item, t.subject FROM trails t
             WHERE t.num IN (SELECT o.num FROM trails o WHERE o.at < $1
                             ORDER BY o.at, CASE WHEN o.ended IN (0, 5) THEN 1 ELSE 0 END, o.num LIMIT $2)
             AND t.subject IS NOT NULL",
        );
        let args = || vec![Arg::Int(millis(before)), Arg::Int(saturating_i64(max as u64))];
        let gone = transact!(self, tx, async {
            let mut about = Rows::new();
            for row in tx.run(&ABOUT, args()).await? {
                about.row().text(&row.text(0)?).key(row.key(1)?);
            }
            let gone = tx.run(&EXPIRE, args()).await?;
            if !gone.is_empty() {
                let items =
                    gone.iter().map(|row| row.text(0)).collect::<Result<BTreeSet<String>, Fault>>()?;
                let rows = Rows::of_texts(items.iter().map(String::as_str));
                tx.run(&NO_LONGER_OPEN, vec![Arg::Rows(rows)]).await?;
            }
            let gone = gone.len();
            if !about.is_empty() {
                self.0.subjects.clear();
                tx.run(&FORGET, vec![Arg::Rows(about)]).await?;
            }
            Ok::<_, Fault>(gone)
        })?;
        Ok(gone as u64)
    }
}

/// Part of the cache for the subjects of one item, until another connection writes.
fn cache_part(epoch: u64, item: &str) -> i64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (epoch, item).hash(&mut hasher);
    hasher.finish().cast_signed()
}

/// Answers the subjects that can be cached once this is committed.
async fn record(tx: &mut Tx, entries: &[TrailEntry], cache: &KeyCache) -> Result<Vec<(i64, Key)>, Fault> {
    static NEW: Sql = Sql::new(
        "INSERT INTO subjects (hash, item, text)
         SELECT r.hash, r.item, r.text FROM {rows hash key, item text, text text} r",
    );
    // Two workers may both insert the row of one item; readers do not notice the duplicate.
    static ABOUT: Sql = Sql::new(
        "INSERT INTO subjects (hash, item, text)
         SELECT r.hash, r.item, r.text FROM {rows hash key, item text, text text} r
         WHERE NOT EXISTS (SELECT 1 FROM subjects s WHERE {hashed subjects s r.hash} AND s.item = r.item)",
    );
    static ADD: Sql = Sql::new(
        "INSERT INTO trails (item, subject, flow, stage, at, ended, outcome, attempt, took_ms, worker, error, note, replays)
         SELECT r.item, r.subject, r.flow, r.stage, r.at, r.ended, r.outcome, r.attempt, r.took_ms, r.worker, r.error,
                r.note, r.replays
         FROM {rows place int, item text, subject key, flow text, stage text, at int, ended int, outcome text, \
         attempt int, took_ms int, worker text, error text, note text, replays int} r ORDER BY r.place",
    );
    let (mut new, mut unsure) = (Rows::new(), Rows::new());
    let mut subjects = BTreeSet::new();
    let mut rows = Rows::new();
    for (place, entry) in (0..).zip(entries) {
        let subject = entry.subject.as_deref().map(Key::of);
        if let (Some(key), Some(text)) = (subject, &entry.subject)
            && !tx.exclusive_epoch().is_some_and(|epoch| cache.contains(cache_part(epoch, &entry.item), key))
            && subjects.insert((key, entry.item.as_str()))
        {
            let rows = if tx.may_contain(Kind::Subject, key) { &mut unsure } else { &mut new };
            rows.row().key(key).text(&entry.item).text(text);
        }
        let ended = AttemptEnd::ALL.iter().position(|end| *end == entry.end).unwrap_or_default();
        rows.row()
            .int(place)
            .text(&entry.item)
            .opt_key(subject)
            .text(&entry.flow)
            .text(&entry.stage)
            .int(millis(entry.at))
            .int(saturating_i64(ended as u64))
            .text(&entry.outcome)
            .int(i64::from(entry.attempt))
            .int(saturating_i64(entry.took_ms))
            .text(&entry.worker)
            .opt_text(entry.error.as_deref())
            .opt_text(entry.note.as_deref())
            .int(i64::from(entry.replays));
    }
    tx.note_inserted(Kind::Subject, subjects.iter().map(|(key, _)| *key));
    for (sql, rows) in [(&NEW, new), (&ABOUT, unsure)] {
        if !rows.is_empty() {
            let count = rows.len();
            tx.run(sql, vec![Arg::Rows(rows)]).await?;
            tx.rows_added(count).await?;
        }
    }
    tx.run(&ADD, vec![Arg::Rows(rows)]).await?;
    update_open(tx, entries).await?;
    let epoch = tx.exclusive_epoch();
    Ok(subjects.iter().filter_map(|(key, item)| epoch.map(|epoch| (cache_part(epoch, item), *key))).collect())
}

/// Updates `open_trails` for these entries.
async fn update_open(tx: &mut Tx, entries: &[TrailEntry]) -> Result<(), Fault> {
    // On PostgreSQL this locks the row, so that a transaction that deletes it sees the later time.
    static OPENED: Sql = Sql::new(
        "INSERT INTO open_trails (item, at) SELECT r.item, r.at FROM {rows item text, at int} r WHERE true
         ON CONFLICT (item) DO UPDATE SET at = {greatest}(open_trails.at, excluded.at)",
    );
    static CLOSED: Sql = Sql::pair(
        "DELETE FROM open_trails WHERE item IN
         (SELECT o.item FROM {rows item text, at int} r CROSS JOIN open_trails o WHERE o.item = r.item AND o.at <= r.at)",
        "DELETE FROM open_trails USING {rows item text, at int} r
         WHERE open_trails.item = r.item AND open_trails.at <= r.at",
    );
    let (mut opened, mut closed): (BTreeMap<_, i64>, BTreeMap<_, i64>) = Default::default();
    for entry in entries {
        let times = if entry.end.is_terminal() { &mut closed } else { &mut opened };
        let latest = times.entry(storable(&entry.item)).or_insert(i64::MIN);
        *latest = (*latest).max(millis(entry.at));
    }
    opened.retain(|item, at| closed.get(item).is_none_or(|closed| *closed < *at));
    // In the order of items, against deadlocks.
    for (sql, times) in [(&OPENED, opened), (&CLOSED, closed)] {
        if !times.is_empty() {
            let mut rows = Rows::new();
            for (item, at) in &times {
                rows.row().text(item).int(*at);
            }
            tx.run(sql, vec![Arg::Rows(rows)]).await?;
        }
    }
    Ok(())
}

async fn of_item(tx: &mut Tx, item: &str) -> Result<Vec<TrailEntry>, Fault> {
    static OF_ITEM: Sql = Sql::new(
        "SELECT (SELECT s.text FROM subjects s WHERE {hashed subjects s t.subject} AND s.item = t.item LIMIT 1),
                t.flow, t.stage, t.at, t.ended, t.outcome, t.attempt, t.took_ms, t.worker, t.error, t.note, t.replays
         FROM trails t WHERE t.item = $1 ORDER BY t.at, CASE WHEN t.ended IN (0, 5) THEN 1 ELSE 0 END, t.num",
    );
    let rows = tx.run(&OF_ITEM, vec![Arg::Text(item)]).await?;
    let item = storable(item);
    rows.iter().map(|row| entry(row, &item)).collect()
}

fn entry(row: &Row, item: &str) -> Result<TrailEntry, Fault> {
    let ended = usize::try_from(row.int(4)?).unwrap_or(usize::MAX);
    let unknown = || Fault::Failed(format!("the trail of {item} has an entry with an unknown end"));
    let end = *AttemptEnd::ALL.get(ended).ok_or_else(unknown)?;
    let replays = row.opt_int(11)?;
    let (note, error) = match replays {
        Some(_) => (row.opt_text(10)?, row.opt_text(9)?),
        // Rows of earlier versions have one column for both.
        None => end.note_or_error(row.opt_text(9)?),
    };
    Ok(TrailEntry {
        item: item.to_owned(),
        subject: row.opt_text(0)?,
        flow: row.text(1)?,
        stage: row.text(2)?,
        at: timestamp(row.int(3)?),
        end,
        outcome: row.text(5)?,
        attempt: row.small(6)?,
        took_ms: row.count(7)?,
        worker: row.text(8)?,
        replays: replays.and_then(|replays| u32::try_from(replays).ok()).unwrap_or(0),
        note,
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, SqlOptions, dialect::Dialect};

    #[tokio::test]
    async fn open_trails_are_found_without_a_scan_of_all_trails() {
        let folder = tempfile::tempdir().unwrap();
        let place = Database::Sqlite(folder.path().join("store.db"));
        let store = SqlStore::open(SqlOptions::new(place)).await.unwrap();
        let mut tx = store.reading().await.unwrap();
        let plan = format!("EXPLAIN QUERY PLAN {}", OPEN.text(Dialect::Sqlite));
        let rows = tx.run_once(plan, vec![Arg::Int(10)]).await.unwrap();
        let steps: Vec<String> = rows.iter().map(|row| row.text(3).unwrap()).collect();
        assert!(steps.iter().any(|step| step.contains("SEARCH t ")), "{steps:?}");
        assert!(!steps.iter().any(|step| step.starts_with("SCAN t")), "{steps:?}");
    }
}
