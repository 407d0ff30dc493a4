//! Clock steps: due times in the file keep their distance from now when the clock was set while it was closed.

use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
};
use crawlway_clock::Anchor;

/// Shifts all due times by the clock step since the file was last open.
pub(crate) async fn adjust(tx: &mut Tx, anchor: &Anchor) -> Result<(), Fault> {
    static READ: Sql = Sql::new("SELECT boot, stood FROM clock_anchor");
    static FORGET: Sql = Sql::new("DELETE FROM clock_anchor");
    static NOTE: Sql = Sql::new("INSERT INTO clock_anchor (boot, stood) VALUES ($1, $2)");
    // 0 means "first", very large times mean "for ever"; both stay.
    static MOVE: [Sql; 8] = [
        Sql::new("UPDATE entries SET due = max(due + $1, 1) WHERE state IN (0, 1) AND due > 0"),
        Sql::new("UPDATE hosts SET next_at = max(next_at + $1, 1) WHERE next_at > 0"),
        Sql::new("UPDATE hosts SET rest_until = max(rest_until + $1, 1) WHERE rest_until > 0"),
        Sql::new(
            "UPDATE seen SET until = max(until + $1, 1) WHERE until > 0 AND until < 4611686018427387904",
        ),
        Sql::new("UPDATE ledger_sessions SET lease_until = max(lease_until + $1, 1) WHERE lost_at IS NULL"),
        Sql::new(
            "UPDATE ledger_dead_letters SET marked_until = max(marked_until + $1, 1) WHERE marked_until > 0",
        ),
        Sql::new("UPDATE crawl_requests SET deadline = max(deadline + $1, 1) WHERE deadline IS NOT NULL"),
        Sql::new(
            "UPDATE crawl_requests SET publish_at = max(publish_at + $1, 1) WHERE publish_at IS NOT NULL",
        ),
    ];
    let earlier = match tx.run(&READ, vec![]).await?.first() {
        Some(row) => Some(Anchor { boot: row.text(0)?, offset: row.int(1)? }),
        None => None,
    };
    let step = earlier.as_ref().map_or(0, |earlier| anchor.step_since(earlier));
    if step == 0 && earlier.is_some_and(|earlier| earlier.boot == anchor.boot) {
        return Ok(());
    }
    if step != 0 {
        tracing::warn!(
            by_ms = step,
            "the clock was set since the database was last open; due times are shifted with it"
        );
        for statement in &MOVE {
            tx.run(statement, vec![Arg::Int(step)]).await?;
        }
    }
    tx.run(&FORGET, vec![]).await?;
    tx.run(&NOTE, vec![Arg::Text(&anchor.boot), Arg::Int(anchor.offset)]).await?;
    Ok(())
}
