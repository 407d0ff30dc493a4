//! Adding URLs to a crawl.

use super::{
    crawls, hosts,
    hosts::HostChanges,
    tally::{Tally, Turn},
};
use crate::{
    dialect::Sql,
    fault::Fault,
    key::Key,
    keys::Kind,
    link::{Arg, Lasts, Tx},
    rows::{Rows, storable},
    store::{SqlStore, transact},
};
use crawlway_store::{
    FrontierPolicy, StoreError,
    frontier::{Added, Budget, CrawlId, NewUrl, TOO_MANY_WAITING},
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub(super) async fn add(store: &SqlStore, id: &CrawlId, urls: &[NewUrl]) -> Result<Vec<Added>, StoreError> {
    let crawl = crawls::number(store, id).await?;
    let keys: Vec<Key> = urls.iter().map(|url| Key::of(&url.url)).collect();
    let unsure: BTreeSet<Key> = keys.iter().filter(|key| !store.0.known.has(crawl, **key)).copied().collect();
    if unsure.is_empty() {
        return Ok(vec![Added::Known; urls.len()]);
    }
    let now = store.0.time.now();
    // A link is found again, on its page, which is not done yet. A seed is somebody's word.
    let seeds = urls.iter().any(|url| url.found_on.is_none());
    let lasts = if seeds { Lasts::PowerCut } else { Lasts::Process };
    let policy = store.0.policy;
    let added = transact!(lasts, store, tx, add_new(tx, policy, crawl, urls, &keys, &unsure, now))?;
    for (key, added) in keys.iter().zip(&added) {
        if *added != Added::OverBudget {
            store.0.known.note(crawl, *key);
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
    let mut rows = Rows::new();
    for key in keys.iter().filter(|key| tx.may_have(Kind::Entry, **key)) {
        rows.row().key(*key);
    }
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
) -> Result<Vec<Added>, Fault> {
    let mut known: HashSet<Key> = keys.iter().filter(|key| !unsure.contains(key)).copied().collect();
    known.extend(known_of(tx, crawl, unsure).await?);
    let fresh: Vec<&NewUrl> =
        urls.iter().zip(keys).filter(|(_, key)| !known.contains(key)).map(|(url, _)| url).collect();
    let mut budgets = used(tx, crawl, fresh.iter().filter_map(|url| url.budget.as_ref())).await?;
    let mut room = Room::find(tx, policy, crawl, &fresh).await?;
    let mut tally = Tally::default();
    let mut new = Vec::new();
    let mut answers = Vec::with_capacity(urls.len());
    for (place, (url, key)) in urls.iter().zip(keys).enumerate() {
        if known.contains(key) {
            answers.push(Added::Known);
            continue;
        }
        let mut charged = url.budget.as_ref().map(|budget| {
            let used = budgets.entry(Key::of(&budget.kind)).or_default();
            (budget, used)
        });
        let spent =
            charged.as_ref().filter(|(budget, used)| u64::try_from(**used).unwrap_or(0) >= budget.most);
        let too_many = match spent {
            Some((budget, _)) => Some(budget.reason.as_str()),
            None => (!room.take(url)).then_some(TOO_MANY_WAITING),
        };
        if let Some(reason) = too_many {
            tally.left_out(crawl, reason);
            answers.push(Added::OverBudget);
            continue;
        }
        if let Some((_, used)) = &mut charged {
            **used += 1;
        }
        known.insert(*key);
        new.push((place, url, *key));
        answers.push(Added::New);
    }
    if !new.is_empty() {
        let names = new.iter().map(|(_, url, _)| url.host.as_str()).collect();
        hosts::make_missing(tx, crawl, &names, &mut room.hosts).await?;
        let mut rows = Vec::with_capacity(new.len());
        for ((_, url, key), num) in new.iter().zip(allocate(tx, new.len()).await?) {
            let name = storable(&url.host);
            let missing = || Fault::InTheWay(format!("host `{name}` is not there yet"));
            let host = room.hosts.get(name.as_ref()).ok_or_else(missing)?.num;
            rows.push((*key, num, host, *url));
        }
        let inserted = insert(tx, crawl, &mut rows, now).await?;
        if inserted.len() < new.len() {
            // Somebody else has added some meanwhile.
            if answers.contains(&Added::OverBudget) {
                // The budget may have room after all. All is undone, and the next time those are known.
                return Err(Fault::InTheWay("somebody added the same URL".to_owned()));
            }
            new.retain(|(place, _, key)| {
                let is_new = inserted.contains(key);
                if !is_new {
                    answers[*place] = Added::Known;
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
        tx.added(new.len()).await?;
        let mut changes = HostChanges::default();
        for (_, _, host, _) in &rows {
            changes.waiting(*host, 1);
        }
        hosts::lock(tx, changes.hosts()).await?;
        changes.make(tx).await?;
        tally.of(crawl).waiting += i64::try_from(new.len()).unwrap_or(i64::MAX);
    }
    tally.make(tx, Turn::Resume, now).await?;
    Ok(answers)
}

/// How many more may wait.
struct Room<'u> {
    /// Of the crawl.
    left: u64,
    /// The hosts that there are, by name.
    hosts: HashMap<String, hosts::Known>,
    /// How many are added of each host.
    added: HashMap<&'u str, u64>,
    most_of_host: u64,
}

impl<'u> Room<'u> {
    async fn find(
        tx: &mut Tx,
        policy: FrontierPolicy,
        crawl: i64,
        fresh: &[&'u NewUrl],
    ) -> Result<Self, Fault> {
        static WAITING: Sql = Sql::new("SELECT waiting, max_pages FROM crawls WHERE num = $1");
        let mut room = Self {
            left: 0,
            hosts: HashMap::new(),
            added: HashMap::new(),
            most_of_host: policy.most_waiting_of_host,
        };
        if fresh.is_empty() {
            return Ok(room);
        }
        if let Some(row) = tx.run(&WAITING, vec![Arg::Int(crawl)]).await?.first() {
            let max_pages = row.opt_int(1)?.map(|most| u64::try_from(most).unwrap_or(0));
            room.left = policy.most_waiting(max_pages).saturating_sub(row.count(0)?);
        }
        let names = fresh.iter().map(|url| url.host.as_str()).collect();
        room.hosts = hosts::known(tx, crawl, &names).await?;
        Ok(room)
    }

    /// Whether there is room for a URL, which then has it.
    fn take(&mut self, url: &'u NewUrl) -> bool {
        let host = storable(&url.host);
        let waiting =
            self.hosts.get(host.as_ref()).map_or(0, |host| u64::try_from(host.waiting).unwrap_or(0));
        let added = self.added.get(url.host.as_str()).copied().unwrap_or(0);
        let is_full = self.left == 0 || waiting.saturating_add(added) >= self.most_of_host;
        if is_full && !url.in_any_case {
            return false;
        }
        self.left = self.left.saturating_sub(1);
        *self.added.entry(&url.host).or_default() += 1;
        true
    }
}

/// How much of the budgets is used, and nobody else changes it until the end of the transaction.
async fn used(
    tx: &mut Tx,
    crawl: i64,
    budgets: impl Iterator<Item = &Budget>,
) -> Result<BTreeMap<Key, i64>, Fault> {
    static USED: Sql = Sql::new(
        "INSERT INTO budgets (crawl, kind, used) SELECT $2, r.kind, 0 FROM {rows kind key} r WHERE true
         ON CONFLICT (crawl, kind) DO UPDATE SET used = budgets.used RETURNING kind, used",
    );
    let kinds: BTreeSet<Key> = budgets.map(|budget| Key::of(&budget.kind)).collect();
    if kinds.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut rows = Rows::new();
    for kind in kinds {
        rows.row().key(kind);
    }
    let rows = tx.run(&USED, vec![Arg::Rows(rows), Arg::Int(crawl)]).await?;
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

/// Numbers for so many new URLs, ascending, so that they are in order however they are inserted.
async fn allocate(tx: &mut Tx, many: usize) -> Result<Vec<i64>, Fault> {
    static ALLOCATE: Sql = Sql::pair(
        "SELECT coalesce(max(num), 0) + 1 FROM entries WHERE $1 = $1",
        "SELECT nextval('entries_num_seq') FROM generate_series(1, $1)",
    );
    let many = i64::try_from(many).unwrap_or(i64::MAX);
    let rows = tx.run(&ALLOCATE, vec![Arg::Int(many)]).await?;
    if tx.is_shared() {
        let mut numbers = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, Fault>>()?;
        numbers.sort_unstable();
        return Ok(numbers);
    }
    let first = rows.first().map_or(Ok(1), |row| row.int(0))?;
    Ok((first..first.saturating_add(many)).collect())
}

/// Inserts in the order of the keys, so that no two who insert the same wait for each other. Says which of them were
/// new.
async fn insert(
    tx: &mut Tx,
    crawl: i64,
    new: &mut [(Key, i64, i64, &NewUrl)],
    now: i64,
) -> Result<HashSet<Key>, Fault> {
    // On SQLite nobody else can have added them since they were looked for.
    static INSERT: Sql = Sql::new(
        "INSERT INTO entries (num, crawl, host, hash, added_at, due, taking, state, attempts, depth, chain, insist,
                              fetched, item, url, found_on)
         SELECT r.num, $2, r.host, r.hash, $3, $3, 0, 0, 0, r.depth, r.chain, r.insist, 0, r.item, r.url, r.found_on
         FROM {rows hash key, num int, host int, depth int, chain int, insist int, item text, url text, \
         found_on text} r WHERE true
         {told new}",
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
            .int(i64::from(url.insist))
            .text(&url.item)
            .text(&url.url)
            .opt_text(url.found_on.as_deref());
    }
    tx.inserts(Kind::Entry, new.iter().map(|(key, ..)| *key));
    let inserted = tx.run(&INSERT, vec![Arg::Rows(rows), Arg::Int(crawl), Arg::Int(now)]).await?;
    if !tx.is_shared() {
        return Ok(new.iter().map(|(key, ..)| *key).collect());
    }
    inserted.iter().map(|row| row.key(0)).collect()
}

/// As the column holds it; nobody follows two thousand million links in a row.
fn small(number: u32) -> i64 {
    i64::from(number.min(i32::MAX as u32))
}
