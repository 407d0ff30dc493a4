//! The connection to the server, shared by all callers: made when it is needed, and given up when it fails.
//!
//! A call has a time limit of its own, and a connection that let a call wait in vain is not used again: a server that
//! falls silent would otherwise be waited for until the system notices. While the server is away, one caller at a time
//! finds out whether it is back, and the others are told at once what that one was.

use crate::{fault::Fault, options::RedisOptions};
use parking_lot::{Mutex, MutexGuard};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use std::{
    fmt,
    time::{Duration, Instant},
};

/// The oldest server that forgets scripts when it starts, which the gate relies on.
const OLDEST: u32 = 7;

/// A server that was just away is not asked again before this.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Link {
    client: Client,
    connect_within: Duration,
    answer_within: Duration,
    state: Mutex<State>,
    /// Held while a connection is being made.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    connection: Option<MultiplexedConnection>,
    /// How many connections there were, so that who saw one fail gives up none that came after it.
    number: u64,
    outage: Option<Outage>,
}

struct Outage {
    at: Instant,
    why: Fault,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.place())
    }
}

impl Link {
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, Fault> {
        let client = Client::open(options.url.as_str()).map_err(|error| {
            Fault::Never(format!(
                "the address of Redis is wrong: {error}; use one such as `redis://user:password@host:6379/0`"
            ))
        })?;
        let RedisOptions { connect_within, answer_within, .. } = *options;
        Ok(Self {
            client,
            connect_within,
            answer_within,
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        })
    }

    /// Makes a connection, for as long as that may take.
    pub(crate) async fn open(&self, within: Duration) -> Result<(), Fault> {
        let begun = Instant::now();
        loop {
            match self.connection().await {
                Err(Fault::Away(_)) if begun.elapsed() < within => tokio::time::sleep(PAUSE).await,
                ended => return ended.map(drop),
            }
        }
    }

    /// Sends commands and returns what is answered to each, which may be an error of the server's.
    pub(crate) async fn send(&self, commands: &Pipeline, count: usize) -> Result<Vec<Value>, Fault> {
        let (number, mut connection) = self.connection().await?;
        let sent = connection.send_packed_commands(commands, 0, count);
        let error = match tokio::time::timeout(self.answer_within, sent).await {
            Ok(Ok(answers)) => match answers.iter().find_map(read_only) {
                None => return Ok(answers),
                Some(error) => error,
            },
            Ok(Err(error)) if !error.is_unrecoverable_error() => {
                return Err(Fault::Away(format!("Redis at {}: {error}", self.place())));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {:?}", self.answer_within),
        };
        Err(self.lost(number, &error))
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), Fault> {
        let current = |state: &State| state.connection.clone().map(|connection| (state.number, connection));
        if let Some(current) = current(&self.state()) {
            return Ok(current);
        }
        let since = Instant::now();
        let _one_at_a_time = self.connecting.lock().await;
        {
            let state = self.state();
            if let Some(current) = current(&state) {
                return Ok(current);
            }
            // Whoever waited here meanwhile has found out for us.
            if let Some(Outage { at, why }) = &state.outage
                && (*at > since || at.elapsed() < PAUSE)
            {
                return Err(why.clone());
            }
        }
        let made = match tokio::time::timeout(self.connect_within, self.connect()).await {
            Ok(made) => made,
            Err(_) => Err(Fault::Away(format!(
                "no connection to Redis at {} within {:?}",
                self.place(),
                self.connect_within
            ))),
        };
        let mut state = self.state();
        match made {
            Ok(connection) => {
                if state.outage.take().is_some() {
                    tracing::info!(server = self.place(), "Redis is back");
                }
                state.number += 1;
                state.connection = Some(connection.clone());
                Ok((state.number, connection))
            }
            Err(why) => {
                state.out(&self.place(), why.clone());
                Err(why)
            }
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Fault> {
        // The limits of calls are ours, so that a call that ran into one gives up its connection.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let mut connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| self.refused(&error))?;
        let about: String =
            redis::cmd("INFO").query_async(&mut connection).await.map_err(|error| self.refused(&error))?;
        will_do(&about).map_err(|problem| Fault::Never(format!("Redis at {} {problem}", self.place())))?;
        Ok(connection)
    }

    fn refused(&self, error: &RedisError) -> Fault {
        let text = format!("Redis at {}: {error}", self.place());
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Fault::Never(text),
            ErrorKind::Server(ServerErrorKind::NoPerm) => {
                Fault::Never(format!("{text}; the account needs the commands INFO, SCRIPT, EVAL and EVALSHA"))
            }
            _ => Fault::Away(text),
        }
    }

    /// Gives up a connection that failed.
    fn lost(&self, number: u64, why: &str) -> Fault {
        let fault = Fault::Away(format!("Redis at {}: {why}", self.place()));
        let mut state = self.state();
        if state.number == number && state.connection.take().is_some() {
            state.out(&self.place(), fault.clone());
        }
        fault
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Where the server is, without the password.
    fn place(&self) -> String {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                format!("{host}:{port}")
            }
            other => other.to_string(),
        }
    }
}

impl State {
    fn out(&mut self, place: &str, why: Fault) {
        if self.outage.is_none() {
            tracing::warn!(server = place, error = %why, "Redis is away; asking again until it is back");
        }
        self.outage = Some(Outage { at: Instant::now(), why });
    }
}

/// What a server says that has become a replica of another. The name may lead to that one by now.
fn read_only(answer: &Value) -> Option<String> {
    match answer {
        Value::ServerError(error) if error.code() == "READONLY" => Some(format!("{error:?}")),
        _ => None,
    }
}

/// Whether this server can hold the contracts, from what it says of itself.
fn will_do(about: &str) -> Result<(), String> {
    let field = |name: &str| {
        about
            .lines()
            .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_default()
    };
    let version = field("redis_version");
    if version.split('.').next().and_then(|major| major.parse().ok()).is_none_or(|major: u32| major < OLDEST)
    {
        return Err(format!("has version `{version}`; use {OLDEST}.0 or later"));
    }
    let policy = field("maxmemory_policy");
    if field("maxmemory") != "0" && policy != "noeviction" {
        return Err(format!(
            "drops keys when its memory is full (maxmemory-policy is {policy}), and with them the politeness of \
             their groups; set maxmemory-policy to noeviction, or maxmemory to 0"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_or_drops_keys_is_refused() {
        let says = |version: &str, memory: &str, policy: &str| {
            format!(
                "# Server\r\nredis_version:{version}\r\n\r\nmaxmemory:{memory}\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        assert_eq!(will_do(&says("7.0.15", "0", "allkeys-lru")), Ok(()));
        assert_eq!(will_do(&says("10.1.0", "1000", "noeviction")), Ok(()));
        assert!(
            will_do(&says("6.2.7", "0", "noeviction")).unwrap_err().contains("`6.2.7`; use 7.0 or later")
        );
        assert!(will_do(&says("7.0.15", "1000", "volatile-ttl")).unwrap_err().contains("is volatile-ttl"));
        assert!(will_do("nothing that it should").is_err());
    }
}
