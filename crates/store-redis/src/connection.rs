//! The connection to the server, shared by all callers: opened on demand, and dropped when it fails.
//!
//! Each call has its own timeout, and a connection on which a call timed out is not used again: otherwise a silent server
//! would block all calls until the system notices. During an outage one caller at a time tries to reconnect, and the
//! others get the error of that attempt.

use crate::{fault::Fault, options::RedisOptions};
use crawlway_tls::ClientTls;
use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, Pipeline, RedisError, RedisResult,
    ServerErrorKind, Value, aio::MultiplexedConnection,
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Minimum major version of the server: from 7 on cached scripts are lost at a restart, which the rate limiter relies on.
const MIN_VERSION: u32 = 7;

/// Minimum delay between two attempts to connect.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

pub(crate) struct Link {
    client: Client,
    /// TLS of a `rediss` URL.
    tls: Option<ClientTls>,
    connect_timeout: Duration,
    call_timeout: Duration,
    state: Mutex<State>,
    /// Locked while a connection is being opened.
    connecting: tokio::sync::Mutex<()>,
}

/// An open connection.
#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    /// The server has closed it, such as one that was idle: the next call opens another one.
    is_closed: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    connection: Option<Open>,
    /// Number of the connection, so that a failed call drops its own connection and no later one.
    number: u64,
    outage: Option<Outage>,
}

struct Outage {
    at: Instant,
    fault: Fault,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.address())
    }
}

impl Link {
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, Fault> {
        let invalid = |problem: &str| {
            Fault::Invalid(format!(
                "the Redis URL is invalid: {problem}; use one such as `redis://user:password@host:6379/0`"
            ))
        };
        // TLS is not that of the client, which would need roots of the system and a crypto provider of the process.
        let (url, tls) = match options.url.strip_prefix("rediss://") {
            Some(rest) => (format!("redis://{rest}"), Some(options.tls.clone())),
            None => (options.url.clone(), None),
        };
        if url.contains('#') {
            return Err(invalid(
                "it has a fragment such as `#insecure`, and certificates are always verified",
            ));
        }
        options
            .tls
            .check_used(tls.is_some(), "begin the URL of Redis with `rediss://`")
            .map_err(|error| Fault::Invalid(error.to_string()))?;
        let client = Client::open(url).map_err(|error| invalid(&error.to_string()))?;
        let RedisOptions { connect_timeout, call_timeout, .. } = *options;
        Ok(Self {
            client,
            tls,
            connect_timeout,
            call_timeout,
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        })
    }

    /// Opens a connection, with retries until the timeout.
    pub(crate) async fn open(&self, timeout: Duration) -> Result<(), Fault> {
        let started = Instant::now();
        loop {
            match self.connection().await {
                Err(Fault::Unavailable(_)) if started.elapsed() < timeout => {
                    tokio::time::sleep(RECONNECT_DELAY).await;
                }
                Err(Fault::Certificate(problem)) => return Err(Fault::Invalid(problem)),
                result => return result.map(drop),
            }
        }
    }

    /// Sends commands and returns the answer to each, which may be a server error.
    pub(crate) async fn send(&self, commands: &Pipeline, count: usize) -> Result<Vec<Value>, Fault> {
        let (number, mut connection) = self.connection().await?;
        let sent = connection.send_packed_commands(commands, 0, count);
        let error = match tokio::time::timeout(self.call_timeout, sent).await {
            Ok(Ok(answers)) => match answers.iter().find_map(read_only) {
                None => return Ok(answers),
                Some(error) => error,
            },
            Ok(Err(error)) if !error.is_unrecoverable_error() => {
                return Err(Fault::Unavailable(format!("Redis at {}: {error}", self.address())));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {:?}", self.call_timeout),
        };
        Err(self.drop_connection(number, &error))
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), Fault> {
        let current = |state: &State| {
            let open = state.connection.as_ref().filter(|open| !open.is_closed.load(Ordering::Relaxed))?;
            Some((state.number, open.connection.clone()))
        };
        if let Some(current) = current(&self.state.lock()) {
            return Ok(current);
        }
        let since = Instant::now();
        let _one_at_a_time = self.connecting.lock().await;
        {
            let state = self.state.lock();
            if let Some(current) = current(&state) {
                return Ok(current);
            }
            // Another caller has tried meanwhile.
            if let Some(Outage { at, fault }) = &state.outage
                && (*at > since || at.elapsed() < RECONNECT_DELAY)
            {
                return Err(fault.clone());
            }
        }
        let connected = match tokio::time::timeout(self.connect_timeout, self.connect()).await {
            Ok(connected) => connected,
            Err(_) => {
                // A server without TLS waits for the end of what it takes for a command.
                let hint = if self.tls.is_some() { "; check that this port has TLS" } else { "" };
                Err(Fault::Unavailable(format!(
                    "no connection to Redis at {} within {:?}{hint}",
                    self.address(),
                    self.connect_timeout
                )))
            }
        };
        let mut state = self.state.lock();
        match connected {
            Ok(open) => {
                if state.outage.take().is_some() {
                    tracing::info!(server = self.address(), "Redis is available again");
                }
                state.number += 1;
                state.connection = Some(open.clone());
                Ok((state.number, open.connection))
            }
            Err(fault) => {
                state.fail(&self.address(), fault.clone());
                Err(fault)
            }
        }
    }

    async fn connect(&self) -> Result<Open, Fault> {
        // Timeouts are applied by the caller, so that a timed-out call drops its connection.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connected = self.connect_to_address(config).await;
        let mut open = connected.map_err(|error| self.connect_fault(&error))?;
        let info: String = redis::cmd("INFO")
            .query_async(&mut open.connection)
            .await
            .map_err(|error| self.connect_fault(&error))?;
        check_server(&info)
            .map_err(|problem| Fault::Invalid(format!("Redis at {} {problem}", self.address())))?;
        Ok(open)
    }

    async fn connect_to_address(&self, config: AsyncConnectionConfig) -> RedisResult<Open> {
        let server = self.client.get_connection_info();
        let is_closed = Arc::new(AtomicBool::new(false));
        let ConnectionAddr::Tcp(host, port) = server.addr() else {
            if self.tls.is_some() {
                return Err((ErrorKind::InvalidClientConfig, "TLS needs a host name").into());
            }
            let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
            return Ok(Open { connection, is_closed });
        };
        let stream = crawlway_tls::dial(host, *port, self.tls.as_ref()).await?;
        let (connection, driver) =
            MultiplexedConnection::new_with_config(server.redis_settings(), stream, config).await?;
        let ended = is_closed.clone();
        // It ends with the last handle of the connection, or when the server closes it.
        tokio::spawn(async move {
            driver.await;
            ended.store(true, Ordering::Relaxed);
        });
        Ok(Open { connection, is_closed })
    }

    fn connect_fault(&self, error: &RedisError) -> Fault {
        let text = format!("Redis at {}: {error}", self.address());
        if let Some(advice) = self.tls.as_ref().and_then(|tls| tls.advice(&text)) {
            return Fault::Certificate(format!("{text}; {advice}"));
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Fault::Invalid(text),
            ErrorKind::Server(ServerErrorKind::NoPerm) => Fault::Invalid(format!(
                "{text}; the account needs the commands INFO, SCRIPT, EVAL and EVALSHA"
            )),
            _ => Fault::Unavailable(text),
        }
    }

    /// Drops a connection that failed.
    fn drop_connection(&self, number: u64, error: &str) -> Fault {
        let fault = Fault::Unavailable(format!("Redis at {}: {error}", self.address()));
        let mut state = self.state.lock();
        if state.number == number && state.connection.take().is_some() {
            state.fail(&self.address(), fault.clone());
        }
        fault
    }

    /// Address of the server, without the password.
    fn address(&self) -> String {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                format!("{host}:{port}")
            }
            other => other.to_string(),
        }
    }
}

impl State {
    fn fail(&mut self, address: &str, fault: Fault) {
        if self.outage.is_none() {
            tracing::warn!(server = address, error = %fault, "Redis is unavailable; reconnecting");
        }
        self.outage = Some(Outage { at: Instant::now(), fault });
    }
}

/// Error of a server that has become a replica. Its name may resolve to the new primary by now.
fn read_only(answer: &Value) -> Option<String> {
    match answer {
        Value::ServerError(error) if error.code() == "READONLY" => Some(format!("{error:?}")),
        _ => None,
    }
}

/// Checks the `INFO` of a server against the requirements of the contracts.
fn check_server(info: &str) -> Result<(), String> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_default()
    };
    let version = field("redis_version");
    if version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
        .is_none_or(|major: u32| major < MIN_VERSION)
    {
        return Err(format!("has version `{version}`; use {MIN_VERSION}.0 or later"));
    }
    let policy = field("maxmemory_policy");
    if field("maxmemory") != "0" && policy != "noeviction" {
        return Err(format!(
            "evicts keys when its memory is full (maxmemory-policy is {policy}), which would break rate limits; \
             set maxmemory-policy to noeviction, or maxmemory to 0"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_or_evicts_keys_is_refused() {
        let info = |version: &str, memory: &str, policy: &str| {
            format!(
                "# Server\r\nredis_version:{version}\r\n\r\nmaxmemory:{memory}\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        assert_eq!(check_server(&info("7.0.15", "0", "allkeys-lru")), Ok(()));
        assert_eq!(check_server(&info("10.1.0", "1000", "noeviction")), Ok(()));
        assert!(
            check_server(&info("6.2.7", "0", "noeviction"))
                .unwrap_err()
                .contains("`6.2.7`; use 7.0 or later")
        );
        assert!(
            check_server(&info("7.0.15", "1000", "volatile-ttl")).unwrap_err().contains("is volatile-ttl")
        );
        assert!(check_server("no fields").is_err());
    }
}
