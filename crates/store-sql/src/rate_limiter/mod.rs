//! The rate limiter on PostgreSQL: states of groups, swapped by one statement, on the server's clock.
//!
//! The tables are unlogged (`schema/0017.sql`): a crash empties them, and every group then waits its minimum delay first.

mod previous;

pub(crate) use previous::refuse_previous;

use crate::{
    connection::{Arg, Row},
    fault::Fault,
    rows::Rows,
    store::SqlStore,
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::{
    RateLimitPolicy, RateLimiterError, StoreError, Ticket, Timestamp,
    rate_limiter::shared::{Exchange, Exchanged, GroupStore, Loaded, SharedRateLimiter},
};
use std::collections::HashMap;

/// The time: that of a manual clock, or the server's.
macro_rules! clock {
    () => {
        "coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
    };
}

/// Locks the groups in the order of their names, so that no two calls wait for each other, and swaps those that are unchanged. A
/// group without a row is inserted, unless another process has just inserted it. Answers a row for each group, with its state
/// unless it was swapped, and one more for each place.
const EXCHANGE: &str = concat!(
    "WITH given AS MATERIALIZED (
       SELECT value ->> 0 AS name, (value ->> 1)::bigint AS expected, (value ->> 2)::bigint AS since,
              (value ->> 3)::bigint AS decided, (value ->> 4)::bigint AS max_age, (value ->> 5)::bigint AS version,
              decode(value ->> 6, 'hex') AS state, (value ->> 7)::bigint AS expires
       FROM jsonb_array_elements($2::text::jsonb)
     ), asked AS MATERIALIZED (
       SELECT a.*, p.place AS current FROM (
         SELECT value ->> 0 AS name, (value ->> 1)::uuid AS ticket, (value ->> 2)::bigint AS expected,
                (value ->> 3)::bigint AS place
         FROM jsonb_array_elements($3::text::jsonb)
       ) a LEFT JOIN rate_limiter_places p ON p.name = a.name AND p.ticket = a.ticket
     ), held AS MATERIALIZED (
       SELECT g.name, g.version, g.state FROM rate_limiter_groups g WHERE g.name IN (SELECT name FROM given)
       ORDER BY g.name FOR UPDATE
     ), fit AS MATERIALIZED (
       SELECT n.* FROM given n LEFT JOIN held h ON h.name = n.name
       WHERE coalesce(h.version, 0) = n.expected AND n.since = (SELECT born FROM rate_limiter_epoch) AND ",
    clock!(),
    " - n.decided BETWEEN 0 AND n.max_age
         AND NOT EXISTS (SELECT 1 FROM asked a WHERE a.name = n.name AND a.current IS DISTINCT FROM a.expected)
     ), removed AS (
       DELETE FROM rate_limiter_groups g USING fit f WHERE g.name = f.name AND f.expires <= f.decided
     ), written AS (
       INSERT INTO rate_limiter_groups AS g (name, version, written, expires, state)
       SELECT name, version, decided, expires, state FROM fit WHERE expires > decided ORDER BY name
       ON CONFLICT (name) DO UPDATE
       SET version = excluded.version, written = excluded.written, expires = excluded.expires, state = excluded.state
       WHERE EXISTS (SELECT 1 FROM held h WHERE h.name = g.name)
       RETURNING g.name
     ), swapped AS MATERIALIZED (
       SELECT * FROM fit WHERE expires <= decided OR name IN (SELECT name FROM written)
     ), moved AS MATERIALIZED (
       SELECT s.name, s.decided, s.expires, a.ticket, a.place FROM asked a JOIN swapped s ON s.name = a.name
       WHERE a.place IS DISTINCT FROM a.expected OR a.place IS NOT NULL
     ), gone AS (
       DELETE FROM rate_limiter_places p USING moved m WHERE p.name = m.name AND p.ticket = m.ticket AND m.place IS NULL
     ), placed AS (
       INSERT INTO rate_limiter_places AS p (name, ticket, place, written, expires)
       SELECT name, ticket, place, decided, expires FROM moved WHERE place IS NOT NULL
       ON CONFLICT (name, ticket) DO UPDATE
       SET place = excluded.place, written = excluded.written, expires = excluded.expires
     )
     SELECT n.name, NULL, ",
    clock!(),
    ", (SELECT born FROM rate_limiter_epoch), CASE WHEN s.name IS NULL THEN coalesce(h.version, 0) END, h.state, NULL
     FROM given n LEFT JOIN held h ON h.name = n.name LEFT JOIN swapped s ON s.name = n.name
     UNION ALL
     SELECT a.name, a.ticket::text, NULL, NULL, NULL, NULL, a.current FROM asked a WHERE a.current IS NOT NULL"
);

/// The epoch begins with the first call, and again when the clock was set back before it.
const BEGIN: &str = concat!(
    "INSERT INTO rate_limiter_epoch AS e (one, born) SELECT 1, ",
    clock!(),
    " ON CONFLICT (one) DO UPDATE SET born = least(e.born, excluded.born) RETURNING born"
);

/// Rows written later than now, before the clock was set back, keep their remaining time.
const SET_BACK: [&str; 2] = [
    concat!(
        "UPDATE rate_limiter_groups SET expires = expires - written + now, written = now FROM (SELECT ",
        clock!(),
        " AS now) c WHERE written > now + 1000"
    ),
    concat!(
        "UPDATE rate_limiter_places SET expires = expires - written + now, written = now FROM (SELECT ",
        clock!(),
        " AS now) c WHERE written > now + 1000"
    ),
];

const REMOVE: [&str; 2] = [
    concat!("DELETE FROM rate_limiter_places WHERE expires <= ", clock!()),
    concat!("DELETE FROM rate_limiter_groups WHERE expires <= ", clock!()),
];

const COUNT: &str = "SELECT count(*) FROM rate_limiter_groups WHERE $1::bigint IS NULL OR true";

/// The rate limiter in a PostgreSQL database, shared by all processes. [`SqlStore::rate_limiter`] opens it; clones share its state.
pub type SqlRateLimiter = SharedRateLimiter<SqlGroups>;

/// States of groups in a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct SqlGroups {
    store: SqlStore,
}

impl SqlStore {
    /// The rate limiter in this database, over the same connections. PostgreSQL only. All processes share it and should use
    /// the same policy.
    pub async fn rate_limiter(&self, policy: RateLimitPolicy) -> Result<SqlRateLimiter, RateLimiterError> {
        policy.check()?;
        if !self.is_shared() {
            let detail = "SQLite has no rate limiter; use the embedded one beside it, or PostgreSQL for both"
                .to_owned();
            return Err(RateLimiterError::Unavailable { detail });
        }
        let groups = SqlGroups { store: self.clone() };
        groups.begin().await?;
        let rows = groups.run(previous::FAILURES, Vec::new).await?;
        let failures: Result<Vec<_>, Fault> = rows.iter().map(previous::failures).collect();
        let limiter = SharedRateLimiter::open(groups.clone(), policy).await?;
        limiter.restore_failures(failures.map_err(refused)?.into_iter().flatten().collect()).await?;
        groups.run(previous::FORGET, Vec::new).await?;
        Ok(limiter)
    }
}

impl SqlGroups {
    async fn ask<'a>(
        &self,
        text: &'static str,
        more: impl Fn() -> Vec<Arg<'a>>,
    ) -> Result<Vec<Row>, RateLimiterError> {
        let now = self.store.0.time.manual_now();
        self.run(text, || std::iter::once(Arg::OptInt(now)).chain(more()).collect()).await
    }

    async fn run<'a>(
        &self,
        text: &'static str,
        args: impl Fn() -> Vec<Arg<'a>>,
    ) -> Result<Vec<Row>, RateLimiterError> {
        let rows = self.store.run_autocommit(text, args).await;
        rows.map_err(|fault| unavailable(self.store.store_error(fault)))
    }

    /// Begins an epoch if there is none, and returns when it began.
    async fn begin(&self) -> Result<i64, RateLimiterError> {
        let rows = self.ask(BEGIN, Vec::new).await?;
        rows.first().map(|row| row.int(0)).transpose().map_err(refused)?.ok_or_else(unclear)
    }
}

#[async_trait::async_trait]
impl GroupStore for SqlGroups {
    async fn exchange(&self, exchanges: &[Exchange]) -> Result<Vec<Exchanged>, RateLimiterError> {
        let args = || {
            let (mut groups, mut places) = (Rows::new(), Rows::new());
            for exchange in exchanges {
                write_rows(exchange, &mut groups, &mut places);
            }
            vec![Arg::Rows(groups), Arg::Rows(places)]
        };
        let rows = self.ask(EXCHANGE, args).await?;
        let (mut groups, mut places) = (HashMap::new(), HashMap::new());
        for row in &rows {
            read_row(row, &mut groups, &mut places).map_err(refused)?;
        }
        // The first call after a crash of the server begins an epoch.
        let since = match groups.values().next() {
            Some(GroupRow { since: Some(since), now, .. }) if since <= now => *since,
            _ => self.begin().await?,
        };
        let mut exchanged = |Exchange { group, tickets, .. }: &Exchange| {
            let GroupRow { now, version, state, .. } = groups.remove(group.as_str())?;
            let Some(version) = version else { return Some(Exchanged::Swapped { now: timestamp(now) }) };
            let place = |ticket: &Ticket| places.get(&(group.to_string(), hex(*ticket))).copied();
            Some(Exchanged::Loaded(Loaded {
                now: timestamp(now),
                since: timestamp(since),
                version: version.cast_unsigned(),
                state,
                places: tickets.iter().map(place).collect(),
            }))
        };
        exchanges.iter().map(&mut exchanged).collect::<Option<_>>().ok_or_else(unclear)
    }

    fn test_now(&self) -> Option<Timestamp> {
        self.store.0.time.manual_now().map(timestamp)
    }

    async fn count(&self) -> Result<u64, RateLimiterError> {
        self.begin().await?;
        for statement in SET_BACK.into_iter().chain(REMOVE) {
            self.ask(statement, Vec::new).await?;
        }
        let rows = self.ask(COUNT, Vec::new).await?;
        rows.first().map(|row| row.count(0)).transpose().map_err(refused)?.ok_or_else(unclear)
    }
}

/// Answer for one group.
struct GroupRow {
    now: i64,
    since: Option<i64>,
    /// `None` if the state was swapped.
    version: Option<i64>,
    state: Vec<u8>,
}

fn read_row(
    row: &Row,
    groups: &mut HashMap<String, GroupRow>,
    places: &mut HashMap<(String, String), u64>,
) -> Result<(), Fault> {
    let name = row.text(0)?;
    if let Some(ticket) = row.opt_text(1)? {
        places.insert((name, ticket.replace('-', "")), row.count(6)?);
    } else {
        let version = row.opt_int(4)?;
        let state = if version.is_some_and(|version| version != 0) { row.bytes(5)? } else { vec![] };
        groups.insert(name, GroupRow { now: row.int(2)?, since: row.opt_int(3)?, version, state });
    }
    Ok(())
}

fn write_rows(Exchange { group, tickets, swap }: &Exchange, groups: &mut Rows, places: &mut Rows) {
    let row = groups.row().text(group.as_str());
    if let Some(swap) = swap {
        let state: String = swap.state.iter().map(|octet| format!("{octet:02x}")).collect();
        row.int(swap.expected.cast_signed())
            .int(millis(swap.since))
            .int(millis(swap.decided))
            .int(i64::try_from(swap.max_age.as_millis()).unwrap_or(i64::MAX))
            .int(swap.version.cast_signed())
            .text(&state)
            .int(millis(swap.expires));
    }
    let no_places = std::iter::repeat((None, None));
    let swapped = swap.iter().flat_map(|swap| swap.places.iter().copied()).chain(no_places);
    for (ticket, (expected, new)) in tickets.iter().zip(swapped) {
        places.row().text(group.as_str()).text(&hex(*ticket));
        places.opt_int(expected.map(saturating_i64)).opt_int(new.map(saturating_i64));
    }
}

fn hex(ticket: Ticket) -> String {
    format!("{:032x}", ticket.as_u128())
}

fn refused(fault: Fault) -> RateLimiterError {
    unavailable(fault.into())
}

fn unavailable(error: StoreError) -> RateLimiterError {
    RateLimiterError::Unavailable { detail: error.to_string() }
}

fn unclear() -> RateLimiterError {
    RateLimiterError::Unavailable { detail: "unexpected answer from PostgreSQL".to_owned() }
}
