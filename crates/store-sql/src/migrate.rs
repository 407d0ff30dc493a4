//! Schema migrations: numbered steps, each applied once and never changed after.

use crate::{
    connection::{Arg, Tx},
    dialect::{Dialect, Sql, expand},
    fault::Fault,
};

/// Step 1 is the first. A change of the schema is a new step at the end.
const STEPS: &[Step] = &[
    Step { text: include_str!("schema/0001.sql"), only: None },
    Step { text: include_str!("schema/0002.sql"), only: None },
    Step { text: include_str!("schema/0003.sql"), only: Some(Dialect::Postgres) },
    Step { text: include_str!("schema/0004.sql"), only: Some(Dialect::Sqlite) },
    Step { text: include_str!("schema/0005.sql"), only: None },
    Step { text: include_str!("schema/0006.sql"), only: Some(Dialect::Postgres) },
    Step { text: include_str!("schema/0007.sql"), only: None },
    Step { text: include_str!("schema/0008.sql"), only: Some(Dialect::Sqlite) },
    Step { text: include_str!("schema/0009.sql"), only: Some(Dialect::Postgres) },
    Step { text: include_str!("schema/0010.sql"), only: None },
    Step { text: include_str!("schema/0011.sql"), only: Some(Dialect::Postgres) },
    Step { text: include_str!("schema/0012.sql"), only: None },
    Step { text: include_str!("schema/0013.sql"), only: None },
    Step { text: include_str!("schema/0014.sql"), only: None },
    Step { text: include_str!("schema/0015.sql"), only: Some(Dialect::Sqlite) },
    Step { text: include_str!("schema/0016.sql"), only: None },
    Step { text: include_str!("schema/0017.sql"), only: Some(Dialect::Postgres) },
    Step { text: include_str!("schema/0018.sql"), only: None },
    Step { text: include_str!("schema/0019.sql"), only: None },
    Step { text: include_str!("schema/0020.sql"), only: None },
    Step { text: include_str!("schema/0021.sql"), only: None },
];

/// Step that replaces the previous version of the rate limiter.
#[cfg(feature = "postgresql")]
const RATE_LIMITER_STEP: i64 = 17;

struct Step {
    text: &'static str,
    /// The only dialect that it applies to; the other one counts it as applied.
    only: Option<Dialect>,
}

/// Migrates the database to the last step, under a lock against concurrent migrations.
pub(crate) async fn run(tx: &mut Tx) -> Result<(), Fault> {
    // On SQLite there is one write transaction. The number of the advisory lock is arbitrary.
    static LOCK: Sql = Sql::pair("SELECT 1", "SELECT 1 FROM (SELECT pg_advisory_xact_lock(7239452018446)) l");
    static TABLE: Sql = Sql::new(
        "CREATE TABLE IF NOT EXISTS crawlway_schema (step BIGINT PRIMARY KEY, made_with TEXT NOT NULL)",
    );
    static LAST: Sql = Sql::new("SELECT max(step) FROM crawlway_schema");
    static APPLIED: Sql = Sql::new("INSERT INTO crawlway_schema (step, made_with) VALUES ($1, $2)");
    tx.run(&LOCK, vec![]).await?;
    tx.run(&TABLE, vec![]).await?;
    let rows = tx.run(&LAST, vec![]).await?;
    let applied = rows.first().map(|row| row.opt_int(0)).transpose()?.flatten().unwrap_or(0);
    let latest = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if applied > latest {
        return Err(Fault::invalid(format!(
            "the database has schema step {applied}, this version supports {latest} at most; \
             use the newer version that wrote it, or restore the backup from before the upgrade"
        )));
    }
    for (step, Step { text, only }) in (1..).zip(STEPS) {
        if step <= applied {
            continue;
        }
        let applies = only.is_none_or(|only| only == tx.dialect());
        #[cfg(feature = "postgresql")]
        if applies && step == RATE_LIMITER_STEP {
            crate::rate_limiter::refuse_previous(tx).await?;
        }
        for statement in statements(text).into_iter().filter(|_| applies) {
            tx.run_once(expand(&statement, tx.dialect()), vec![]).await?;
        }
        tx.run(&APPLIED, vec![Arg::Int(step), Arg::Text(env!("CARGO_PKG_VERSION"))]).await?;
    }
    Ok(())
}

/// The statements of a step without comments.
fn statements(text: &str) -> Vec<String> {
    let bare: Vec<&str> = text.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
    let bare = bare.join("\n");
    bare.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}
