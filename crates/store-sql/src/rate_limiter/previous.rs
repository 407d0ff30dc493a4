//! The previous version of the rate limiter in the same database. Two limiters would break minimum delays, so that only one of
//! them can be in use.

use crate::{connection::Tx, dialect::Sql, fault::Fault};

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
        Some(age) if age.abs() < MAX_SILENCE * 1000 => Err(Fault::invalid(format!(
            "workers of an earlier version use the rate limiter in this database, the last one {age} ms ago, and two versions \
             together would break minimum delays; stop them, wait {MAX_SILENCE} s, and start this one again"
        ))),
        _ => Ok(()),
    }
}
