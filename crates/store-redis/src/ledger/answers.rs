//! Answers of the ledger's script.

use crate::{
    fault::Fault,
    script::{texts, unexpected},
};
use crawlway_store::{
    StoreError, Timestamp,
    ledger::{
        AddDeadLetterOutcome, DeadLetter, DeadLetterDetail, DeadLetterId, ExchangeBinding, Failure, History,
        LostSession, MessageKey, Replay, ReplayOutcome, SessionId, TakeOutcome,
    },
};
use redis::Value;
use std::collections::BTreeSet;

/// Answers that are lists of lists of texts, one after the other.
pub(super) fn records(answers: &[Value]) -> Result<Vec<Vec<String>>, Fault> {
    let mut records = Vec::new();
    for answer in answers {
        let Value::Array(values) = answer else { return Err(unexpected(answer)) };
        for value in values {
            records.push(texts_of(value)?);
        }
    }
    Ok(records)
}

/// Answers that are lists of 1 and 0, one after the other.
pub(super) fn flags(answers: &[Value]) -> Result<Vec<bool>, Fault> {
    let mut flags = Vec::new();
    for answer in answers {
        let Value::Array(values) = answer else { return Err(unexpected(answer)) };
        flags.extend(values.iter().map(|value| *value == Value::Int(1)));
    }
    Ok(flags)
}

pub(super) fn texts_of(answer: &Value) -> Result<Vec<String>, Fault> {
    texts(answer).ok_or_else(|| unexpected(answer))
}

pub(super) fn letters(answer: &Value) -> Result<Vec<DeadLetter>, StoreError> {
    let mut letters = Vec::new();
    for record in records(std::slice::from_ref(answer))? {
        let [number, message, detail, dead_at, epoch, body_len] = &record[..] else {
            return Err(unexpected_record(&record).into());
        };
        letters.push(DeadLetter {
            id: DeadLetterId(parse(number)?),
            message: key(message)?,
            detail: DeadLetterDetail::from_json(detail)?,
            body_len: parse(body_len)?,
            dead_at: time(dead_at)?,
            epoch: parse(epoch)?,
        });
    }
    Ok(letters)
}

pub(super) fn lost_session(record: &[String]) -> Result<LostSession, Fault> {
    let [session, worker, messages @ ..] = record else { return Err(unexpected_record(record)) };
    let mut suspects = messages.iter().map(|message| key(message)).collect::<Result<Vec<_>, _>>()?;
    suspects.sort();
    Ok(LostSession { session: SessionId(session.clone()), worker: worker.clone(), suspects })
}

pub(super) fn taken(record: &[String]) -> Result<TakeOutcome, Fault> {
    let words: Vec<&str> = record.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["fenced"] => TakeOutcome::Fenced,
        ["closed"] => TakeOutcome::Closed,
        ["dead", letter] => TakeOutcome::Dead(DeadLetterId(parse(letter)?)),
        ["busy", until] => TakeOutcome::Busy { until: time(until)? },
        ["taken", attempts, losses, solo_crashes, first, first_at, last, last_at] => {
            TakeOutcome::Taken(History {
                attempts: count(attempts)?,
                losses: count(losses)?,
                solo_crashes: count(solo_crashes)?,
                first_error: failure(first, first_at)?,
                last_error: failure(last, last_at)?,
            })
        }
        _ => return Err(unexpected_record(record)),
    })
}

pub(super) fn added(answer: &Value) -> Result<AddDeadLetterOutcome, Fault> {
    let record = texts_of(answer)?;
    let words: Vec<&str> = record.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["fenced"] => AddDeadLetterOutcome::Fenced,
        ["closed"] => AddDeadLetterOutcome::Closed,
        ["dead", letter] => AddDeadLetterOutcome::Dead(DeadLetterId(parse(letter)?)),
        _ => return Err(unexpected(answer)),
    })
}

pub(super) fn replay(letter: DeadLetterId, record: &[String]) -> Result<ReplayOutcome, Fault> {
    let words: Vec<&str> = record.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["closed"] => ReplayOutcome::Closed,
        ["busy", until] => ReplayOutcome::Busy { until: time(until)? },
        ["begun", epoch] => ReplayOutcome::Begun(Replay { letter, epoch: parse(epoch)? }),
        _ => return Err(unexpected_record(record)),
    })
}

/// Bindings of a queue as they are stored: lines of exchange and pattern by turns.
pub(super) fn encode_bindings(bindings: &[ExchangeBinding]) -> String {
    let bindings: BTreeSet<&ExchangeBinding> = bindings.iter().collect();
    let lines: Vec<&str> = bindings.iter().flat_map(|it| [it.exchange(), it.pattern()]).collect();
    lines.join("\n")
}

/// Bindings to an exchange, from the stored ones of all queues.
pub(super) fn bindings(stored: &[String], exchange: &str) -> Vec<(String, String)> {
    let mut bindings = Vec::new();
    for queue in stored.chunks_exact(2) {
        let lines: Vec<&str> = queue[1].split('\n').collect();
        for binding in lines.chunks_exact(2).filter(|binding| binding[0] == exchange) {
            bindings.push((queue[0].clone(), binding[1].to_owned()));
        }
    }
    bindings.sort();
    bindings
}

fn key(message: &str) -> Result<MessageKey, Fault> {
    let damaged = || Fault::Unavailable(format!("`{message}` in Redis is no message of the ledger"));
    let (queue, key) = message.split_once(' ').ok_or_else(damaged)?;
    MessageKey::new(queue, key).map_err(|_| damaged())
}

/// A failure; an empty time means none.
fn failure(error: &str, at: &str) -> Result<Option<Failure>, Fault> {
    Ok(if at.is_empty() { None } else { Some(Failure { error: error.to_owned(), at: time(at)? }) })
}

/// A count; an empty text means 0.
fn count(text: &str) -> Result<u32, Fault> {
    if text.is_empty() { Ok(0) } else { Ok(u32::try_from(parse(text)?).unwrap_or(u32::MAX)) }
}

fn time(text: &str) -> Result<Timestamp, Fault> {
    Ok(Timestamp::from_millis(parse(text)?))
}

fn parse(text: &str) -> Result<u64, Fault> {
    text.parse().map_err(|_| Fault::Unavailable(format!("`{text}` in Redis is no number")))
}

fn unexpected_record(record: &[String]) -> Fault {
    Fault::Unavailable(format!("unexpected answer of Redis: {record:?}"))
}
