//! The rate limiter on PostgreSQL: one stored function for each call, by the server's clock.
//!
//! ```text
//! schema/0006.sql   unlogged tables: a crash empties them, and every group then waits its minimum delay first
//! lane.sql          one group: its lock, its next slot, its queue
//! calls.sql         the calls
//! ```
//!
//! The names of the functions contain a hash of their text, so that processes of two versions can use the same tables during
//! a rolling update.

use crate::{
    connection::{Arg, Row},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    store::{SqlStore, transact},
    time::{saturating_i64, timestamp},
};
use crawlway_store::{
    Group, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome, Reservation,
    StoreError, Ticket, Timestamp, WaitReason, rate_limiter::Jitter,
};
use sha2::{Digest, Sha256};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

const FUNCTIONS: [&str; 2] = [include_str!("lane.sql"), include_str!("calls.sql")];

/// Separator of functions in a file.
const SEPARATOR: &str = "\n--- next\n";

/// Permits that one statement extends.
const EXTEND_BATCH: usize = 128;

/// Prefix of the functions' names.
static PREFIX: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::digest(FUNCTIONS.concat().as_bytes());
    let digits: String = digest.iter().take(6).map(|octet| format!("{octet:02x}")).collect();
    format!("gate_{digits}")
});

/// The policy as a composite value, from parameters 2 to 13.
const POLICY: &str = "ROW($2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint, \
                      $10::bigint, $11::bigint, $12::bigint, $13::bigint)::gate_policy";

/// Expands the placeholders of a statement.
fn statement(text: &str) -> String {
    text.replace("{gate}", &PREFIX).replace("{policy}", POLICY)
}

static RESERVE: LazyLock<String> = LazyLock::new(|| {
    statement(
        "SELECT word, a, b FROM {gate}_reserve($1::bigint, {policy}, $14::text, $15::text::uuid, $16::bigint, $17::bigint, \
         $18::bigint, $19::bigint)",
    )
});
static LEAVE: LazyLock<String> = LazyLock::new(|| {
    statement("SELECT 1 FROM {gate}_leave($1::bigint, {policy}, $14::text, $15::text::uuid)")
});
static FINISH: LazyLock<String> = LazyLock::new(|| {
    statement(
        "SELECT {gate}_finish($1::bigint, {policy}, $14::text, $15::bigint, $16::text, $17::bigint, $18::bigint)::int",
    )
});
static EXTEND: LazyLock<String> = LazyLock::new(|| {
    statement(
        "SELECT r.place, {gate}_extend($1::bigint, {policy}, r.name, r.id) FROM (
           SELECT value ->> 0 AS name, (value ->> 1)::bigint AS id, (value ->> 2)::bigint AS place
           FROM jsonb_array_elements($14::text::jsonb) ORDER BY 1, 2
         ) r",
    )
});
static TRACKED: LazyLock<String> = LazyLock::new(|| statement("SELECT {gate}_tracked($1::bigint)"));

/// The rate limiter in a PostgreSQL database, shared by all processes. [`SqlStore::rate_limiter`] opens it; clones share its state.
#[derive(Debug, Clone)]
pub struct SqlRateLimiter(Arc<State>);

#[derive(Debug)]
struct State {
    store: SqlStore,
    policy: RateLimitPolicy,
    jitter: Jitter,
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
        let created: Result<(), StoreError> = transact!(self, tx, create_functions(tx));
        created.map_err(unavailable)?;
        let rate_limiter =
            SqlRateLimiter(Arc::new(State { store: self.clone(), policy, jitter: Jitter::random() }));
        // Empty tables start the minimum delay of all groups now and not with the first request.
        rate_limiter.tracked_groups().await?;
        Ok(rate_limiter)
    }
}

/// Creates the functions, unless they exist.
async fn create_functions(tx: &mut crate::connection::Tx) -> Result<(), Fault> {
    // The number of the advisory lock is arbitrary.
    static LOCK: Sql = Sql::new("SELECT 1 FROM (SELECT pg_advisory_xact_lock(7239452018447)) l");
    static LAST: LazyLock<String> =
        LazyLock::new(|| statement("SELECT 1 WHERE to_regproc('{gate}_tracked') IS NOT NULL"));
    tx.run(&LOCK, vec![]).await?;
    if !tx.run_text(&LAST, vec![]).await?.is_empty() {
        return Ok(());
    }
    for function in FUNCTIONS.iter().flat_map(|file| file.split(SEPARATOR)) {
        tx.run_once(statement(function), vec![]).await?;
    }
    Ok(())
}

impl State {
    /// The first parameters of most calls: the time of a manual clock and the policy.
    fn common_args<'a>(&self) -> Vec<Arg<'a>> {
        let RateLimitPolicy { backoff: back_off, breaker, .. } = &self.policy;
        let (failures, cool_down, longest_open) = breaker.map_or((0, 0, 0), |breaker| {
            (i64::from(breaker.failure_threshold), millis(breaker.cooldown), millis(breaker.max))
        });
        let policy = [
            millis(self.policy.lease),
            millis(self.policy.grace),
            millis(back_off.first),
            millis(back_off.max),
            failures,
            cool_down,
            longest_open,
            millis(self.policy.initial_latency),
            millis(self.policy.idle_ttl),
            millis(self.policy.failure_ttl),
            saturating_i64(self.policy.max_groups as u64),
            saturating_i64(self.policy.max_slots as u64),
        ];
        [Arg::OptInt(self.store.0.time.manual_now())].into_iter().chain(policy.map(Arg::Int)).collect()
    }

    async fn ask<'a>(
        &self,
        text: &'static str,
        more: impl Fn() -> Vec<Arg<'a>>,
    ) -> Result<Vec<Row>, RateLimiterError> {
        let args = || {
            let mut args = self.common_args();
            args.extend(more());
            args
        };
        self.store
            .run_autocommit(text, args)
            .await
            .map_err(|fault| unavailable(self.store.store_error(fault)))
    }

    /// Factor of a back-off delay, in thousandths of a percent.
    fn jitter(&self) -> i64 {
        let percent = u64::from(self.policy.backoff.jitter_percent);
        saturating_i64(100_000 - percent * 1000 + self.jitter.next_u64() % (2 * percent * 1000 + 1))
    }
}

#[async_trait::async_trait]
impl RateLimiter for SqlRateLimiter {
    fn policy(&self) -> &RateLimitPolicy {
        &self.0.policy
    }

    async fn reserve(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
    ) -> Result<Reservation, RateLimiterError> {
        limits.check(group)?;
        let ticket = hex(ticket);
        let (random, part) = (self.0.jitter.next_u64() % 1_000_000, self.0.jitter.next_u64() % 1_000_000_000);
        let rows = self.0.ask(&RESERVE, || {
            vec![
                Arg::Text(group.as_str()),
                Arg::Text(&ticket),
                Arg::Int(i64::from(limits.concurrency)),
                Arg::Int(millis(limits.min_delay)),
                Arg::Int(saturating_i64(random)),
                Arg::Int(saturating_i64(part)),
            ]
        });
        let rows = rows.await?;
        let turn = || -> Result<Option<Reservation>, Fault> {
            let Some(row) = rows.first() else { return Ok(None) };
            let at = row.int(1)?;
            let why = match row.text(0)?.as_str() {
                "go" => {
                    let (id, until) = (at.cast_unsigned(), timestamp(row.int(2)?));
                    return Ok(Some(Reservation::Granted(Permit { group: group.clone(), id, until })));
                }
                "pace" => WaitReason::MinDelay,
                "busy" => WaitReason::Concurrency,
                "back_off" => WaitReason::Backoff,
                "open" => WaitReason::CircuitOpen,
                "crowded" => WaitReason::Overloaded,
                _ => return Ok(None),
            };
            Ok(Some(Reservation::NotBefore { at: timestamp(at), reason: why }))
        };
        turn().map_err(refused)?.ok_or_else(unclear)
    }

    async fn cancel(&self, group: &Group, ticket: Ticket) -> Result<(), RateLimiterError> {
        let ticket = hex(ticket);
        self.0.ask(&LEAVE, || vec![Arg::Text(group.as_str()), Arg::Text(&ticket)]).await?;
        Ok(())
    }

    async fn finish(&self, permit: &Permit, outcome: RequestOutcome) -> Result<(), RateLimiterError> {
        let (word, retry_after) = match outcome {
            RequestOutcome::Success => ("success", None),
            RequestOutcome::Blocked { retry_after } => {
                ("failure", retry_after.map(|asked| millis(asked.min(self.0.policy.max_retry_after))))
            }
            RequestOutcome::Failed => ("failure", None),
            RequestOutcome::Neutral => ("neutral", None),
        };
        let jitter = self.0.jitter();
        let rows = self.0.ask(&FINISH, || {
            let (id, jitter) = (Arg::Int(permit.id.cast_signed()), Arg::Int(jitter));
            vec![Arg::Text(permit.group.as_str()), id, Arg::Text(word), Arg::OptInt(retry_after), jitter]
        });
        let held = rows.await?.first().map(|row| row.int(0)).transpose().map_err(refused)?;
        match held {
            Some(1) => Ok(()),
            Some(_) => Err(RateLimiterError::Fenced { group: permit.group.clone() }),
            None => Err(unclear()),
        }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, RateLimiterError>> {
        let mut extended = Vec::with_capacity(permits.len());
        for permits in permits.chunks(EXTEND_BATCH) {
            let rows = self.0.ask(&EXTEND, || {
                let mut rows = Rows::new();
                for (place, permit) in permits.iter().enumerate() {
                    rows.row()
                        .text(permit.group.as_str())
                        .int(permit.id.cast_signed())
                        .int(saturating_i64(place as u64));
                }
                vec![Arg::Rows(rows)]
            });
            let mut answers: Vec<Result<Timestamp, RateLimiterError>> = match rows.await {
                Ok(rows) => {
                    permits.iter().enumerate().map(|(place, permit)| answer(&rows, place, permit)).collect()
                }
                Err(error) => vec![Err(error); permits.len()],
            };
            extended.append(&mut answers);
        }
        extended
    }

    async fn tracked_groups(&self) -> Result<u64, RateLimiterError> {
        let now = self.0.store.0.time.manual_now();
        let rows = self.0.store.run_autocommit(&TRACKED, || vec![Arg::OptInt(now)]).await.map_err(refused)?;
        rows.first().map(|row| row.count(0)).transpose().map_err(refused)?.ok_or_else(unclear)
    }
}

/// The answer for the permit at this place.
fn answer(rows: &[Row], place: usize, permit: &Permit) -> Result<Timestamp, RateLimiterError> {
    for row in rows {
        if row.count(0).map_err(refused)? == place as u64 {
            let until = row.opt_int(1).map_err(refused)?;
            return until
                .map(timestamp)
                .ok_or_else(|| RateLimiterError::Fenced { group: permit.group.clone() });
        }
    }
    Err(unclear())
}

fn hex(ticket: Ticket) -> String {
    format!("{:032x}", ticket.as_u128())
}

/// A time span for the functions: milliseconds, rounded up.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
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
