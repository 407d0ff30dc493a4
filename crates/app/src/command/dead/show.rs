//! `crawlway dead show`

use crate::{
    output::{Output, many_lines, one_line},
    service::Queues,
    time::ago_text,
};
use crawlway_broker::{QueueName, Timestamp};
use crawlway_gateway::dto::{DeadLetterView, Failure};

/// Characters of base64 per line, as in MIME.
const BASE64_LINE: usize = 76;

pub(super) async fn run(
    queue: &QueueName,
    id: &str,
    queues: &Queues,
    output: &mut Output,
) -> anyhow::Result<()> {
    let letter = queues.letter(queue, id).await?;
    if output.is_json() {
        return Ok(output.json(&letter)?);
    }
    write(&letter, output)
}

fn write(letter: &DeadLetterView, output: &mut Output) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let when = |time: &str| format!("{} ({})", one_line(time), ago_text(time, now));
    let failure = |failure: &Option<Failure>| match failure {
        Some(failure) => format!("{}, {}", one_line(&failure.error), when(&failure.at)),
        None => "-".to_owned(),
    };
    let optional = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), one_line);
    let message = &letter.message;
    let lines = [
        ("dead letter", one_line(&letter.id)),
        ("queue", one_line(&letter.queue)),
        ("reason", one_line(&letter.reason)),
        ("died", when(&letter.dead_at)),
        ("attempts", letter.attempts.to_string()),
        ("first error", failure(&letter.first_error)),
        ("last error", failure(&letter.last_error)),
        ("replays", letter.replays.to_string()),
        ("message", one_line(&message.id)),
        ("published", when(&message.published_at)),
        ("key", optional(&message.key)),
        ("group", optional(&message.group)),
    ];
    for (label, value) in lines {
        output.line(&format!("{label:<12} {value}"))?;
    }
    for (name, value) in message.headers.iter().flatten() {
        output.line(&format!("{:<12} {}: {}", "header", one_line(name), one_line(value)))?;
    }
    let bytes = super::counted(message.body_bytes as u64, "byte", "bytes");
    match (&message.body, &message.body_base64) {
        (Some(text), _) if !text.is_empty() => {
            output.line(&format!("{:<12} {bytes} of text", "body"))?;
            output.line("")?;
            output.line(&many_lines(text))?;
        }
        (_, Some(encoded)) => {
            output.line(&format!("{:<12} {bytes} of binary data, as base64", "body"))?;
            output.line("")?;
            for line in encoded.as_bytes().chunks(BASE64_LINE) {
                output.line(&one_line(&String::from_utf8_lossy(line)))?;
            }
        }
        _ => output.line(&format!("{:<12} empty", "body"))?,
    }
    Ok(())
}
