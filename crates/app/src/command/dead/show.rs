//! `crawlway dead show`

use super::existing_queue;
use crate::{
    output::{Output, many_lines, one_line},
    time::{ago, iso},
};
use anyhow::bail;
use base64::{Engine, prelude::BASE64_STANDARD};
use crawlway_broker::{Broker, DeadFilter, DeadId, DeadLetter, Failure, QueueName, Timestamp};
use crawlway_gateway::shape::Letter;

/// How many characters of base64 go on a line, as in mail.
const BASE64_LINE: usize = 76;

pub(super) async fn run(
    queue: &QueueName,
    id: DeadId,
    broker: &dyn Broker,
    output: &mut Output,
) -> anyhow::Result<()> {
    existing_queue(broker, queue).await?;
    let page = broker.dead_letters(queue, &DeadFilter::one(id.clone()), None, 1).await?;
    let Some(letter) = page.letters.first() else {
        bail!("queue `{queue}` has no dead letter `{id}`; `crawlway dead list {queue}` lists those it has");
    };
    if output.is_json() {
        return Ok(output.json(&Letter::whole(letter))?);
    }
    write(letter, output)
}

fn write(letter: &DeadLetter, output: &mut Output) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let when = |time| format!("{} ({})", iso(time), ago(time, now));
    let failure = |failure: &Option<Failure>| match failure {
        Some(failure) => format!("{}, {}", one_line(&failure.error), when(failure.at)),
        None => "-".to_owned(),
    };
    let optional = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), one_line);
    let message = &letter.message;
    let lines = [
        ("dead letter", letter.id.to_string()),
        ("queue", letter.queue.to_string()),
        ("reason", one_line(&letter.reason)),
        ("died", when(letter.dead_at)),
        ("attempts", letter.attempts.to_string()),
        ("first error", failure(&letter.first_error)),
        ("last error", failure(&letter.last_error)),
        ("replays", letter.replays.to_string()),
        ("message", one_line(message.id.as_str())),
        ("published", when(message.published_at)),
        ("key", optional(&message.key)),
        ("group", optional(&message.group)),
    ];
    for (label, value) in lines {
        output.line(&format!("{label:<12} {value}"))?;
    }
    for (name, value) in &message.headers {
        output.line(&format!("{:<12} {}: {}", "header", one_line(name), one_line(value)))?;
    }
    let bytes = super::counted(message.body.len() as u64, "byte", "bytes");
    match std::str::from_utf8(&message.body) {
        Ok("") => output.line(&format!("{:<12} empty", "body"))?,
        Ok(text) => {
            output.line(&format!("{:<12} {bytes} of text", "body"))?;
            output.line("")?;
            output.line(&many_lines(text))?;
        }
        Err(_) => {
            output.line(&format!("{:<12} {bytes} that are not text, here as base64", "body"))?;
            output.line("")?;
            let encoded = BASE64_STANDARD.encode(&message.body);
            let mut rest = encoded.as_str();
            while !rest.is_empty() {
                let (line, after) = rest.split_at(rest.len().min(BASE64_LINE));
                output.line(line)?;
                rest = after;
            }
        }
    }
    Ok(())
}
