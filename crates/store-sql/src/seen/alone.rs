//! Claims and marks on SQLite, where nobody else writes meanwhile: who has a URL is looked up first, so that a row is
//! changed where it is and a new one comes after all others.

use super::{Asked, Holder};
use crate::{
    dialect::Sql,
    fault::Fault,
    key::Key,
    keys::Kind,
    link::{Arg, Tx},
    rows::Rows,
    time::after,
};
use crawlway_store::seen::Seen;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The rows of claims that were made lately, so that marking a page as crawled, which comes next, needs not look for it.
/// A row may be gone meanwhile, or its transaction may be undone and its number given to another: so a row is only changed
/// if it has the hash, too.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<Key, i64>>);

/// More claims than this are forgotten.
const MOST_CLAIMS: usize = 1 << 16;

impl Claims {
    fn note(&self, claims: impl Iterator<Item = (Key, i64)>) {
        let mut known = self.0.lock();
        if known.len() >= MOST_CLAIMS {
            known.clear();
        }
        known.extend(claims);
    }

    fn take<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<(Key, i64)> {
        let mut known = self.0.lock();
        keys.filter_map(|key| known.remove_entry(key)).collect()
    }
}

/// Makes the claims that can be made, and says who has each URL then.
pub(super) async fn claim(
    tx: &mut Tx,
    first: &BTreeMap<Key, Asked<'_>>,
    now: i64,
    until: i64,
    claims: &Claims,
) -> Result<HashMap<Key, Holder>, Fault> {
    let known_rows = holders(tx, first.keys()).await?;
    let mut holders = HashMap::with_capacity(first.len());
    let mut changes = Changes::default();
    for (key, asked) in first {
        let ours = Holder::ours(asked.owner, until);
        match known_rows.get(key) {
            Some((_, other)) if other.stops(*asked, now) => {
                let other = Holder { owner: other.owner.clone(), ..*other };
                holders.insert(*key, other);
            }
            row => {
                changes.put(*key, row.map(|(num, _)| *num), asked.owner, until);
                holders.insert(*key, ours);
            }
        }
    }
    let new = changes.make(tx, 0, now).await?;
    let known = holders.iter().filter(|(_, holder)| holder.ours);
    let known = known.filter_map(|(key, _)| known_rows.get(key).map(|(num, _)| (*key, *num)));
    claims.note(new.into_iter().chain(known));
    Ok(holders)
}

pub(super) async fn mark(
    tx: &mut Tx,
    last: &BTreeMap<Key, &Seen>,
    now: i64,
    claims: &Claims,
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
    let known = holders(tx, others().map(|(key, _)| key)).await?;
    let mut changes = Changes::default();
    for (key, seen) in others() {
        changes.put(*key, known.get(key).map(|(num, _)| *num), &seen.owner, after(now, seen.ttl));
    }
    changes.make(tx, 1, now).await.map(drop)
}

/// Who has these, and in which row.
async fn holders<'a>(
    tx: &mut Tx,
    keys: impl Iterator<Item = &'a Key>,
) -> Result<HashMap<Key, (i64, Holder)>, Fault> {
    static HELD: Sql = Sql::new(
        "SELECT s.hash, s.owner, s.until, s.crawled, s.marked_at, s.num
         FROM {rows hash key} r CROSS JOIN seen s WHERE {hashed seen s r.hash}",
    );
    let keys = super::keys(keys.copied().filter(|key| tx.may_have(Kind::Seen, *key)));
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = tx.run(&HELD, vec![Arg::Rows(keys)]).await?;
    rows.iter().map(|row| Ok((row.key(0)?, (row.int(5)?, Holder::of(row)?)))).collect()
}

/// Rows to be changed and rows to be added.
struct Changes {
    known: Rows,
    new: Rows,
    new_keys: Vec<Key>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { known: Rows::new(), new: Rows::new(), new_keys: Vec::new() }
    }
}

impl Changes {
    fn put(&mut self, key: Key, num: Option<i64>, owner: &str, until: i64) {
        match num {
            Some(num) => self.known.row().int(num).key(key).text(owner).int(until),
            None => {
                self.new_keys.push(key);
                self.new.row().key(key).text(owner).int(until)
            }
        };
    }

    /// Answers which rows are new.
    async fn make(mut self, tx: &mut Tx, crawled: i64, now: i64) -> Result<Vec<(Key, i64)>, Fault> {
        static ADD: Sql = Sql::new(
            "INSERT INTO seen (hash, owner, until, crawled, marked_at)
             SELECT r.hash, r.owner, r.until, $2, $3 FROM {rows hash key, owner text, until int} r RETURNING hash, num",
        );
        self.change(tx, crawled, now).await?;
        if self.new.is_empty() {
            return Ok(Vec::new());
        }
        let many = self.new.len();
        tx.inserts(Kind::Seen, self.new_keys);
        let added = tx.run(&ADD, vec![Arg::Rows(self.new), Arg::Int(crawled), Arg::Int(now)]).await?;
        tx.added(many).await?;
        added.iter().map(|row| Ok((row.key(0)?, row.int(1)?))).collect()
    }

    /// Changes the rows that are there, and answers which.
    async fn change(&mut self, tx: &mut Tx, crawled: i64, now: i64) -> Result<HashSet<i64>, Fault> {
        static CHANGE: Sql = Sql::new(
            "UPDATE seen SET owner = r.new_owner, until = r.new_until, crawled = $2, marked_at = $3
             FROM {rows num int, hash key, new_owner text, new_until int} r
             WHERE seen.num = r.num AND seen.hash = r.hash RETURNING num",
        );
        let known = std::mem::replace(&mut self.known, Rows::new());
        if known.is_empty() {
            return Ok(HashSet::new());
        }
        let changed = tx.run(&CHANGE, vec![Arg::Rows(known), Arg::Int(crawled), Arg::Int(now)]).await?;
        changed.iter().map(|row| row.int(0)).collect()
    }
}
