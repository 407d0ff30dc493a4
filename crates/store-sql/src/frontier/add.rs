//! Adding URLs to a crawl.

use super::{
    counts::{CountChanges, StateChange},
    crawls, hosts,
    hosts::HostChanges,
};
use crate::{
    connection::{Arg, Durability, Tx},
    dialect::Sql,
    fault::Fault,
    key::Key,
    keys::Kind,
    rows::{Rows, storable},
    store::{SqlStore, transact},
};
use crawlway_store::{
    FrontierPolicy, StoreError,
    frontier::{AddOutcome, CrawlId, NewUrl, TOO_MANY_PENDING, UrlBudget},
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(super) async fn add(
    store: &SqlStore,
    id: &CrawlId,
    urls: &[NewUrl],
) -> Result<Vec<AddOutcome>, StoreError> {
    let crawl = crawls::number(store, id).await?;
    let keys: Vec<Key> = urls.iter().map(|url| Key::of(&url.url)).collect();
    let unsure: BTreeSet<Key> =
        keys.iter().filter(|key| !store.0.known_urls.contains(crawl, **key)).copied().collect();
    if unsure.is_empty() {
        return Ok(vec![AddOutcome::Duplicate; urls.len()]);
    }
    let now = store.0.time.now();
    // A lost link is found again, since its page is not settled yet. A lost seed is not.
    let seeds = urls.iter().any(|url| url.found_on.is_none());
    let durability = if seeds { Durability::PowerLoss } else { Durability::ProcessCrash };
    let policy = store.0.policy;
    let added = transact!(durability, store, tx, add_new(tx, policy, crawl, urls, &keys, &unsure, now))?;
    for (key, added) in keys.iter().zip(&added) {
        if *added != AddOutcome::OverBudget {
            store.0.known_urls.insert(crawl, *key);
        }
    }
    Ok(added)
}

async fn known_of(tx: &mut Tx, crawl: i64, keys: &BTreeSet<Key>) -> Result<Vec<Key>, Fault> {
    static KNOWN: Sql = Sql::pair(
        "SELECT r.hash FROM {rows hash key} r
         WHERE EXISTS (SELECT 1 FROM new_keys n WHERE n.hash = r.hash AND n.kind = 0 AND n.part = $2)
            OR EXISTS (SELECT 1 FROM keys k WHERE k.hash = r.hash AND k.kind = 0 AND k.part = $2)",
        "SELECT e.hash FROM {rows hash key} r CROSS JOIN entries e WHERE e.hash = r.hash AND e.crawl = $2",
    );
    let rows = Rows::of_keys(keys.iter().filter(|key| tx.may_contain(Kind::Entry, **key)).copied());
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let rows = tx.run(&KNOWN, vec![Arg::Rows(rows), Arg::Int(crawl)]).await?;
    rows.iter().map(|row| row.key(0)).collect()
}

async fn add_new(
    tx: &mut Tx,
    policy: FrontierPolicy,
    crawl: i64,
    urls: &[NewUrl],
    keys: &[Key],
    unsure: &BTreeSet<Key>,
    now: i64,
) -> Result<Vec<AddOutcome>, Fault> {
    let mut known: HashSet<Key> = keys.iter().filter(|key| !unsure.contains(key)).copied().collect();
    known.extend(known_of(tx, crawl, unsure).await?);
    let fresh: Vec<&NewUrl> =
        urls.iter().zip(keys).filter(|(_, key)| !known.contains(key)).map(|(url, _)| url).collect();
    let mut budgets = used(tx, crawl, fresh.iter().filter_map(|url| url.budget.as_ref())).await?;
    let mut capacity = Capacity::find(tx, policy, crawl, &fresh).await?;
    let mut crawl_counts = CountChanges::default();
    let mut new = Vec::new();
    let mut answers = Vec::with_capacity(urls.len());
    for (place, (url, key)) in urls.iter().zip(keys).enumerate() {
        if known.contains(key) {
            answers.push(AddOutcome::Duplicate);
            continue;
        }
        let mut charged = url.budget.as_ref().map(|budget| {
            let used = budgets.entry(Key::of(&budget.kind)).or_default();
            (budget, used)
        });
        let spent =
            charged.as_ref().filter(|(budget, used)| u64::try_from(**used).unwrap_or(0) >= budget.max);
        let too_many = match spent {
            Some((budget, _)) => Some(budget.reason.as_str()),
            None => (!capacity.take(url)).then_some(TOO_MANY_PENDING),
        };
        if let Some(reason) = too_many {
            crawl_counts.left_out(crawl, reason);
            answers.push(AddOutcome::OverBudget);
            continue;
        }
        if let Some((_, used)) = &mut charged {
            **used += 1;
        }
        known.insert(*key);
        new.push((place, url, *key));
        answers.push(AddOutcome::New);
    }
    if !new.is_empty() {
        let names = new.iter().map(|(_, url, _)| url.host.as_str()).collect();
        hosts::insert_missing(tx, crawl, &names, &mut capacity.hosts).await?;
        let mut rows = Vec::with_capacity(new.len());
        for ((_, url, key), num) in new.iter().zip(allocate(tx, new.len()).await?) {
            let name = storable(&url.host);
            let missing = || Fault::Conflict(format!("host `{name}` is not committed yet"));
            let host = capacity.hosts.get(name.as_ref()).ok_or_else(missing)?.num;
            rows.push((*key, num, host, *url));
        }
        let inserted = insert(tx, crawl, &mut rows, now).await?;
        if inserted.len() < new.len() {
            // Another worker has added some of them.
            if answers.contains(&AddOutcome::OverBudget) {
                // The budget may suffice then: retry, with those URLs known.
                return Err(Fault::Conflict("another worker added the same URL".to_owned()));
            }
            new.retain(|(place, _, key)| {
                let is_new = inserted.contains(key);
                if !is_new {
                    answers[*place] = AddOutcome::Duplicate;
                }
                is_new
            });
            rows.retain(|(key, ..)| inserted.contains(key));
        }
        let mut charged: BTreeMap<Key, i64> = BTreeMap::new();
        for budget in new.iter().filter_map(|(_, url, _)| url.budget.as_ref()) {
            *charged.entry(Key::of(&budget.kind)).or_default() += 1;
        }
        charge(tx, crawl, &charged).await?;
        tx.rows_added(new.len()).await?;
        let mut changes = HostChanges::default();
        for (_, _, host, _) in &rows {
            changes.pending(*host, 1);
        }
        hosts::lock(tx, changes.hosts()).await?;
        changes.make(tx).await?;
        crawl_counts.of(crawl).pending += i64::try_from(new.len()).unwrap_or(i64::MAX);
    }
    crawl_counts.make(tx, StateChange::Resume, now).await?;
    Ok(answers)
}

/// Room for more pending URLs.
struct Capacity<'u> {
    /// Room left in the crawl.
    left: u64,
    /// Existing hosts by name.
    hosts: HashMap<String, hosts::HostRow>,
    /// URLs added for each host.
    added: HashMap<&'u str, u64>,
    max_per_host: u64,
}

impl<'u> Capacity<'u> {
    async fn find(
        tx: &mut Tx,
        policy: FrontierPolicy,
        crawl: i64,
        fresh: &[&'u NewUrl],
    ) -> Result<Self, Fault> {
        static WAITING: Sql = Sql::new("SELECT waiting, max_pages FROM crawls WHERE num = $1");
        let max_per_host = policy.max_pending_per_host;
        let mut capacity = Self { left: 0, hosts: HashMap::new(), added: HashMap::new(), max_per_host };
        if fresh.is_empty() {
            return Ok(capacity);
        }
        if let Some(row) = tx.run(&WAITING, vec![Arg::Int(crawl)]).await?.first() {
            let max_pages = row.opt_int(1)?.map(|max| u64::try_from(max).unwrap_or(0));
            capacity.left = policy.max_pending_of_crawl(max_pages).saturating_sub(row.count(0)?);
        }
        let names = fresh.iter().map(|url| url.host.as_str()).collect();
        capacity.hosts = hosts::existing(tx, crawl, &names).await?;
        Ok(capacity)
    }

    /// Takes room for a URL; false if there is none.
    fn take(&mut self, url: &'u NewUrl) -> bool {
        let host = storable(&url.host);
        let pending =
            self.hosts.get(host.as_ref()).map_or(0, |host| u64::try_from(host.pending).unwrap_or(0));
        let added = self.added.get(url.host.as_str()).copied().unwrap_or(0);
        let is_full = self.left == 0 || pending.saturating_add(added) >= self.max_per_host;
        if is_full && !url.ignore_limit {
            return false;
        }
        self.left = self.left.saturating_sub(1);
        *self.added.entry(&url.host).or_default() += 1;
        true
    }
}

/// Reads and locks the used part of the budgets.
async fn used(
    tx: &mut Tx,
    crawl: i64,
    budgets: impl Iterator<Item = &UrlBudget>,
) -> Result<BTreeMap<Key, i64>, Fault> {
    static USED: Sql = Sql::new(
        "INSERT INTO budgets (crawl, kind, used) SELECT $2, r.kind, 0 FROM {rows kind key} r WHERE true
         ON CONFLICT (crawl, kind) DO UPDATE SET used = budgets.used RETURNING kind, used",
    );
    let kinds: BTreeSet<Key> = budgets.map(|budget| Key::of(&budget.kind)).collect();
    if kinds.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = tx.run(&USED, vec![Arg::Rows(Rows::of_keys(kinds)), Arg::Int(crawl)]).await?;
    rows.iter().map(|row| Ok((row.key(0)?, row.int(1)?))).collect()
}

async fn charge(tx: &mut Tx, crawl: i64, charged: &BTreeMap<Key, i64>) -> Result<(), Fault> {
    static CHARGE: Sql = Sql::new(
        "INSERT INTO budgets (crawl, kind, used)
         SELECT $2, r.kind, r.many FROM {rows kind key, many int} r WHERE true
         ON CONFLICT (crawl, kind) DO UPDATE SET used = budgets.used + excluded.used",
    );
    if charged.is_empty() {
        return Ok(());
    }
    let mut rows = Rows::new();
    for (kind, many) in charged {
        rows.row().key(*kind).int(*many);
    }
    tx.run(&CHARGE, vec![Arg::Rows(rows), Arg::Int(crawl)]).await?;
    Ok(())
}

/// Ascending row numbers for new URLs, so that these keep their order however they are inserted.
async fn allocate(tx: &mut Tx, count: usize) -> Result<Vec<i64>, Fault> {
    static ALLOCATE: Sql = Sql::pair(
        "SELECT coalesce(max(num), 0) + 1 FROM entries WHERE $1 = $1",
        "SELECT nextval('entries_num_seq') FROM generate_series(1, $1)",
    );
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let rows = tx.run(&ALLOCATE, vec![Arg::Int(count)]).await?;
    if tx.is_shared() {
        let mut numbers = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, Fault>>()?;
        numbers.sort_unstable();
        return Ok(numbers);
    }
    let first = rows.first().map_or(Ok(1), |row| row.int(0))?;
    Ok((first..first.saturating_add(count)).collect())
}

/// Inserts URLs in the order of their keys, against deadlocks. Answers which of them were new.
async fn insert(
    tx: &mut Tx,
    crawl: i64,
    new: &mut [(Key, i64, i64, &NewUrl)],
    now: i64,
) -> Result<HashSet<Key>, Fault> {
    // On SQLite there is one writer, so none can have been added since the look-up.
    static INSERT: Sql = Sql::new(
        "INSERT INTO entries (num, crawl, host, hash, added_at, due, taking, state, attempts, depth, chain, insist,
                              fetched, item, url, found_on)
         SELECT r.num, $2, r.host, r.hash, $3, $3, 0, 0, 0, r.depth, r.chain, r.insist, 0, r.item, r.url, r.found_on
         FROM {rows hash key, num int, host int, depth int, chain int, insist int, item text, url text, \
         found_on text} r WHERE true
         {returning new}",
    );
    if tx.is_shared() {
        new.sort_unstable_by_key(|(key, ..)| *key);
    }
    let mut rows = Rows::new();
    for (key, num, host, url) in new.iter() {
        rows.row()
            .key(*key)
            .int(*num)
            .int(*host)
            .int(small(url.depth))
            .int(small(url.chain))
            .int(i64::from(url.ignore_canonical))
            .text(&url.item)
            .text(&url.url)
            .opt_text(url.found_on.as_deref());
    }
    tx.note_inserted(Kind::Entry, new.iter().map(|(key, ..)| *key));
    let inserted = tx.run(&INSERT, vec![Arg::Rows(rows), Arg::Int(crawl), Arg::Int(now)]).await?;
    if !tx.is_shared() {
        return Ok(new.iter().map(|(key, ..)| *key).collect());
    }
    inserted.iter().map(|row| row.key(0)).collect()
}

/// Clamped to the range of the column.
fn small(number: u32) -> i64 {
    i64::from(number.min(i32::MAX as u32))
}
