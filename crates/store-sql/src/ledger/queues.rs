//! Pauses and bindings of queues, and retention.

use super::Now;
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    time::{millis, saturating_i64, timestamp},
};
use crawlway_store::ledger::ExchangeBinding;
use std::collections::BTreeSet;

pub(super) async fn pause(tx: &mut Tx, queue: &str) -> Result<(), Fault> {
    static PAUSE: Sql =
        Sql::new("INSERT INTO ledger_pauses (queue) VALUES ($1) ON CONFLICT (queue) DO NOTHING");
    tx.run(&PAUSE, vec![Arg::Text(queue)]).await?;
    Ok(())
}

pub(super) async fn resume(tx: &mut Tx, queue: &str) -> Result<(), Fault> {
    static RESUME: Sql = Sql::new("DELETE FROM ledger_pauses WHERE queue = $1");
    tx.run(&RESUME, vec![Arg::Text(queue)]).await?;
    Ok(())
}

pub(super) async fn paused(tx: &mut Tx) -> Result<Vec<String>, Fault> {
    static PAUSED: Sql = Sql::new("SELECT queue FROM ledger_pauses ORDER BY queue");
    tx.run(&PAUSED, vec![]).await?.iter().map(|row| row.text(0)).collect()
}

pub(super) async fn bind(tx: &mut Tx, queue: &str, bindings: &[ExchangeBinding]) -> Result<(), Fault> {
    // Concurrent declarations of one queue take turns.
    static LOCK: Sql = Sql::pair("SELECT 1", "SELECT 1 FROM (SELECT pg_advisory_xact_lock(7239452018447)) l");
    static UNBIND: Sql = Sql::new("DELETE FROM ledger_bindings WHERE queue = $1");
    static BIND: Sql = Sql::new(
        "INSERT INTO ledger_bindings (exchange, queue, pattern)
         SELECT r.exchange, $2, r.pattern FROM {rows exchange text, pattern text} r",
    );
    tx.run(&LOCK, vec![]).await?;
    tx.run(&UNBIND, vec![Arg::Text(queue)]).await?;
    let mut rows = Rows::new();
    for binding in bindings.iter().collect::<BTreeSet<_>>() {
        rows.row().text(binding.exchange()).text(binding.pattern());
    }
    if !rows.is_empty() {
        tx.run(&BIND, vec![Arg::Rows(rows), Arg::Text(queue)]).await?;
    }
    Ok(())
}

pub(super) async fn bindings(tx: &mut Tx, exchange: &str) -> Result<Vec<(String, String)>, Fault> {
    static BINDINGS: Sql =
        Sql::new("SELECT queue, pattern FROM ledger_bindings WHERE exchange = $1 ORDER BY queue, pattern");
    let rows = tx.run(&BINDINGS, vec![Arg::Text(exchange)]).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
}

pub(super) async fn purge_expired(tx: &mut Tx, max: usize, now: Now<'_>) -> Result<u64, Fault> {
    static PURGE: [Sql; 3] = [
        // The greatest number stays, since SQLite would use it again.
        Sql::new(
            "DELETE FROM ledger_dead_letters WHERE num IN
             (SELECT d.num FROM ledger_dead_letters d
              WHERE d.closed_at < $1 AND d.num < (SELECT max(m.num) FROM ledger_dead_letters m)
              ORDER BY d.closed_at {limit $2} {skip locked})
             RETURNING num",
        ),
        Sql::new(
            "DELETE FROM ledger_messages WHERE (queue, key) IN
             (SELECT m.queue, m.key FROM ledger_messages m
              WHERE m.changed_at < $1
                  AND NOT EXISTS (SELECT 1 FROM ledger_taken t WHERE t.queue = m.queue AND t.key = m.key)
              ORDER BY m.changed_at {limit $2} {skip locked})
             RETURNING queue",
        ),
        Sql::new(
            "DELETE FROM ledger_sessions WHERE id IN
             (SELECT s.id FROM ledger_sessions s WHERE s.lost_at < $1 ORDER BY s.lost_at {limit $2} {skip locked})
             RETURNING id",
        ),
    ];
    let before = millis(timestamp(now.at) - now.policy.retention);
    let mut purged = 0;
    for statement in &PURGE {
        let left = saturating_i64(max as u64 - purged);
        purged += tx.run(statement, vec![Arg::Int(before), Arg::Int(left)]).await?.len() as u64;
    }
    Ok(purged)
}
