//! Dead letters: adding, listing and replaying them.

use super::{Now, key_of, key_rows, letter_of, letter_rows, messages, sessions};
use crate::{
    connection::{Arg, Row, Tx},
    dialect::Sql,
    fault::Fault,
    rows::Rows,
    time::{saturating_i64, timestamp},
};
use crawlway_store::ledger::{
    AddDeadLetterOutcome, DeadLetter, DeadLetterBatch, DeadLetterDetail, DeadLetterFilter, DeadLetterId,
    DeadLetterPage, DeadLetterScan, MessageKey, NewDeadLetter, Replay, ReplayOutcome, SessionId,
};
use std::collections::BTreeMap;

/// Letters of those messages that have one; `None` for a closed letter.
pub(super) async fn of_messages(
    tx: &mut Tx,
    messages: Rows,
) -> Result<Vec<(MessageKey, Option<DeadLetterId>)>, Fault> {
    static OF_MESSAGES: Sql = Sql::new(
        "SELECT queue, key, CASE WHEN closed_at IS NULL THEN num END FROM ledger_dead_letters
         WHERE (queue, key) IN (SELECT r.queue, r.key FROM {rows queue text, key text} r)",
    );
    let letter = |row: &Row| {
        let num = row.opt_int(2)?;
        Ok((key_of(row)?, num.map(|num| DeadLetterId(u64::try_from(num).unwrap_or(0)))))
    };
    tx.run(&OF_MESSAGES, vec![Arg::Rows(messages)]).await?.iter().map(letter).collect()
}

pub(super) async fn add_dead_letters(
    tx: &mut Tx,
    session: &SessionId,
    letters: &[NewDeadLetter],
    details: &[String],
    now: Now<'_>,
) -> Result<Vec<AddDeadLetterOutcome>, Fault> {
    static INSERT: Sql = Sql::new(
        "INSERT INTO ledger_dead_letters (queue, key, detail, body_len, dead_at, epoch, marked_until)
         VALUES ($1, $2, $3, $4, $5, 0, 0) ON CONFLICT (queue, key) DO NOTHING RETURNING num",
    );
    static KEEP_BODY: Sql = Sql::new("INSERT INTO ledger_bodies (num, body) VALUES ($1, $2)");
    if !sessions::is_alive(tx, session).await? {
        return Ok(vec![AddDeadLetterOutcome::Fenced; letters.len()]);
    }
    let keys = || letters.iter().map(|letter| &letter.message);
    messages::release(tx, session, keys()).await?;
    let in_other_hands = messages::in_hand(tx, keys()).await?;
    let mut added = Vec::with_capacity(letters.len());
    for (NewDeadLetter { message, body, .. }, detail) in letters.iter().zip(details) {
        if in_other_hands.contains(message) {
            added.push(AddDeadLetterOutcome::Fenced);
            continue;
        }
        let args = vec![
            Arg::Text(message.queue()),
            Arg::Text(message.key()),
            Arg::Text(detail),
            Arg::Int(saturating_i64(body.len() as u64)),
            Arg::Int(now.at),
        ];
        let letter = match tx.run(&INSERT, args).await?.first() {
            Some(row) => {
                let letter = letter_of(row, 0)?;
                tx.run(&KEEP_BODY, vec![Arg::Int(row.int(0)?), Arg::Bytes(body)]).await?;
                messages::forget(tx, vec![message]).await?;
                Some(letter)
            }
            None => of_messages(tx, key_rows([message])).await?.first().and_then(|(_, letter)| *letter),
        };
        added.push(letter.map_or(AddDeadLetterOutcome::Closed, AddDeadLetterOutcome::Dead));
    }
    Ok(added)
}

pub(super) async fn page(
    tx: &mut Tx,
    queue: &str,
    filter: &DeadLetterFilter,
    after: Option<DeadLetterId>,
    limit: usize,
) -> Result<DeadLetterPage, Fault> {
    static SCAN: Sql = Sql::new(
        "SELECT queue, key, num, detail, body_len, dead_at, epoch FROM ledger_dead_letters
         WHERE queue = $1 AND num > $2 AND closed_at IS NULL ORDER BY num {limit $3}",
    );
    static PICK: Sql = Sql::new(
        "SELECT queue, key, num, detail, body_len, dead_at, epoch FROM ledger_dead_letters
         WHERE num IN (SELECT r.num FROM {rows num int} r) AND queue = $2 AND closed_at IS NULL ORDER BY num",
    );
    let mut scan = DeadLetterScan::new(filter, after, limit);
    while let Some(batch) = scan.next_batch() {
        let rows = match &batch {
            DeadLetterBatch::After(after) => {
                let max = Arg::Int(saturating_i64(DeadLetterBatch::MAX as u64));
                tx.run(&SCAN, vec![Arg::Text(queue), Arg::Int(saturating_i64(after.0)), max]).await?
            }
            DeadLetterBatch::Picked(letters) => {
                let letters = letter_rows(letters.iter().copied());
                tx.run(&PICK, vec![Arg::Rows(letters), Arg::Text(queue)]).await?
            }
        };
        scan.add(batch, rows.iter().map(letter).collect::<Result<_, Fault>>()?);
    }
    Ok(scan.into_page())
}

fn letter(row: &Row) -> Result<DeadLetter, Fault> {
    Ok(DeadLetter {
        id: letter_of(row, 2)?,
        message: key_of(row)?,
        detail: DeadLetterDetail::from_json(&row.text(3)?).map_err(Fault::Contract)?,
        body_len: row.count(4)?,
        dead_at: timestamp(row.int(5)?),
        epoch: row.count(6)?,
    })
}

pub(super) async fn count(tx: &mut Tx, queue: &str) -> Result<u64, Fault> {
    static COUNT: Sql =
        Sql::new("SELECT count(*) FROM ledger_dead_letters WHERE queue = $1 AND closed_at IS NULL");
    tx.run(&COUNT, vec![Arg::Text(queue)]).await?.first().map_or(Ok(0), |row| row.count(0))
}

pub(super) async fn bodies(tx: &mut Tx, letters: &[DeadLetterId]) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    static BODIES: Sql =
        Sql::new("SELECT num, body FROM ledger_bodies WHERE num IN (SELECT r.num FROM {rows num int} r)");
    let mut bodies = BTreeMap::new();
    for row in tx.run(&BODIES, vec![Arg::Rows(letter_rows(letters.iter().copied()))]).await? {
        bodies.insert(letter_of(&row, 0)?, row.bytes(1)?);
    }
    Ok(letters.iter().map(|letter| bodies.get(letter).cloned()).collect())
}

pub(super) async fn begin_replay(
    tx: &mut Tx,
    letters: &[DeadLetterId],
    now: Now<'_>,
) -> Result<Vec<ReplayOutcome>, Fault> {
    static MARK: Sql = Sql::new(
        "UPDATE ledger_dead_letters SET epoch = epoch + 1, marked_until = $2
         WHERE num IN (SELECT r.num FROM {rows num int} r) AND closed_at IS NULL AND marked_until <= $3
         RETURNING num, epoch",
    );
    static MARKED: Sql = Sql::new(
        "SELECT num, marked_until FROM ledger_dead_letters
         WHERE num IN (SELECT r.num FROM {rows num int} r) AND closed_at IS NULL",
    );
    let rows = || Arg::Rows(letter_rows(letters.iter().copied()));
    let mut outcomes = BTreeMap::new();
    let marked_until = Arg::Int(now.plus(now.policy.replay_lease));
    let begun = tx.run(&MARK, vec![rows(), marked_until, Arg::Int(now.at)]).await?;
    if begun.len() < letters.len() {
        for row in tx.run(&MARKED, vec![rows()]).await? {
            outcomes.insert(letter_of(&row, 0)?, ReplayOutcome::Busy { until: timestamp(row.int(1)?) });
        }
    }
    for row in begun {
        let letter = letter_of(&row, 0)?;
        outcomes.insert(letter, ReplayOutcome::Begun(Replay { letter, epoch: row.count(1)? }));
    }
    let outcome = |letter| outcomes.get(letter).copied().unwrap_or(ReplayOutcome::Closed);
    Ok(letters.iter().map(outcome).collect())
}

pub(super) async fn end_replay(tx: &mut Tx, replays: &[Replay], now: Now<'_>) -> Result<Vec<bool>, Fault> {
    static CLOSE: Sql = Sql::new(
        "UPDATE ledger_dead_letters SET closed_at = $2, detail = ''
         WHERE (num, epoch) IN (SELECT r.num, r.epoch FROM {rows num int, epoch int} r) AND closed_at IS NULL
         RETURNING num",
    );
    // A closed letter keeps the epoch that closed it, so that a repetition is recognised.
    static EPOCHS: Sql = Sql::new(
        "SELECT num, epoch FROM ledger_dead_letters WHERE num IN (SELECT r.num FROM {rows num int} r)",
    );
    let mut rows = Rows::new();
    for Replay { letter, epoch } in replays {
        rows.row().int(saturating_i64(letter.0)).int(saturating_i64(*epoch));
    }
    let closed = tx.run(&CLOSE, vec![Arg::Rows(rows), Arg::Int(now.at)]).await?;
    delete_bodies(tx, &closed).await?;
    let mut epochs = BTreeMap::new();
    let letters = letter_rows(replays.iter().map(|replay| replay.letter));
    for row in tx.run(&EPOCHS, vec![Arg::Rows(letters)]).await? {
        epochs.insert(letter_of(&row, 0)?, row.count(1)?);
    }
    let is_latest = |replay: &Replay| epochs.get(&replay.letter).is_none_or(|epoch| *epoch == replay.epoch);
    Ok(replays.iter().map(is_latest).collect())
}

pub(super) async fn drop_letters(
    tx: &mut Tx,
    letters: &[DeadLetterId],
    now: Now<'_>,
) -> Result<Vec<bool>, Fault> {
    static CLOSE: Sql = Sql::new(
        "UPDATE ledger_dead_letters SET closed_at = $2, detail = ''
         WHERE num IN (SELECT r.num FROM {rows num int} r) AND closed_at IS NULL AND marked_until <= $2
         RETURNING num",
    );
    let args = vec![Arg::Rows(letter_rows(letters.iter().copied())), Arg::Int(now.at)];
    let closed = tx.run(&CLOSE, args).await?;
    delete_bodies(tx, &closed).await?;
    let closed = closed.iter().map(|row| letter_of(row, 0)).collect::<Result<Vec<_>, Fault>>()?;
    Ok(letters.iter().map(|letter| closed.contains(letter)).collect())
}

/// Deletes the bodies of the letters of these rows.
async fn delete_bodies(tx: &mut Tx, closed: &[Row]) -> Result<(), Fault> {
    static DELETE: Sql =
        Sql::new("DELETE FROM ledger_bodies WHERE num IN (SELECT r.num FROM {rows num int} r)");
    if closed.is_empty() {
        return Ok(());
    }
    let letters = closed.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, Fault>>()?;
    tx.run(&DELETE, vec![Arg::Rows(Rows::of_ints(letters))]).await?;
    Ok(())
}
