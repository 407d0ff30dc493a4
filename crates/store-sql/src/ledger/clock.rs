//! Grace period after an outage, kept in the database, so that it holds for all processes.

use super::Now;
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
};

/// Records the time of this call, and returns the end of the grace period. A new one begins if no process made a call for half a
/// lease, or if the clock was set back: then none could send a heartbeat.
pub(super) async fn touch(tx: &mut Tx, now: Now<'_>) -> Result<i64, Fault> {
    static TOUCH: Sql = Sql::new(
        "INSERT INTO ledger_clock (one, seen, grace_until) VALUES (1, $1, $2)
         ON CONFLICT (one) DO UPDATE SET
             seen = excluded.seen,
             grace_until = CASE
                 WHEN ledger_clock.grace_until > excluded.grace_until
                     OR abs(excluded.seen - ledger_clock.seen) > excluded.grace_until - excluded.seen
                 THEN excluded.grace_until ELSE ledger_clock.grace_until END
         RETURNING grace_until",
    );
    let args = vec![Arg::Int(now.at), Arg::Int(now.plus(now.policy.session_lease / 2))];
    let rows = tx.run(&TOUCH, args).await?;
    rows.first().map_or(Ok(now.at), |row| row.int(0))
}

/// End of the grace period, without a lock.
pub(super) async fn grace(tx: &mut Tx, now: Now<'_>) -> Result<i64, Fault> {
    static READ: Sql = Sql::new("SELECT seen, grace_until FROM ledger_clock");
    let latest = now.plus(now.policy.session_lease / 2);
    let rows = tx.run(&READ, vec![]).await?;
    let Some(row) = rows.first() else { return Ok(latest) };
    let (seen, until) = (row.int(0)?, row.int(1)?);
    Ok(if now.at.abs_diff(seen) > latest.abs_diff(now.at) { latest } else { until.min(latest) })
}
