//! Scripts that the server keeps: called by their names, which it forgets whenever it starts.

use crate::{fault::Fault, link::Link};
use redis::{Cmd, Pipeline, Value};
use sha2::{Digest, Sha256};

/// The clock that all scripts read.
const CLOCK: &str = include_str!("clock.lua");

/// A script, and what the server calls it.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    name: String,
}

/// One call of a script.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) keys: Vec<String>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// What runs before a server learns a script that it does not know.
#[derive(Debug)]
pub(crate) struct First<'a> {
    pub(crate) script: &'a Script,
    pub(crate) call: &'a Call,
    /// What it means, for the log.
    pub(crate) why: &'static str,
}

impl Call {
    pub(crate) fn push(&mut self, argument: impl ToString) {
        self.arguments.push(argument.to_string().into_bytes());
    }
}

impl Script {
    /// The script of these parts for the keys with this prefix. The prefix is in its text, so that who shares a
    /// server but not the keys does not make the server know it for others.
    pub(crate) fn new(prefix: &str, parts: &[&str]) -> Self {
        let owner = Sha256::digest(prefix.as_bytes());
        let owner: String = owner.iter().take(8).map(|octet| format!("{octet:02x}")).collect();
        // The first line has a replica, and a server whose memory is full, refuse all of it instead of half.
        let head = format!("#!lua\n-- {owner}");
        let text: Vec<&str> = [&head, CLOCK].into_iter().chain(parts.iter().copied()).collect();
        let text = text.join("\n");
        Self { name: redis::Script::new(&text).get_hash().to_owned(), text }
    }

    /// Calls it for each of these, in order, in one round trip. Where the server does not know it, `first` runs before
    /// the server learns it, and all calls are made once more.
    pub(crate) async fn call(
        &self,
        link: &Link,
        calls: &[Call],
        first: Option<First<'_>>,
    ) -> Result<Vec<Value>, Fault> {
        for _ in 0..3 {
            let mut commands = Pipeline::with_capacity(calls.len());
            for call in calls {
                commands.add_command(with_keys("EVALSHA", &self.name, call));
            }
            if let Some(answers) = answers(link.send(&commands, calls.len()).await?)? {
                return Ok(answers);
            }
            if let Some(First { script, call, why }) = &first {
                tracing::info!("{why}");
                let mut commands = Pipeline::new();
                commands.add_command(with_keys("EVAL", &script.text, call));
                answers(link.send(&commands, 1).await?)?;
            }
            let mut commands = Pipeline::new();
            commands.cmd("SCRIPT").arg("LOAD").arg(&self.text);
            answers(link.send(&commands, 1).await?)?;
        }
        Err(Fault::Away("Redis forgets its scripts as soon as it is told them".to_owned()))
    }
}

fn with_keys(command: &str, script: &str, call: &Call) -> Cmd {
    let mut command = redis::cmd(command);
    command.arg(script).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
    command
}

/// The answers, if there is no error among them; none if the server does not know the script.
fn answers(answers: Vec<Value>) -> Result<Option<Vec<Value>>, Fault> {
    let error = answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(error),
        _ => None,
    });
    match error {
        None => Ok(Some(answers)),
        Some(error) if error.code() == "NOSCRIPT" => Ok(None),
        Some(error) => Err(Fault::Away(format!(
            "Redis answers {} {}",
            error.code(),
            error.details().unwrap_or_default()
        ))),
    }
}

/// An answer as text, if it is one.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// An answer as a list of texts, if it is one.
pub(crate) fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        _ => None,
    }
}

/// What an answer that makes no sense is.
pub(crate) fn nonsense(value: &Value) -> Fault {
    Fault::Away(format!("Redis gave an answer that makes no sense: {value:?}"))
}
