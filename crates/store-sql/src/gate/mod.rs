//! The gate on PostgreSQL: one function does what a call does, by the server's clock, whoever asks.
//!
//! ```text
//! schema/0006.sql   the tables, none of them logged: a crash empties them, and an empty gate begins a new life
//! lane.sql          one group: its lock, when the next may go, its line
//! calls.sql         the calls
//! ```
//!
//! The functions have names that follow from their text, so that processes of two versions, each with its own, can work on
//! the same tables while one takes the other's place.

use crate::{
    dialect::Sql,
    fault::Fault,
    link::{Arg, Row},
    rows::Rows,
    store::{SqlStore, transact},
    time::{timestamp, whole},
};
use crawlway_store::{
    Gate, GateError, Group, Limits, Outcome, Permit, Policy, StoreError, Ticket, Timestamp, Turn, Why,
    gate::Jitter,
};
use sha2::{Digest, Sha256};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

const FUNCTIONS: [&str; 2] = [include_str!("lane.sql"), include_str!("calls.sql")];

/// What stands between two functions.
const NEXT: &str = "\n--- next\n";

/// How many permits one statement extends.
const AT_ONCE: usize = 128;

/// What the names of the functions begin with.
static NAME: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::digest(FUNCTIONS.concat().as_bytes());
    let digits: String = digest.iter().take(6).map(|octet| format!("{octet:02x}")).collect();
    format!("gate_{digits}")
});

/// The policy as the first parameters but one have it.
const POLICY: &str = "ROW($2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint, \
                      $10::bigint, $11::bigint, $12::bigint, $13::bigint)::gate_policy";

/// A call of one of the functions.
fn statement(text: &str) -> String {
    text.replace("{gate}", &NAME).replace("{policy}", POLICY)
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

/// The gate in a PostgreSQL database, shared by all processes. [`SqlStore::gate`] opens it; clones are handles on the
/// same state.
#[derive(Debug, Clone)]
pub struct SqlGate(Arc<State>);

#[derive(Debug)]
struct State {
    store: SqlStore,
    policy: Policy,
    jitter: Jitter,
}

impl SqlStore {
    /// The gate in this database, over the same connections. Only PostgreSQL has one, which all processes share, and which
    /// should have one policy.
    pub async fn gate(&self, policy: Policy) -> Result<SqlGate, GateError> {
        policy.check()?;
        if !self.is_shared() {
            let detail =
                "SQLite holds no gate; use the embedded gate beside it, or PostgreSQL for both".to_owned();
            return Err(GateError::Unavailable { detail });
        }
        let made: Result<(), StoreError> = transact!(self, tx, make(tx));
        made.map_err(unavailable)?;
        let gate = SqlGate(Arc::new(State { store: self.clone(), policy, jitter: Jitter::random() }));
        // Now rather than at the first request: if the gate's life begins here, the gap from then on passes meanwhile.
        gate.tracked().await?;
        Ok(gate)
    }
}

/// Makes the functions, if nobody has.
async fn make(tx: &mut crate::link::Tx) -> Result<(), Fault> {
    // The number is of no meaning but ours.
    static LOCK: Sql = Sql::new("SELECT 1 FROM (SELECT pg_advisory_xact_lock(7239452018447)) l");
    static LAST: LazyLock<String> =
        LazyLock::new(|| statement("SELECT 1 WHERE to_regproc('{gate}_tracked') IS NOT NULL"));
    tx.run(&LOCK, vec![]).await?;
    if !tx.run_text(&LAST, vec![]).await?.is_empty() {
        return Ok(());
    }
    for function in FUNCTIONS.iter().flat_map(|file| file.split(NEXT)) {
        tx.run_once(function.replace("{gate}", &NAME), vec![]).await?;
    }
    Ok(())
}

impl State {
    /// The parameters that all calls but one begin with: the time and the policy.
    fn terms<'a>(&self) -> Vec<Arg<'a>> {
        let Policy { back_off, breaker, .. } = &self.policy;
        let (failures, cool_down, longest_open) = breaker.map_or((0, 0, 0), |breaker| {
            (i64::from(breaker.failures), millis(breaker.cool_down), millis(breaker.most))
        });
        let policy = [
            millis(self.policy.lease),
            millis(self.policy.grace),
            millis(back_off.first),
            millis(back_off.most),
            failures,
            cool_down,
            longest_open,
            millis(self.policy.first_guess),
            millis(self.policy.idle),
            millis(self.policy.grudge),
            whole(self.policy.most_groups as u64),
            whole(self.policy.longest_line as u64),
        ];
        [Arg::OptInt(self.store.0.time.told())].into_iter().chain(policy.map(Arg::Int)).collect()
    }

    async fn ask<'a>(
        &self,
        text: &'static str,
        more: impl Fn() -> Vec<Arg<'a>>,
    ) -> Result<Vec<Row>, GateError> {
        let args = || {
            let mut args = self.terms();
            args.extend(more());
            args
        };
        self.store.run_alone(text, args).await.map_err(|fault| unavailable(self.store.noticed(fault)))
    }

    /// By how much a back-off is off, in thousandths of a percent of itself.
    fn jitter(&self) -> i64 {
        let percent = u64::from(self.policy.back_off.jitter_percent);
        whole(100_000 - percent * 1000 + self.jitter.number() % (2 * percent * 1000 + 1))
    }
}

#[async_trait::async_trait]
impl Gate for SqlGate {
    fn policy(&self) -> &Policy {
        &self.0.policy
    }

    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Result<Turn, GateError> {
        limits.check(group)?;
        let ticket = hex(ticket);
        let (random, part) = (self.0.jitter.number() % 1_000_000, self.0.jitter.number() % 1_000_000_000);
        let rows = self.0.ask(&RESERVE, || {
            vec![
                Arg::Text(group.as_str()),
                Arg::Text(&ticket),
                Arg::Int(i64::from(limits.in_flight)),
                Arg::Int(millis(limits.gap)),
                Arg::Int(whole(random)),
                Arg::Int(whole(part)),
            ]
        });
        let rows = rows.await?;
        let turn = || -> Result<Option<Turn>, Fault> {
            let Some(row) = rows.first() else { return Ok(None) };
            let at = row.int(1)?;
            let why = match row.text(0)?.as_str() {
                "go" => {
                    let (id, until) = (at.cast_unsigned(), timestamp(row.int(2)?));
                    return Ok(Some(Turn::Go(Permit { group: group.clone(), id, until })));
                }
                "pace" => Why::Pace,
                "busy" => Why::Busy,
                "back_off" => Why::BackOff,
                "open" => Why::Open,
                "crowded" => Why::Crowded,
                _ => return Ok(None),
            };
            Ok(Some(Turn::NotBefore { at: timestamp(at), why }))
        };
        turn().map_err(refused)?.ok_or_else(unclear)
    }

    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError> {
        let ticket = hex(ticket);
        self.0.ask(&LEAVE, || vec![Arg::Text(group.as_str()), Arg::Text(&ticket)]).await?;
        Ok(())
    }

    async fn finish(&self, permit: &Permit, outcome: Outcome) -> Result<(), GateError> {
        let (word, retry_after) = match outcome {
            Outcome::Success => ("success", None),
            Outcome::Blocked { retry_after } => {
                ("failure", retry_after.map(|asked| millis(asked.min(self.0.policy.longest_retry_after))))
            }
            Outcome::Failed => ("failure", None),
            Outcome::Neutral => ("neutral", None),
        };
        let jitter = self.0.jitter();
        let rows = self.0.ask(&FINISH, || {
            let (id, jitter) = (Arg::Int(permit.id.cast_signed()), Arg::Int(jitter));
            vec![Arg::Text(permit.group.as_str()), id, Arg::Text(word), Arg::OptInt(retry_after), jitter]
        });
        let held = rows.await?.first().map(|row| row.int(0)).transpose().map_err(refused)?;
        match held {
            Some(1) => Ok(()),
            Some(_) => Err(GateError::Fenced { group: permit.group.clone() }),
            None => Err(unclear()),
        }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>> {
        let mut extended = Vec::with_capacity(permits.len());
        for permits in permits.chunks(AT_ONCE) {
            let rows = self.0.ask(&EXTEND, || {
                let mut rows = Rows::new();
                for (place, permit) in permits.iter().enumerate() {
                    rows.row()
                        .text(permit.group.as_str())
                        .int(permit.id.cast_signed())
                        .int(whole(place as u64));
                }
                vec![Arg::Rows(rows)]
            });
            let mut answers: Vec<Result<Timestamp, GateError>> = match rows.await {
                Ok(rows) => {
                    permits.iter().enumerate().map(|(place, permit)| found(&rows, place, permit)).collect()
                }
                Err(error) => vec![Err(error); permits.len()],
            };
            extended.append(&mut answers);
        }
        extended
    }

    async fn tracked(&self) -> Result<u64, GateError> {
        let told = self.0.store.0.time.told();
        let rows = self.0.store.run_alone(&TRACKED, || vec![Arg::OptInt(told)]).await.map_err(refused)?;
        rows.first().map(|row| row.count(0)).transpose().map_err(refused)?.ok_or_else(unclear)
    }
}

/// What came of the permit at this place.
fn found(rows: &[Row], place: usize, permit: &Permit) -> Result<Timestamp, GateError> {
    for row in rows {
        if row.count(0).map_err(refused)? == place as u64 {
            let until = row.opt_int(1).map_err(refused)?;
            return until.map(timestamp).ok_or_else(|| GateError::Fenced { group: permit.group.clone() });
        }
    }
    Err(unclear())
}

fn hex(ticket: Ticket) -> String {
    format!("{:032x}", ticket.as_u128())
}

/// A length of time as the functions have it: whole milliseconds, rounded up.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

fn refused(fault: Fault) -> GateError {
    unavailable(fault.into())
}

fn unavailable(error: StoreError) -> GateError {
    GateError::Unavailable { detail: error.to_string() }
}

fn unclear() -> GateError {
    GateError::Unavailable { detail: "PostgreSQL gave an answer that makes no sense".to_owned() }
}
