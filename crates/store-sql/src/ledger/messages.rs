//! Messages in flight and their histories.

use super::{Now, dead_letters, key_of, key_rows, sessions};
use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    time::timestamp,
};
use crawlway_store::{
    inventory::sanitize_error,
    ledger::{Failure, History, MessageKey, SessionId, Settlement, TakeOutcome},
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) async fn take(
    tx: &mut Tx,
    session: &SessionId,
    messages: &[MessageKey],
    now: Now<'_>,
) -> Result<Vec<TakeOutcome>, Fault> {
    if !sessions::is_alive(tx, session).await? {
        return Ok(vec![TakeOutcome::Fenced; messages.len()]);
    }
    // In the order of keys, against deadlocks.
    let mut left: BTreeSet<&MessageKey> = messages.iter().collect();
    let mut outcomes = BTreeMap::new();
    for (message, letter) in dead_letters::of_messages(tx, key_rows(left.iter().copied())).await? {
        left.retain(|other| **other != message);
        outcomes.insert(message, letter.map_or(TakeOutcome::Closed, TakeOutcome::Dead));
    }
    let conflicts = insert(tx, session, &left).await?;
    if !conflicts.is_empty() {
        for (message, until) in take_over(tx, session, conflicts, now).await? {
            left.retain(|other| **other != message);
            outcomes.insert(message, TakeOutcome::Busy { until: timestamp(until) });
        }
    }
    let mut histories = histories(tx, key_rows(left.iter().copied())).await?;
    for message in left {
        let history = histories.remove(message).unwrap_or_default();
        outcomes.insert(message.clone(), TakeOutcome::Taken(history));
    }
    let outcome = |message| outcomes.get(message).cloned().unwrap_or(TakeOutcome::Fenced);
    Ok(messages.iter().map(outcome).collect())
}

/// A message in flight in another session.
struct Conflict {
    message: MessageKey,
    holder: String,
    solo: bool,
}

/// Takes messages that are not in flight; returns the others.
async fn insert(
    tx: &mut Tx,
    session: &SessionId,
    messages: &BTreeSet<&MessageKey>,
) -> Result<Vec<Conflict>, Fault> {
    // The update locks the row of another session and changes nothing of it.
    static INSERT: Sql = Sql::new(
        "INSERT INTO ledger_taken (queue, key, session, solo)
         SELECT r.queue, r.key, $2, 0 FROM {rows queue text, key text} r WHERE true
         ON CONFLICT (queue, key) DO UPDATE SET
             solo = CASE WHEN ledger_taken.session = excluded.session THEN 0 ELSE ledger_taken.solo END
         RETURNING queue, key, session, solo",
    );
    if messages.is_empty() {
        return Ok(vec![]);
    }
    let rows = Arg::Rows(key_rows(messages.iter().copied()));
    let mut conflicts = Vec::new();
    for row in tx.run(&INSERT, vec![rows, Arg::Text(&session.0)]).await? {
        let holder = row.text(2)?;
        if holder != session.0 {
            conflicts.push(Conflict { message: key_of(&row)?, holder, solo: row.int(3)? == 1 });
        }
    }
    Ok(conflicts)
}

/// Takes messages from other sessions, with one more lost worker each. Returns those that stay with a living session, which
/// runs them solo, and the end of its lease.
async fn take_over(
    tx: &mut Tx,
    session: &SessionId,
    conflicts: Vec<Conflict>,
    now: Now<'_>,
) -> Result<Vec<(MessageKey, i64)>, Fault> {
    static TAKE_OVER: Sql = Sql::new(
        "UPDATE ledger_taken SET session = $2, solo = 0
         WHERE (queue, key) IN (SELECT r.queue, r.key FROM {rows queue text, key text} r)",
    );
    let mut leases = BTreeMap::new();
    for Conflict { holder, .. } in &conflicts {
        if !leases.contains_key(holder) {
            leases.insert(holder.clone(), sessions::lease_of(tx, holder, now).await?);
        }
    }
    // What a lost session had is not in flight by now, and its loss is counted.
    let released: BTreeSet<&MessageKey> =
        conflicts.iter().filter(|it| leases[&it.holder].is_none()).map(|it| &it.message).collect();
    let released = insert(tx, session, &released).await?;
    let (mut busy, mut taken) = (Vec::new(), Vec::new());
    for Conflict { message, holder, solo } in &conflicts {
        match leases[holder] {
            Some(until) if *solo => busy.push((message.clone(), until)),
            Some(_) => taken.push(message),
            None => {}
        }
    }
    // Rows of a session that does not exist.
    taken.extend(released.iter().map(|conflict| &conflict.message));
    if !taken.is_empty() {
        let rows = Arg::Rows(key_rows(taken.iter().copied()));
        tx.run(&TAKE_OVER, vec![rows, Arg::Text(&session.0)]).await?;
        count_losses(tx, taken.into_iter().map(|message| (message, 0)), now).await?;
    }
    Ok(busy)
}

pub(super) async fn mark_solo(tx: &mut Tx, session: &SessionId, message: &MessageKey) -> Result<bool, Fault> {
    static MARK: Sql = Sql::new(
        "UPDATE ledger_taken SET solo = 1 WHERE session = $1 AND queue = $2 AND key = $3 RETURNING solo",
    );
    static UNMARK_OTHERS: Sql = Sql::new(
        "UPDATE ledger_taken SET solo = 0 WHERE session = $1 AND solo = 1 AND NOT (queue = $2 AND key = $3)",
    );
    let args = || vec![Arg::Text(&session.0), Arg::Text(message.queue()), Arg::Text(message.key())];
    if tx.run(&MARK, args()).await?.is_empty() {
        return Ok(false);
    }
    tx.run(&UNMARK_OTHERS, args()).await?;
    Ok(true)
}

pub(super) async fn settle(
    tx: &mut Tx,
    session: &SessionId,
    settlements: &[(MessageKey, Settlement)],
    now: Now<'_>,
) -> Result<Vec<bool>, Fault> {
    let settlements_of: BTreeMap<&MessageKey, &Settlement> =
        settlements.iter().rev().map(|(message, settlement)| (message, settlement)).collect();
    let released = release(tx, session, settlements_of.keys().copied()).await?;
    let (mut done, mut failed, mut expired) = (Vec::new(), Rows::new(), Vec::new());
    for message in &released {
        match settlements_of.get(message) {
            Some(Settlement::Done) => done.push(message),
            Some(Settlement::Failed { error }) => {
                failed.row().text(message.queue()).text(message.key()).text(&sanitize_error(error));
            }
            Some(Settlement::LeaseExpired) => expired.push((message, 0)),
            Some(Settlement::Returned) | None => {}
        }
    }
    forget(tx, done).await?;
    count_failures(tx, failed, now).await?;
    count_losses(tx, expired, now).await?;
    let rest: Vec<&MessageKey> =
        settlements_of.into_keys().filter(|message| !released.contains(message)).collect();
    let fenced: BTreeSet<MessageKey> = match rest.is_empty() {
        true => BTreeSet::new(),
        false if sessions::is_alive(tx, session).await? => in_hand(tx, rest).await?,
        false => rest.into_iter().cloned().collect(),
    };
    Ok(settlements.iter().map(|(message, _)| !fenced.contains(message)).collect())
}

/// Releases messages from the hands of a session; returns those that it had.
pub(super) async fn release<'k>(
    tx: &mut Tx,
    session: &SessionId,
    messages: impl IntoIterator<Item = &'k MessageKey>,
) -> Result<BTreeSet<MessageKey>, Fault> {
    static RELEASE: Sql = Sql::new(
        "DELETE FROM ledger_taken WHERE session = $2
         AND (queue, key) IN (SELECT r.queue, r.key FROM {rows queue text, key text} r)
         RETURNING queue, key",
    );
    let args = vec![Arg::Rows(key_rows(messages)), Arg::Text(&session.0)];
    tx.run(&RELEASE, args).await?.iter().map(key_of).collect()
}

/// Those of the messages that are in flight in any session; locks them.
pub(super) async fn in_hand<'k>(
    tx: &mut Tx,
    messages: impl IntoIterator<Item = &'k MessageKey>,
) -> Result<BTreeSet<MessageKey>, Fault> {
    static IN_HAND: Sql = Sql::new(
        "SELECT queue, key FROM ledger_taken
         WHERE (queue, key) IN (SELECT r.queue, r.key FROM {rows queue text, key text} r) {for update}",
    );
    tx.run(&IN_HAND, vec![Arg::Rows(key_rows(messages))]).await?.iter().map(key_of).collect()
}

/// Deletes histories.
pub(super) async fn forget(tx: &mut Tx, messages: Vec<&MessageKey>) -> Result<(), Fault> {
    static FORGET: Sql = Sql::new(
        "DELETE FROM ledger_messages
         WHERE (queue, key) IN (SELECT r.queue, r.key FROM {rows queue text, key text} r)",
    );
    if !messages.is_empty() {
        tx.run(&FORGET, vec![Arg::Rows(key_rows(messages))]).await?;
    }
    Ok(())
}

async fn count_failures(tx: &mut Tx, failed: Rows, now: Now<'_>) -> Result<(), Fault> {
    static FAIL: Sql = Sql::new(
        "INSERT INTO ledger_messages
             (queue, key, attempts, losses, solo_crashes, first_error, first_error_at, last_error, last_error_at, changed_at)
         SELECT r.queue, r.key, 1, 0, 0, r.error, $2, r.error, $2, $2 FROM {rows queue text, key text, error text} r
         WHERE true
         ON CONFLICT (queue, key) DO UPDATE SET
             attempts = ledger_messages.attempts + 1,
             first_error = coalesce(ledger_messages.first_error, excluded.first_error),
             first_error_at = coalesce(ledger_messages.first_error_at, excluded.first_error_at),
             last_error = excluded.last_error,
             last_error_at = excluded.last_error_at,
             changed_at = excluded.changed_at",
    );
    if !failed.is_empty() {
        tx.run(&FAIL, vec![Arg::Rows(failed), Arg::Int(now.at)]).await?;
    }
    Ok(())
}

/// Counts one more lost worker for each message, and a solo crash for those with 1.
pub(super) async fn count_losses<'k>(
    tx: &mut Tx,
    messages: impl IntoIterator<Item = (&'k MessageKey, i64)>,
    now: Now<'_>,
) -> Result<(), Fault> {
    static LOSE: Sql = Sql::new(
        "INSERT INTO ledger_messages (queue, key, attempts, losses, solo_crashes, changed_at)
         SELECT r.queue, r.key, 0, 1, r.solo, $2 FROM {rows queue text, key text, solo int} r WHERE true
         ON CONFLICT (queue, key) DO UPDATE SET
             losses = ledger_messages.losses + 1,
             solo_crashes = ledger_messages.solo_crashes + excluded.solo_crashes,
             changed_at = excluded.changed_at",
    );
    let mut rows = Rows::new();
    for (message, solo) in messages {
        rows.row().text(message.queue()).text(message.key()).int(solo);
    }
    if !rows.is_empty() {
        tx.run(&LOSE, vec![Arg::Rows(rows), Arg::Int(now.at)]).await?;
    }
    Ok(())
}

async fn histories(tx: &mut Tx, rows: Rows) -> Result<BTreeMap<MessageKey, History>, Fault> {
    static HISTORIES: Sql = Sql::new(
        "SELECT queue, key, attempts, losses, solo_crashes, first_error, first_error_at, last_error, last_error_at
         FROM ledger_messages WHERE (queue, key) IN (SELECT r.queue, r.key FROM {rows queue text, key text} r)",
    );
    if rows.is_empty() {
        return Ok(BTreeMap::new());
    }
    let failure = |row: &Row, column| {
        let (error, at) = (row.opt_text(column)?, row.opt_int(column + 1)?);
        Ok::<_, Fault>(error.zip(at).map(|(error, at)| Failure { error, at: timestamp(at) }))
    };
    let mut histories = BTreeMap::new();
    for row in tx.run(&HISTORIES, vec![Arg::Rows(rows)]).await? {
        let history = History {
            attempts: row.small(2)?,
            losses: row.small(3)?,
            solo_crashes: row.small(4)?,
            first_error: failure(&row, 5)?,
            last_error: failure(&row, 7)?,
        };
        histories.insert(key_of(&row)?, history);
    }
    Ok(histories)
}
