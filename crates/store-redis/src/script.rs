//! Lua scripts, cached by the server under their SHA-1 hashes until it restarts.

use crate::{connection::Link, fault::Fault};
use redis::{Cmd, Pipeline, Value};
use sha2::{Digest, Sha256};

/// Clock functions, part of every script.
const CLOCK: &str = include_str!("clock.lua");

/// A script with its hash.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    sha1: String,
}

/// Keys and arguments of one call.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) keys: Vec<String>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// Script that runs before an unknown script is loaded.
#[derive(Debug)]
pub(crate) struct BeforeLoad<'a> {
    pub(crate) script: &'a Script,
    pub(crate) call: &'a Call,
    /// Message for the log.
    pub(crate) message: &'static str,
}

impl Call {
    pub(crate) fn push(&mut self, argument: impl ToString) {
        self.arguments.push(argument.to_string().into_bytes());
    }
}

impl Script {
    /// Script of these parts for the keys with this prefix. The text contains the prefix, so that other users of the
    /// server, with other prefixes, do not load it.
    pub(crate) fn new(prefix: &str, parts: &[&str]) -> Self {
        let owner = Sha256::digest(prefix.as_bytes());
        let owner: String = owner.iter().take(8).map(|octet| format!("{octet:02x}")).collect();
        // With a shebang line a replica, or a server without free memory, refuses the whole script before it runs.
        let head = format!("#!lua\n-- {owner}");
        let text: Vec<&str> = [&head, CLOCK].into_iter().chain(parts.iter().copied()).collect();
        let text = text.join("\n");
        Self { sha1: redis::Script::new(&text).get_hash().to_owned(), text }
    }

    /// Runs the calls in order, in one round trip. If the server does not know the script, `before_load` runs, the script
    /// is loaded, and all calls are repeated.
    pub(crate) async fn call(
        &self,
        link: &Link,
        calls: &[Call],
        before_load: Option<BeforeLoad<'_>>,
    ) -> Result<Vec<Value>, Fault> {
        for _ in 0..3 {
            let mut commands = Pipeline::with_capacity(calls.len());
            for call in calls {
                commands.add_command(with_keys("EVALSHA", &self.sha1, call));
            }
            if let Some(answers) = answers(link.send(&commands, calls.len()).await?)? {
                return Ok(answers);
            }
            if let Some(BeforeLoad { script, call, message }) = &before_load {
                tracing::info!("{message}");
                let mut commands = Pipeline::new();
                commands.add_command(with_keys("EVAL", &script.text, call));
                answers(link.send(&commands, 1).await?)?;
            }
            let mut commands = Pipeline::new();
            commands.cmd("SCRIPT").arg("LOAD").arg(&self.text);
            answers(link.send(&commands, 1).await?)?;
        }
        Err(Fault::Unavailable("Redis does not keep its scripts".to_owned()))
    }
}

fn with_keys(command: &str, script: &str, call: &Call) -> Cmd {
    let mut command = redis::cmd(command);
    command.arg(script).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
    command
}

/// The answers if there is no error among them; `None` if the server does not know the script.
fn answers(answers: Vec<Value>) -> Result<Option<Vec<Value>>, Fault> {
    let error = answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(error),
        _ => None,
    });
    match error {
        None => Ok(Some(answers)),
        Some(error) if error.code() == "NOSCRIPT" => Ok(None),
        Some(error) => Err(Fault::Unavailable(format!(
            "Redis answers {} {}",
            error.code(),
            error.details().unwrap_or_default()
        ))),
    }
}

/// Answer as text.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// Answer as a list of texts.
pub(crate) fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        _ => None,
    }
}

/// Error for an unexpected answer.
pub(crate) fn unexpected(value: &Value) -> Fault {
    if let Value::ServerError(error) = value
        && (error.code() == "WRONGTYPE" || error.details().is_some_and(|text| text.contains("WRONGTYPE")))
    {
        return Fault::Invalid("a key in Redis has another type: another program has written it".to_owned());
    }
    Fault::Unavailable(format!("unexpected answer of Redis: {value:?}"))
}
