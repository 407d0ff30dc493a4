//! The rate limiter on Redis: states of groups, swapped by one script, on the server's clock.

mod previous;

use crate::{
    RedisStore,
    fault::Fault,
    options::millis,
    script::{BeforeLoad, Call, Script, unexpected},
};
use crawlway_store::{
    RateLimitPolicy, RateLimiterError, Ticket, Timestamp,
    rate_limiter::shared::{Exchange, Exchanged, GroupStore, Loaded, SharedRateLimiter},
};
use redis::Value;

/// Rate limiter on Redis, shared by all processes. Clones are handles on the same state.
pub type RedisRateLimiter = SharedRateLimiter<RedisGroups>;

/// States of groups on Redis.
#[derive(Debug)]
pub struct RedisGroups {
    store: RedisStore,
    script: Script,
}

/// Opens the rate limiter.
pub(crate) async fn open(
    store: RedisStore,
    policy: RateLimitPolicy,
) -> Result<RedisRateLimiter, RateLimiterError> {
    let failures = previous::failures(&store).await?;
    let script = Script::new(&store.0.prefix, &[include_str!("groups.lua")]);
    let limiter = SharedRateLimiter::open(RedisGroups { store: store.clone(), script }, policy).await?;
    limiter.restore_failures(failures).await?;
    previous::replace(&store).await?;
    Ok(limiter)
}

impl RedisGroups {
    fn key(&self, rest: &str) -> String {
        self.store.0.key(&format!("limiter:{rest}"))
    }

    fn call(&self, command: &str) -> Call {
        let mut call = Call { keys: vec![self.key("life"), self.key("groups")], arguments: vec![] };
        call.push(self.store.0.clock.argument());
        call.push(command);
        call
    }

    fn exchange_call(&self, Exchange { group, tickets, swap }: &Exchange) -> Call {
        let mut call = self.call("exchange");
        call.keys.push(self.key(&format!("state:{group}")));
        let place_key = |ticket: &Ticket| self.key(&format!("place:{:032x}:{group}", ticket.as_u128()));
        call.keys.extend(tickets.iter().map(place_key));
        call.push(group);
        let Some(swap) = swap else { return call };
        call.arguments.push(match swap.expected {
            0 => Vec::new(),
            version => version.to_be_bytes().to_vec(),
        });
        call.push(swap.since.as_millis());
        call.push(swap.decided.as_millis());
        call.push(millis(swap.max_age));
        call.push(swap.expires.as_millis());
        call.push(self.store.0.clock.ttl_margin());
        call.arguments.push([swap.version.to_be_bytes().as_slice(), &swap.state].concat());
        for place in swap.places.iter().flat_map(|(expected, new)| [expected, new]) {
            call.push(place.map(|place| place.to_string()).unwrap_or_default());
        }
        call
    }

    /// Sends calls in one round trip. An unknown script means that the server has restarted or another one has taken over.
    async fn send(&self, calls: &[Call]) -> Result<Vec<Vec<Vec<u8>>>, Fault> {
        let before_load = BeforeLoad {
            script: &self.script,
            call: &self.call("epoch"),
            message: "Redis has restarted or is new to the rate limiter: every group waits one minimum delay from now on",
        };
        let answers = self.script.call(&self.store.0.link, calls, Some(before_load)).await?;
        answers.iter().map(|answer| fields(answer).ok_or_else(|| unexpected(answer))).collect()
    }
}

#[async_trait::async_trait]
impl GroupStore for RedisGroups {
    async fn exchange(&self, exchanges: &[Exchange]) -> Result<Vec<Exchanged>, RateLimiterError> {
        let calls: Vec<Call> = exchanges.iter().map(|exchange| self.exchange_call(exchange)).collect();
        let answers = self.send(&calls).await?;
        answers.iter().map(|answer| exchanged(answer).ok_or_else(|| unreadable(answer))).collect()
    }

    fn test_now(&self) -> Option<Timestamp> {
        self.store.0.clock.test_now()
    }

    async fn count(&self) -> Result<u64, RateLimiterError> {
        let answers = self.send(&[self.call("count")]).await?;
        let count = answers.first().and_then(|answer| number(answer.first()?));
        count.ok_or_else(|| unreadable(answers.first().map_or(&[][..], Vec::as_slice)))
    }
}

fn exchanged(answer: &[Vec<u8>]) -> Option<Exchanged> {
    let time = |text| number(text).map(Timestamp::from_millis);
    let (now, since, state, places) = match answer {
        [now] => return Some(Exchanged::Swapped { now: time(now)? }),
        [now, since, state, places @ ..] => (time(now)?, time(since)?, state, places),
        _ => return None,
    };
    let (version, state) = state
        .split_first_chunk::<8>()
        .map_or((0, &[][..]), |(version, state)| (u64::from_be_bytes(*version), state));
    let places = places.iter().map(|place| number(place)).collect();
    Some(Exchanged::Loaded(Loaded { now, since, version, state: state.to_vec(), places }))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Answer as a list of byte strings.
fn fields(value: &Value) -> Option<Vec<Vec<u8>>> {
    let field = |value: &Value| match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    };
    match value {
        Value::Array(values) => values.iter().map(field).collect(),
        _ => None,
    }
}

fn unreadable(answer: &[Vec<u8>]) -> RateLimiterError {
    unexpected(&Value::Array(answer.iter().cloned().map(Value::BulkString).collect())).into()
}
