//! Claims and marks on SQLite. There is one writer, so holders are looked up first: existing rows are updated in place and
//! new ones are appended.

use super::{ClaimRequest, Holder};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
    keys::Kind,
    rows::Rows,
    time::after,
};
use crawlway_store::seen::SeenUrl;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Cache of the row numbers of recent claims, so that marking the page needs no look-up. A cached number may be outdated (the
/// row was deleted, or its transaction rolled back and the number reused), so an update also checks the hash.
#[derive(Debug, Default)]
pub(crate) struct ClaimCache(Mutex<HashMap<Key, i64>>);

/// The cache is cleared when it has this many entries.
const MAX_CACHED_CLAIMS: usize = 1 << 16;

impl ClaimCache {
    fn insert(&self, claims: impl Iterator<Item = (Key, i64)>) {
        let mut cached = self.0.lock();
        if cached.len() >= MAX_CACHED_CLAIMS {
            cached.clear();
        }
        cached.extend(claims);
    }

    fn take<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<(Key, i64)> {
        let mut cached = self.0.lock();
        keys.filter_map(|key| cached.remove_entry(key)).collect()
    }
}

/// Makes the claims that are possible, and answers the holder of each URL after that.
pub(super) async fn claim(
    tx: &mut Tx,
    first: &BTreeMap<Key, ClaimRequest<'_>>,
    now: i64,
    until: i64,
    claims: &ClaimCache,
) -> Result<HashMap<Key, Holder>, Fault> {
    let existing = holders(tx, first.keys()).await?;
    let mut holders = HashMap::with_capacity(first.len());
    let mut changes = Changes::default();
    for (key, request) in first {
        let holder = match existing.get(key) {
            Some((_, other)) if other.blocks(*request, now) => other.clone(),
            row => {
                changes.put(*key, row.map(|(num, _)| *num), request.owner, until);
                Holder::ours(request.owner, until)
            }
        };
        holders.insert(*key, holder);
    }
    let new = changes.make(tx, 0, now).await?;
    let updated = holders.iter().filter(|(_, holder)| holder.ours);
    let updated = updated.filter_map(|(key, _)| existing.get(key).map(|(num, _)| (*key, *num)));
    claims.insert(new.into_iter().chain(updated));
    Ok(holders)
}

pub(super) async fn mark(
    tx: &mut Tx,
    last: &BTreeMap<Key, &SeenUrl>,
    now: i64,
    claims: &ClaimCache,
) -> Result<(), Fault> {
    let claimed = claims.take(last.keys());
    let mut changes = Changes::default();
    for (key, num) in &claimed {
        if let Some(seen) = last.get(key) {
            changes.put(*key, Some(*num), &seen.owner, after(now, seen.ttl));
        }
    }
    let changed = changes.change(tx, 1, now).await?;
    let done: HashSet<Key> =
        claimed.into_iter().filter(|(_, num)| changed.contains(num)).map(|(key, _)| key).collect();
    if done.len() == last.len() {
        return Ok(());
    }
    let others = || last.iter().filter(|(key, _)| !done.contains(key));
    let existing = holders(tx, others().map(|(key, _)| key)).await?;
    let mut changes = Changes::default();
    for (key, seen) in others() {
        changes.put(*key, existing.get(key).map(|(num, _)| *num), &seen.owner, after(now, seen.ttl));
    }
    changes.make(tx, 1, now).await.map(drop)
}

/// The holders of these keys with their row numbers.
async fn holders<'a>(
    tx: &mut Tx,
    keys: impl Iterator<Item = &'a Key>,
) -> Result<HashMap<Key, (i64, Holder)>, Fault> {
    static HELD: Sql = Sql::new(
        "SELECT s.hash, s.owner, s.until, s.crawled, s.marked_at, s.num
         FROM {rows hash key} r CROSS JOIN seen s WHERE {hashed seen s r.hash}",
    );
    let keys = Rows::of_keys(keys.copied().filter(|key| tx.may_contain(Kind::Seen, *key)));
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.run(&HELD, vec![Arg::Rows(keys)]).await?;
    rows.iter().map(|row| Ok((row.key(0)?, (row.int(5)?, Holder::of(row)?)))).collect()
}

/// Rows to update and rows to insert.
struct Changes {
    existing: Rows,
    new: Rows,
    new_keys: Vec<Key>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { existing: Rows::new(), new: Rows::new(), new_keys: Vec::new() }
    }
}

impl Changes {
    fn put(&mut self, key: Key, num: Option<i64>, owner: &str, until: i64) {
        match num {
            Some(num) => self.existing.row().int(num).key(key).text(owner).int(until),
            None => {
                self.new_keys.push(key);
                self.new.row().key(key).text(owner).int(until)
            }
        };
    }

    /// Writes all, and answers the new rows.
    async fn make(mut self, tx: &mut Tx, crawled: i64, now: i64) -> Result<Vec<(Key, i64)>, Fault> {
        static ADD: Sql = Sql::new(
            "INSERT INTO seen (hash, owner, until, crawled, marked_at)
             SELECT r.hash, r.owner, r.until, $2, $3 FROM {rows hash key, owner text, until int} r RETURNING hash, num",
        );
        self.change(tx, crawled, now).await?;
        if self.new.is_empty() {
            return Ok(Vec::new());
        }
        let count = self.new.len();
        tx.note_inserted(Kind::Seen, self.new_keys);
        let added = tx.run(&ADD, vec![Arg::Rows(self.new), Arg::Int(crawled), Arg::Int(now)]).await?;
        tx.rows_added(count).await?;
        added.iter().map(|row| Ok((row.key(0)?, row.int(1)?))).collect()
    }

    /// Updates the existing rows, and answers which were found.
    async fn change(&mut self, tx: &mut Tx, crawled: i64, now: i64) -> Result<HashSet<i64>, Fault> {
        static CHANGE: Sql = Sql::new(
            "UPDATE seen SET owner = r.new_owner, until = r.new_until, crawled = $2, marked_at = $3
             FROM {rows num int, hash key, new_owner text, new_until int} r
             WHERE seen.num = r.num AND seen.hash = r.hash RETURNING num",
        );
        let existing = std::mem::replace(&mut self.existing, Rows::new());
        if existing.is_empty() {
            return Ok(HashSet::new());
        }
        let changed = tx.run(&CHANGE, vec![Arg::Rows(existing), Arg::Int(crawled), Arg::Int(now)]).await?;
        changed.iter().map(|row| row.int(0)).collect()
    }
}
