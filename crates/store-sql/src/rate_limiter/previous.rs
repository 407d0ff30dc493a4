//! The previous version of the rate limiter in the same database. Two limiters would break minimum delays, so that only one of
//! them can be in use.

use crate::{
    connection::{Row, Tx},
    dialect::Sql,
    fault::Fault,
    time::timestamp,
};
use crawlway_store::{Group, StoreError, rate_limiter::rules::FailureRecord};

/// Time without a call after which no worker of the previous version sends requests, in seconds: each extends its permits
/// more often.
const MAX_SILENCE: i64 = 30;

/// Refuses the step that replaces the previous version, while its workers are alive. Each records its calls in `gate_life`.
pub(crate) async fn refuse_previous(tx: &mut Tx) -> Result<(), Fault> {
    static LAST: Sql = Sql::new(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - seen FROM gate_life ORDER BY seen DESC LIMIT 1",
    );
    let rows = tx.run(&LAST, vec![]).await?;
    match rows.first().map(|row| row.int(0)).transpose()? {
        // Temporary, so that a process waits until they are gone.
        Some(age) if age.abs() < MAX_SILENCE * 1000 => Err(Fault::Contract(StoreError::Unavailable {
            detail: format!(
                "workers of an earlier version use the rate limiter in this database, the last one {age} ms ago, and two versions \
                 together would break minimum delays; stop them; this one goes on {MAX_SILENCE} s later"
            ),
        })),
        _ => Ok(()),
    }
}

/// Failures of groups of the previous version.
pub(super) const FAILURES: &str =
    "SELECT name, blocks, since, left_until, coalesce(openings, 0) FROM rate_limiter_previous";

/// Forgets them, once they are restored.
pub(super) const FORGET: &str = "DELETE FROM rate_limiter_previous";

/// Group with its failures, from a row of [`FAILURES`].
pub(super) fn failures(row: &Row) -> Result<Option<(Group, FailureRecord)>, Fault> {
    let count = |column| row.count(column).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let record = FailureRecord {
        blocks: count(1)?,
        since: timestamp(row.int(2)?),
        until: timestamp(row.int(3)?),
        openings: count(4)?,
    };
    Ok(Group::new(&row.text(0)?).ok().map(|group| (group, record)))
}
