//! Claims and marks on SQLite, where nobody else writes meanwhile: who has a URL is looked up first, so that a row is
//! changed where it is and a new one comes after all others.

use super::Holder;
use crate::{
    dialect::Sql,
    fault::Fault,
    key::Key,
    link::{Arg, Tx},
    rows::Rows,
    time::after,
};
use crawlway_store::seen::Seen;
use std::collections::{BTreeMap, HashMap};

/// Makes the claims that can be made, and says who has each URL then.
pub(super) async fn claim(
    tx: &mut Tx,
    first: &BTreeMap<Key, &str>,
    now: i64,
    until: i64,
) -> Result<HashMap<Key, Holder>, Fault> {
    let known = holders(tx, first.keys()).await?;
    let mut holders = HashMap::with_capacity(first.len());
    let mut changes = Changes::default();
    for (key, owner) in first {
        let ours = Holder::ours(owner, until);
        match known.get(key) {
            Some((_, other)) if other.until > now && (other.crawled || other.owner != ours.owner) => {
                let other = Holder { owner: other.owner.clone(), ..*other };
                holders.insert(*key, other);
            }
            row => {
                changes.put(*key, row.map(|(num, _)| *num), owner, until);
                holders.insert(*key, ours);
            }
        }
    }
    changes.make(tx, 0).await?;
    Ok(holders)
}

pub(super) async fn mark(tx: &mut Tx, last: &BTreeMap<Key, &Seen>, now: i64) -> Result<(), Fault> {
    let known = holders(tx, last.keys()).await?;
    let mut changes = Changes::default();
    for (key, seen) in last {
        changes.put(*key, known.get(key).map(|(num, _)| *num), &seen.owner, after(now, seen.ttl));
    }
    changes.make(tx, 1).await
}

/// Who has these, and in which row.
async fn holders<'a>(
    tx: &mut Tx,
    keys: impl Iterator<Item = &'a Key>,
) -> Result<HashMap<Key, (i64, Holder)>, Fault> {
    static HELD: Sql = Sql::new(
        "SELECT s.hash, s.owner, s.until, s.crawled, s.num
         FROM {rows hash key} r CROSS JOIN seen s WHERE {hashed seen s r.hash}",
    );
    let rows = tx.run(&HELD, vec![Arg::Rows(super::keys(keys.copied()))]).await?;
    rows.iter().map(|row| Ok((row.key(0)?, (row.int(4)?, Holder::of(row)?)))).collect()
}

/// Rows to be changed and rows to be added.
struct Changes {
    known: Rows,
    new: Rows,
}

impl Default for Changes {
    fn default() -> Self {
        Self { known: Rows::new(), new: Rows::new() }
    }
}

impl Changes {
    fn put(&mut self, key: Key, num: Option<i64>, owner: &str, until: i64) {
        match num {
            Some(num) => self.known.row().int(num).text(owner).int(until),
            None => self.new.row().key(key).text(owner).int(until),
        };
    }

    async fn make(self, tx: &mut Tx, crawled: i64) -> Result<(), Fault> {
        static CHANGE: Sql = Sql::new(
            "UPDATE seen SET owner = r.new_owner, until = r.new_until, crawled = $2
             FROM {rows num int, new_owner text, new_until int} r WHERE seen.num = r.num",
        );
        static ADD: Sql = Sql::new(
            "INSERT INTO seen (hash, owner, until, crawled)
             SELECT r.hash, r.owner, r.until, $2 FROM {rows hash key, owner text, until int} r",
        );
        if !self.known.is_empty() {
            tx.run(&CHANGE, vec![Arg::Rows(self.known), Arg::Int(crawled)]).await?;
        }
        if !self.new.is_empty() {
            let many = self.new.len();
            tx.run(&ADD, vec![Arg::Rows(self.new), Arg::Int(crawled)]).await?;
            tx.added(many).await?;
        }
        Ok(())
    }
}
