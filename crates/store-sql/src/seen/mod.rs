//! Seen-URL store: one row for each URL, found by its hash; the text of the URL is not stored.

mod sqlite;

pub(crate) use sqlite::ClaimCache;

use crate::{
    connection::{Arg, Durability, Row, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
    rows::{Rows, storable},
    store::{SqlStore, transact},
    time::{after, saturating_i64, timestamp},
};
use crawlway_store::{
    SeenUrls, StoreError,
    seen::{Claim, ClaimOutcome, SeenUrl},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

#[async_trait::async_trait]
impl SeenUrls for SqlStore {
    async fn claim(&self, claims: &[Claim], term: Duration) -> Result<Vec<ClaimOutcome>, StoreError> {
        if claims.is_empty() {
            return Ok(vec![]);
        }
        let keys: Vec<Key> = claims.iter().map(|claim| Key::of(&claim.url)).collect();
        // One statement cannot update a row twice, so the first claim of a URL is made and decides the others.
        let now = self.0.time.now();
        let until = after(now, term);
        let mut first: BTreeMap<Key, ClaimRequest<'_>> = BTreeMap::new();
        for (key, claim) in keys.iter().zip(claims) {
            first.entry(*key).or_insert_with(|| ClaimRequest::new(claim, now));
        }
        let holders = transact!(self, tx, claim_first(tx, &first, now, until, &self.0.claims))?;
        let answers = keys.iter().zip(claims).map(|(key, claim)| {
            let owner = storable(&claim.owner);
            match holders.get(key) {
                None => ClaimOutcome::Granted,
                Some(holder) if holder.crawled => {
                    let (owner, at) = (holder.owner.clone(), holder.marked_at.map(timestamp));
                    ClaimOutcome::Seen { owner, at, until: timestamp(holder.until) }
                }
                Some(holder) if holder.owner == owner && holder.ours => ClaimOutcome::Granted,
                Some(holder) => {
                    ClaimOutcome::Taken { owner: holder.owner.clone(), until: timestamp(holder.until) }
                }
            }
        });
        Ok(answers.collect())
    }

    async fn mark(&self, seen: &[SeenUrl]) -> Result<(), StoreError> {
        let now = self.0.time.now();
        let last: BTreeMap<Key, &SeenUrl> = seen.iter().map(|seen| (Key::of(&seen.url), seen)).collect();
        if last.is_empty() {
            return Ok(());
        }
        transact!(self, tx, mark_last(tx, &last, now, &self.0.claims))
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        static RELEASE: Sql = Sql::pair(
            "DELETE FROM seen WHERE num IN
             (SELECT s.num FROM {rows hash key, owner text} r CROSS JOIN seen s
              WHERE {hashed seen s r.hash} AND s.crawled = 0 AND s.owner = r.owner)",
            "DELETE FROM seen WHERE crawled = 0
             AND (hash, owner) IN (SELECT r.hash, r.owner FROM {rows hash key, owner text} r)",
        );
        if claims.is_empty() {
            return Ok(());
        }
        let rows = || {
            let mut rows = Rows::new();
            for claim in claims {
                rows.row().key(Key::of(&claim.url)).text(&claim.owner);
            }
            rows
        };
        transact!(self, tx, async {
            lock(tx, claims.iter().map(|claim| &claim.url)).await?;
            tx.run(&RELEASE, vec![Arg::Rows(rows())]).await
        })
        .map(drop)
    }

    async fn contains(&self, urls: &[String]) -> Result<Vec<bool>, StoreError> {
        static KNOWN: Sql = Sql::pair(
            "SELECT s.hash FROM {rows hash key} r CROSS JOIN seen s WHERE {hashed seen s r.hash} AND s.until > $2",
            "SELECT s.hash FROM {rows hash key} r JOIN seen s ON s.hash = r.hash WHERE s.until > $2",
        );
        if urls.is_empty() {
            return Ok(vec![]);
        }
        let asked: Vec<Key> = urls.iter().map(|url| Key::of(url)).collect();
        let now = self.0.time.now();
        // Not on a reader: the newest keys are in the memory of the write connection.
        let rows = transact!(self, tx, {
            let rows = Rows::of_keys(asked.iter().copied());
            tx.run(&KNOWN, vec![Arg::Rows(rows), Arg::Int(now)])
        })?;
        let known = rows.iter().map(|row| row.key(0)).collect::<Result<HashSet<Key>, Fault>>()?;
        Ok(asked.iter().map(|key| known.contains(key)).collect())
    }

    async fn forget(&self, urls: &[String]) -> Result<u64, StoreError> {
        static FORGET: Sql = Sql::pair(
            "DELETE FROM seen WHERE num IN
             (SELECT s.num FROM {rows hash key} r CROSS JOIN seen s WHERE {hashed seen s r.hash}) RETURNING until",
            "DELETE FROM seen WHERE hash IN (SELECT r.hash FROM {rows hash key} r) RETURNING until",
        );
        if urls.is_empty() {
            return Ok(0);
        }
        let now = self.0.time.now();
        let gone = transact!(Durability::PowerLoss, self, tx, async {
            lock(tx, urls.iter()).await?;
            tx.run(&FORGET, vec![Arg::Rows(Rows::of_keys(urls.iter().map(|url| Key::of(url))))]).await
        })?;
        let mut known = 0;
        for row in gone {
            known += u64::from(row.int(0)? > now);
        }
        Ok(known)
    }

    async fn purge_expired(&self, max: usize) -> Result<u64, StoreError> {
        static SWEEP: Sql = Sql::pair(
            "DELETE FROM seen WHERE num IN
             (SELECT s.num FROM seen s WHERE s.until <= $1 ORDER BY s.until LIMIT $2) RETURNING 1",
            "DELETE FROM seen WHERE hash IN
             (SELECT s.hash FROM seen s WHERE s.until <= $1 ORDER BY s.until LIMIT $2 {skip locked})
             RETURNING 1",
        );
        let now = self.0.time.now();
        let max = saturating_i64(max as u64);
        let gone = transact!(self, tx, tx.run(&SWEEP, vec![Arg::Int(now), Arg::Int(max)]))?;
        Ok(gone.len() as u64)
    }
}

/// A claim with the time up to which marks are outdated for it.
#[derive(Debug, Clone, Copy)]
struct ClaimRequest<'a> {
    owner: &'a str,
    outdated: i64,
}

impl<'a> ClaimRequest<'a> {
    fn new(claim: &'a Claim, now: i64) -> Self {
        let age = i64::try_from(claim.max_age.as_millis()).unwrap_or(i64::MAX);
        Self { owner: &claim.owner, outdated: now.saturating_sub(age) }
    }
}

/// The claim on a URL, or its mark as crawled.
#[derive(Clone)]
struct Holder {
    owner: String,
    until: i64,
    marked_at: Option<i64>,
    crawled: bool,
    /// Whether it is the claim that was just made.
    ours: bool,
}

impl Holder {
    fn ours(owner: &str, until: i64) -> Self {
        Self { owner: storable(owner).into_owned(), until, marked_at: None, crawled: false, ours: true }
    }

    /// From a row of hash, owner, until, crawled, marked_at.
    fn of(row: &Row) -> Result<Self, Fault> {
        let (owner, until, marked_at) = (row.text(1)?, row.int(2)?, row.opt_int(4)?);
        Ok(Self { owner, until, marked_at, crawled: row.int(3)? == 1, ours: false })
    }

    /// Whether it prevents this claim. A mark of unknown time counts as made now.
    fn blocks(&self, request: ClaimRequest<'_>, now: i64) -> bool {
        let outdated = self.crawled && self.marked_at.unwrap_or(now) <= request.outdated;
        self.until > now && !outdated && (self.crawled || self.owner != storable(request.owner))
    }
}

/// Makes the claims that are possible, and answers the holder of each URL after that.
async fn claim_first(
    tx: &mut Tx,
    first: &BTreeMap<Key, ClaimRequest<'_>>,
    now: i64,
    until: i64,
    claims: &ClaimCache,
) -> Result<HashMap<Key, Holder>, Fault> {
    if !tx.is_shared() {
        return sqlite::claim(tx, first, now, until, claims).await;
    }
    static CLAIM: Sql = Sql::new(
        // `marked_at` of a claim is the time up to which marks were outdated when it was made.
        "INSERT INTO seen (hash, owner, until, crawled, marked_at)
         SELECT r.hash, r.owner, $2, 0, r.outdated FROM {rows hash key, owner text, outdated int} r WHERE true
         ON CONFLICT (hash) DO UPDATE SET owner = excluded.owner, until = excluded.until, crawled = 0,
             marked_at = excluded.marked_at
         WHERE seen.until <= $3 OR (seen.crawled = 0 AND seen.owner = excluded.owner)
            OR (seen.crawled = 1 AND coalesce(seen.marked_at, $3) <= excluded.marked_at)
         RETURNING hash",
    );
    static HELD: Sql = Sql::new(
        "SELECT s.hash, s.owner, s.until, s.crawled, s.marked_at FROM {rows hash key} r JOIN seen s ON s.hash = r.hash",
    );
    let mut rows = Rows::new();
    for (key, request) in first {
        rows.row().key(*key).text(request.owner).int(request.outdated);
    }
    let claimed = tx.run(&CLAIM, vec![Arg::Rows(rows), Arg::Int(until), Arg::Int(now)]).await?;
    let mut holders = HashMap::with_capacity(first.len());
    for row in claimed {
        let key = row.key(0)?;
        holders.insert(key, Holder::ours(first.get(&key).map_or("", |request| request.owner), until));
    }
    if holders.len() < first.len() {
        // The upsert has locked the rows that it did not change, so they still exist.
        let others = Rows::of_keys(first.keys().filter(|key| !holders.contains_key(key)).copied());
        for row in tx.run(&HELD, vec![Arg::Rows(others)]).await? {
            holders.insert(row.key(0)?, Holder::of(&row)?);
        }
        if holders.len() < first.len() {
            return Err(Fault::Conflict("a seen URL was forgotten while it was claimed".to_owned()));
        }
    }
    Ok(holders)
}

async fn mark_last(
    tx: &mut Tx,
    last: &BTreeMap<Key, &SeenUrl>,
    now: i64,
    claims: &ClaimCache,
) -> Result<(), Fault> {
    if !tx.is_shared() {
        return sqlite::mark(tx, last, now, claims).await;
    }
    static MARK: Sql = Sql::new(
        "INSERT INTO seen (hash, owner, until, crawled, marked_at)
         SELECT r.hash, r.owner, r.until, 1, $2 FROM {rows hash key, owner text, until int} r WHERE true
         ON CONFLICT (hash) DO UPDATE SET owner = excluded.owner, until = excluded.until, crawled = 1,
             marked_at = excluded.marked_at",
    );
    let mut rows = Rows::new();
    for (key, seen) in last {
        rows.row().key(*key).text(&seen.owner).int(after(now, seen.ttl));
    }
    tx.run(&MARK, vec![Arg::Rows(rows), Arg::Int(now)]).await.map(drop)
}

/// Locks rows in the order of their hashes, as all transactions do, against deadlocks.
async fn lock(tx: &mut Tx, urls: impl Iterator<Item = &String>) -> Result<(), Fault> {
    static LOCK: Sql = Sql::new(
        "SELECT 1 FROM seen s WHERE s.hash IN (SELECT r.hash FROM {rows hash key} r) ORDER BY s.hash {for update}",
    );
    if tx.is_shared() {
        tx.run(&LOCK, vec![Arg::Rows(Rows::of_keys(urls.map(|url| Key::of(url))))]).await?;
    }
    Ok(())
}
