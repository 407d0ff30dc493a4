//! The tables, step by step: each step is numbered, made once, and never changed after.

use crate::{
    dialect::{Dialect, Sql, expand},
    fault::Fault,
    link::{Arg, Tx},
};

/// Step 1 is the first. A change to the tables is a new step at the end.
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
];

struct Step {
    text: &'static str,
    /// The database that it is for; the other counts it as made.
    only: Option<Dialect>,
}

/// Brings the database to the last step. The transaction holds off everyone else who tries the same.
pub(crate) async fn run(tx: &mut Tx) -> Result<(), Fault> {
    // On SQLite the transaction is the only one that writes. The number is of no meaning but ours.
    static LOCK: Sql = Sql::pair("SELECT 1", "SELECT 1 FROM (SELECT pg_advisory_xact_lock(7239452018446)) l");
    static TABLE: Sql = Sql::new(
        "CREATE TABLE IF NOT EXISTS crawlway_schema (step BIGINT PRIMARY KEY, made_with TEXT NOT NULL)",
    );
    static LAST: Sql = Sql::new("SELECT max(step) FROM crawlway_schema");
    static MADE: Sql = Sql::new("INSERT INTO crawlway_schema (step, made_with) VALUES ($1, $2)");
    tx.run(&LOCK, vec![]).await?;
    tx.run(&TABLE, vec![]).await?;
    let rows = tx.run(&LAST, vec![]).await?;
    let made = rows.first().map(|row| row.opt_int(0)).transpose()?.flatten().unwrap_or(0);
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    if made > known {
        return Err(Fault::invalid(format!(
            "the database has schema step {made}, this version knows {known} at most; use a newer version"
        )));
    }
    for (step, Step { text, only }) in (1..).zip(STEPS) {
        if step <= made {
            continue;
        }
        let ours = only.is_none_or(|only| only == tx.dialect());
        for statement in statements(text).into_iter().filter(|_| ours) {
            // Once in the life of a database, and a statement's text has to live as long as the program.
            let statement: &'static str = expand(&statement, tx.dialect()).leak();
            tx.run_text(statement, vec![]).await?;
        }
        tx.run(&MADE, vec![Arg::Int(step), Arg::Text(env!("CARGO_PKG_VERSION"))]).await?;
    }
    Ok(())
}

/// The statements of a step, without its comments.
fn statements(text: &str) -> Vec<String> {
    let bare: Vec<&str> = text.lines().map(|line| line.split("--").next().unwrap_or("")).collect();
    let bare = bare.join("\n");
    bare.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}
