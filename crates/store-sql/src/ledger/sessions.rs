//! Sessions: opened, renewed, closed and declared lost.

use super::{Now, clock, key_of, messages};
use crate::{
    connection::{Arg, Tx},
    dialect::Sql,
    fault::Fault,
};
use crawlway_store::ledger::{LostSession, SessionId};

pub(super) async fn open(tx: &mut Tx, session: &SessionId, worker: &str, now: Now<'_>) -> Result<(), Fault> {
    static OPEN: Sql = Sql::new(
        "INSERT INTO ledger_sessions (id, worker, lease_until) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
    );
    let lease_until = Arg::Int(now.plus(now.policy.session_lease));
    tx.run(&OPEN, vec![Arg::Text(&session.0), Arg::Text(worker), lease_until]).await?;
    clock::touch(tx, now).await.map(drop)
}

pub(super) async fn heartbeat(tx: &mut Tx, session: &SessionId, now: Now<'_>) -> Result<bool, Fault> {
    static RENEW: Sql = Sql::new(
        "UPDATE ledger_sessions SET lease_until = $2 WHERE id = $1 AND lost_at IS NULL RETURNING lease_until",
    );
    static COUNTED: Sql = Sql::new(
        "SELECT solo_queue, solo_key FROM ledger_sessions WHERE id = $1 AND solo_key IS NOT NULL {for update}",
    );
    static TAKE_BACK: Sql = Sql::new(
        "UPDATE ledger_messages SET solo_crashes = solo_crashes - 1
         WHERE queue = $1 AND key = $2 AND solo_crashes > 0",
    );
    static FORGET: Sql =
        Sql::new("UPDATE ledger_sessions SET solo_queue = NULL, solo_key = NULL WHERE id = $1");
    let id = || Arg::Text(&session.0);
    let lease_until = Arg::Int(now.plus(now.policy.session_lease));
    let renewed = !tx.run(&RENEW, vec![id(), lease_until]).await?.is_empty();
    if !renewed {
        for row in tx.run(&COUNTED, vec![id()]).await? {
            tx.run(&TAKE_BACK, vec![Arg::Text(&row.text(0)?), Arg::Text(&row.text(1)?)]).await?;
            tx.run(&FORGET, vec![id()]).await?;
        }
    }
    // Last, since all processes share its row.
    clock::touch(tx, now).await?;
    Ok(renewed)
}

pub(super) async fn close(tx: &mut Tx, session: &SessionId) -> Result<(), Fault> {
    static CLOSE: Sql =
        Sql::new("DELETE FROM ledger_sessions WHERE id = $1 AND lost_at IS NULL RETURNING id");
    if !tx.run(&CLOSE, vec![Arg::Text(&session.0)]).await?.is_empty() {
        release_all(tx, session).await?;
    }
    Ok(())
}

pub(super) async fn reap(tx: &mut Tx, now: Now<'_>) -> Result<Vec<LostSession>, Fault> {
    // A locked one is just being renewed, or reaped by another process.
    static EXPIRED: Sql = Sql::new(
        "SELECT id, worker FROM ledger_sessions WHERE lost_at IS NULL AND lease_until <= $1
         ORDER BY id {skip locked}",
    );
    let mut lost = Vec::new();
    if clock::touch(tx, now).await? > now.at {
        return Ok(lost);
    }
    for row in tx.run(&EXPIRED, vec![Arg::Int(now.at)]).await? {
        lost.push(lose(tx, SessionId(row.text(0)?), row.text(1)?, now).await?);
    }
    Ok(lost)
}

/// End of a session's lease, at least that of the grace period, if the session is alive. Declares it lost if that is over.
///
/// A living session is not locked: it may be waiting for the messages that its caller has locked.
pub(super) async fn lease_of(tx: &mut Tx, session: &str, now: Now<'_>) -> Result<Option<i64>, Fault> {
    static READ: Sql = Sql::new("SELECT lease_until FROM ledger_sessions WHERE id = $1 AND lost_at IS NULL");
    static LOCK: Sql = Sql::new(
        "SELECT worker FROM ledger_sessions WHERE id = $1 AND lost_at IS NULL AND lease_until <= $2 {skip locked}",
    );
    let rows = tx.run(&READ, vec![Arg::Text(session)]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let until = row.int(0)?.max(clock::grace(tx, now).await?);
    if until > now.at {
        return Ok(Some(until));
    }
    let rows = tx.run(&LOCK, vec![Arg::Text(session), Arg::Int(now.at)]).await?;
    let Some(row) = rows.first() else {
        return Err(Fault::Conflict(format!("session {session} is being renewed or reaped")));
    };
    let lost = lose(tx, SessionId(session.to_owned()), row.text(0)?, now).await?;
    tracing::info!(session, worker = lost.worker, suspects = lost.suspects.len(), "a session is lost");
    Ok(None)
}

/// Whether a session is alive; locks it.
pub(super) async fn is_alive(tx: &mut Tx, session: &SessionId) -> Result<bool, Fault> {
    static ALIVE: Sql =
        Sql::new("SELECT 1 FROM ledger_sessions WHERE id = $1 AND lost_at IS NULL {for update}");
    Ok(!tx.run(&ALIVE, vec![Arg::Text(&session.0)]).await?.is_empty())
}

/// Declares a locked session lost: what it has in flight is suspect.
async fn lose(tx: &mut Tx, session: SessionId, worker: String, now: Now<'_>) -> Result<LostSession, Fault> {
    static IN_HAND: Sql = Sql::new(
        "SELECT queue, key, solo FROM ledger_taken WHERE session = $1 ORDER BY queue, key {for update}",
    );
    static LOST: Sql =
        Sql::new("UPDATE ledger_sessions SET lost_at = $2, solo_queue = $3, solo_key = $4 WHERE id = $1");
    let mut in_hand = Vec::new();
    for row in tx.run(&IN_HAND, vec![Arg::Text(&session.0)]).await? {
        in_hand.push((key_of(&row)?, row.int(2)?));
    }
    messages::count_losses(tx, in_hand.iter().map(|(message, solo)| (message, *solo)), now).await?;
    release_all(tx, &session).await?;
    let solo = in_hand.iter().find(|(_, solo)| *solo == 1).map(|(message, _)| message);
    let args = vec![
        Arg::Text(&session.0),
        Arg::Int(now.at),
        Arg::OptText(solo.map(|message| message.queue())),
        Arg::OptText(solo.map(|message| message.key())),
    ];
    tx.run(&LOST, args).await?;
    let suspects = in_hand.into_iter().map(|(message, _)| message).collect();
    Ok(LostSession { session, worker, suspects })
}

async fn release_all(tx: &mut Tx, session: &SessionId) -> Result<(), Fault> {
    static RELEASE: Sql = Sql::new("DELETE FROM ledger_taken WHERE session = $1");
    tx.run(&RELEASE, vec![Arg::Text(&session.0)]).await?;
    Ok(())
}
