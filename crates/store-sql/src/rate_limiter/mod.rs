//! The rate limiter on PostgreSQL: states of groups, loaded and swapped by one statement each, on the server's clock.
//!
//! The tables are unlogged (`schema/0017.sql`): a crash empties them, and every group then waits its minimum delay first.

mod previous;

pub(crate) use previous::refuse_previous;

use crate::{
    fault::Fault,
    link::{Arg, Row},
    rows::Rows,
    store::SqlStore,
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::{
    Group, RateLimitPolicy, RateLimiterError, StoreError, Ticket,
    rate_limiter::shared::{GroupStore, Load, Loaded, MAX_AGE, SharedRateLimiter, Swap},
};
use std::collections::HashMap;

/// The time: that of a manual clock, or the server's.
macro_rules! clock {
    () => {
        "coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
    };
}

/// States and places. A row for each group, and one more for each place.
const LOAD: &str = concat!(
    "WITH asked AS (SELECT value ->> 0 AS name, (value ->> 1)::uuid AS ticket FROM jsonb_array_elements($2::text::jsonb))
     SELECT a.name, NULL, ",
    clock!(),
    ", (SELECT born FROM rate_limiter_epoch), g.version, g.state, NULL
     FROM asked a LEFT JOIN rate_limiter_groups g ON g.name = a.name WHERE a.ticket IS NULL
     UNION ALL
     SELECT p.name, p.ticket::text, NULL, NULL, NULL, NULL, p.place
     FROM asked a JOIN rate_limiter_places p ON p.name = a.name AND p.ticket = a.ticket"
);

/// Locks the groups in the order of their names, so that no two swaps wait for each other, and swaps those that are unchanged. A
/// group without a row is inserted, unless another process has just inserted it.
const SWAP: &str = concat!(
    "WITH given AS MATERIALIZED (
       SELECT value ->> 0 AS name, (value ->> 1)::bigint AS expected, (value ->> 2)::bigint AS loaded,
              (value ->> 3)::bigint AS version, decode(value ->> 4, 'hex') AS state, (value ->> 5)::bigint AS expires
       FROM jsonb_array_elements($2::text::jsonb)
     ), held AS MATERIALIZED (
       SELECT g.name, g.version FROM rate_limiter_groups g WHERE g.name IN (SELECT name FROM given) ORDER BY g.name FOR UPDATE
     ), fit AS MATERIALIZED (
       SELECT n.* FROM given n LEFT JOIN held h ON h.name = n.name
       WHERE coalesce(h.version, 0) = n.expected AND ",
    clock!(),
    " - n.loaded <= $4
     ), swapped AS (
       INSERT INTO rate_limiter_groups AS g (name, version, written, expires, state)
       SELECT name, version, loaded, expires, state FROM fit ORDER BY name
       ON CONFLICT (name) DO UPDATE
       SET version = excluded.version, written = excluded.written, expires = excluded.expires, state = excluded.state
       WHERE EXISTS (SELECT 1 FROM held h WHERE h.name = g.name)
       RETURNING g.name, g.written, g.expires
     ), moved AS MATERIALIZED (
       SELECT s.*, p.ticket, p.place FROM (
         SELECT value ->> 0 AS name, (value ->> 1)::uuid AS ticket, (value ->> 2)::bigint AS place
         FROM jsonb_array_elements($3::text::jsonb)
       ) p JOIN swapped s ON s.name = p.name
     ), gone AS (
       DELETE FROM rate_limiter_places p USING moved m WHERE p.name = m.name AND p.ticket = m.ticket AND m.place IS NULL
     ), placed AS (
       INSERT INTO rate_limiter_places AS p (name, ticket, place, written, expires)
       SELECT name, ticket, place, written, expires FROM moved WHERE place IS NOT NULL
       ON CONFLICT (name, ticket) DO UPDATE
       SET place = excluded.place, written = excluded.written, expires = excluded.expires
     )
     SELECT name FROM swapped"
);

/// The epoch begins with the first call, and again when the clock was set back before it.
const BEGIN: &str = concat!(
    "INSERT INTO rate_limiter_epoch AS e (one, born) SELECT 1, ",
    clock!(),
    " ON CONFLICT (one) DO UPDATE SET born = least(e.born, excluded.born) RETURNING born"
);

/// Rows written later than now, before the clock was set back, keep their remaining time.
const SET_BACK: [&str; 2] = [
    concat!("UPDATE rate_limiter_groups SET expires = expires - written + now, written = now FROM (SELECT ", clock!(), " AS now) c WHERE written > now + 1000"),
    concat!("UPDATE rate_limiter_places SET expires = expires - written + now, written = now FROM (SELECT ", clock!(), " AS now) c WHERE written > now + 1000"),
];

const REMOVE: [&str; 2] = [
    concat!("DELETE FROM rate_limiter_places WHERE expires <= ", clock!()),
    concat!("DELETE FROM rate_limiter_groups WHERE expires <= ", clock!()),
];

const COUNT: &str = "SELECT count(*) FROM rate_limiter_groups WHERE $1::bigint IS NULL OR true";

/// The rate limiter in a PostgreSQL database, shared by all processes. [`SqlStore::rate_limiter`] opens it; clones share its state.
pub type SqlRateLimiter = SharedRateLimiter<SqlGroups>;

/// States of groups in a PostgreSQL database.
#[derive(Debug)]
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
        SharedRateLimiter::open(groups, policy).await
    }
}

impl SqlGroups {
    async fn ask<'a>(
        &self,
        text: &'static str,
        more: impl Fn() -> Vec<Arg<'a>>,
    ) -> Result<Vec<Row>, RateLimiterError> {
        let now = self.store.0.time.manual_now();
        let args = || std::iter::once(Arg::OptInt(now)).chain(more()).collect();
        self.store
            .run_autocommit(text, args)
            .await
            .map_err(|fault| unavailable(self.store.store_error(fault)))
    }

    /// Begins an epoch if there is none, and returns when it began.
    async fn begin(&self) -> Result<i64, RateLimiterError> {
        let rows = self.ask(BEGIN, Vec::new).await?;
        rows.first().map(|row| row.int(0)).transpose().map_err(refused)?.ok_or_else(unclear)
    }
}

#[async_trait::async_trait]
impl GroupStore for SqlGroups {
    async fn load(&self, loads: &[Load]) -> Result<Vec<Loaded>, RateLimiterError> {
        let asked = || {
            let mut rows = Rows::new();
            for Load { group, tickets } in loads {
                rows.row().text(group.as_str()).opt_text(None);
                for ticket in tickets {
                    rows.row().text(group.as_str()).text(&hex(*ticket));
                }
            }
            vec![Arg::Rows(rows)]
        };
        let rows = self.ask(LOAD, asked).await?;
        let (mut groups, mut places) = (HashMap::new(), HashMap::new());
        let mut born = None;
        let mut read = |row: &Row| -> Result<(), Fault> {
            let name = row.text(0)?;
            match row.opt_text(1)? {
                Some(ticket) => {
                    places.insert((name, ticket.replace('-', "")), row.count(6)?);
                }
                None => {
                    let (now, version) = (row.int(2)?, row.opt_int(4)?.unwrap_or(0));
                    let state = if version == 0 { vec![] } else { row.bytes(5)? };
                    born = row.opt_int(3)?.filter(|born| *born <= now);
                    groups.insert(name, (now, version, state));
                }
            }
            Ok(())
        };
        rows.iter().try_for_each(&mut read).map_err(refused)?;
        let since = match born {
            Some(born) => born,
            None => self.begin().await?,
        };
        let loaded = |load: &Load| {
            let name = load.group.as_str();
            let (now, version, state) = groups.remove(name)?;
            let place = |ticket: &Ticket| places.get(&(name.to_owned(), hex(*ticket))).copied();
            let places = load.tickets.iter().map(place).collect();
            let version = version.cast_unsigned();
            Some(Loaded { now: timestamp(now), since: timestamp(since), version, state, places })
        };
        loads.iter().map(loaded).collect::<Option<_>>().ok_or_else(unclear)
    }

    async fn swap(&self, swaps: &[Swap]) -> Result<Vec<bool>, RateLimiterError> {
        let max_age = i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX);
        let rows = self.ask(SWAP, || {
            let (mut states, mut places) = (Rows::new(), Rows::new());
            for swap in swaps {
                let name = swap.group.as_str();
                let state: String = swap.state.iter().map(|octet| format!("{octet:02x}")).collect();
                states
                    .row()
                    .text(name)
                    .int(swap.expected.cast_signed())
                    .int(millis(swap.loaded))
                    .int(swap.version.cast_signed())
                    .text(&state)
                    .int(millis(swap.expires));
                for (ticket, place) in &swap.places {
                    places.row().text(name).text(&hex(*ticket)).opt_int(place.map(saturating_i64));
                }
            }
            vec![Arg::Rows(states), Arg::Rows(places), Arg::Int(max_age)]
        });
        let names: Result<Vec<String>, Fault> = rows.await?.iter().map(|row| row.text(0)).collect();
        let names = names.map_err(refused)?;
        let is_swapped = |group: &Group| names.iter().any(|name| name == group.as_str());
        Ok(swaps.iter().map(|swap| is_swapped(&swap.group)).collect())
    }

    async fn count(&self) -> Result<u64, RateLimiterError> {
        for statement in SET_BACK.into_iter().chain(REMOVE) {
            self.ask(statement, Vec::new).await?;
        }
        let rows = self.ask(COUNT, Vec::new).await?;
        rows.first().map(|row| row.count(0)).transpose().map_err(refused)?.ok_or_else(unclear)
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
