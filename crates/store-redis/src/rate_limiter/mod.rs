//! The rate limiter on Redis: one atomic script per call, on the server's clock.
//!
//! Each group has four keys, which expire when the group can be removed; `state.lua` describes them.

use crate::{
    RedisStore,
    fault::Fault,
    options::millis,
    script::{BeforeLoad, Call, Script, texts, unexpected},
};
use crawlway_store::{
    Gate, GateError, Group, Limits, Outcome, Permit, Policy, Ticket, Timestamp, Turn, Why, gate::Jitter,
};
use redis::Value;
use std::sync::Arc;

/// Maximum number of permits of one call, which blocks the server while it runs.
const BATCH_SIZE: usize = 128;

/// Rate limiter on Redis, shared by all processes. Clones are handles on the same state.
#[derive(Debug, Clone)]
pub struct RedisRateLimiter(Arc<State>);

#[derive(Debug)]
struct State {
    store: RedisStore,
    policy: Policy,
    jitter: Jitter,
    commands: Script,
    new_epoch: Script,
}

impl RedisRateLimiter {
    pub(crate) async fn open(store: RedisStore, policy: Policy) -> Result<Self, GateError> {
        policy.check()?;
        let prefix = &store.0.prefix;
        let commands = Script::new(
            prefix,
            &[
                include_str!("state.lua"),
                include_str!("slots.lua"),
                include_str!("group.lua"),
                include_str!("commands.lua"),
            ],
        );
        let new_epoch = Script::new(prefix, &[include_str!("epoch.lua")]);
        let limiter = Self(Arc::new(State { store, policy, jitter: Jitter::random(), commands, new_epoch }));
        // Begins a new epoch now if necessary, so that its minimum delay passes before the first request.
        limiter.tracked().await?;
        Ok(limiter)
    }
}

impl State {
    fn key(&self, rest: &str) -> String {
        self.store.0.key(&format!("gate:{rest}"))
    }

    /// A call with the common arguments, without groups.
    fn call(&self, name: &str) -> Call {
        let mut call = Call { keys: vec![self.key("life"), self.key("groups")], arguments: vec![] };
        call.push(self.store.0.clock.argument());
        call.push(name);
        let Policy { back_off, breaker, .. } = &self.policy;
        let (failure_threshold, cooldown, max_cooldown) = breaker
            .map_or((0, 0, 0), |breaker| (breaker.failures, millis(breaker.cool_down), millis(breaker.most)));
        for number in [
            millis(self.policy.lease),
            millis(self.policy.grace),
            millis(back_off.first),
            millis(back_off.most),
            u64::from(failure_threshold),
            cooldown,
            max_cooldown,
            millis(self.policy.first_guess),
            millis(self.policy.idle),
            millis(self.policy.grudge),
            self.policy.most_groups as u64,
            self.policy.longest_line as u64,
            self.store.0.clock.ttl_margin(),
        ] {
            call.push(number);
        }
        call
    }

    /// A call about one group.
    fn call_of(&self, name: &str, group: &Group) -> Call {
        let mut call = self.call(name);
        self.add_group(group, &mut call);
        call
    }

    fn add_group(&self, group: &Group, call: &mut Call) {
        for kind in ["lane", "flight", "leases", "line"] {
            call.keys.push(self.key(&format!("{kind}:{group}")));
        }
        call.push(group);
    }

    async fn ask(&self, call: Call) -> Result<Vec<String>, Fault> {
        let mut epoch = Call { keys: vec![self.key("life")], arguments: vec![] };
        epoch.push(self.store.0.clock.argument());
        let before_load = BeforeLoad {
            script: &self.new_epoch,
            call: &epoch,
            message: "Redis has restarted or is new to the rate limiter: every group waits one minimum delay from now on",
        };
        let answers = self.commands.call(&self.store.0.link, &[call], Some(before_load)).await?;
        let answer = answers.first().unwrap_or(&Value::Nil);
        texts(answer).ok_or_else(|| unexpected(answer))
    }

    /// Jitter of a back-off, in thousandths of a percent of its length.
    fn jitter(&self) -> u64 {
        let percent = u64::from(self.policy.back_off.jitter_percent);
        100_000 - percent * 1000 + self.jitter.number() % (2 * percent * 1000 + 1)
    }
}

#[async_trait::async_trait]
impl Gate for RedisRateLimiter {
    fn policy(&self) -> &Policy {
        &self.0.policy
    }

    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Result<Turn, GateError> {
        limits.check(group)?;
        let mut call = self.0.call_of("reserve", group);
        call.push(format!("{:032x}", ticket.as_u128()));
        call.push(limits.in_flight);
        call.push(millis(limits.gap));
        call.push(self.0.jitter.number() % 1_000_000);
        call.push(format!("0.{:09}", self.0.jitter.number() % 1_000_000_000));
        let answer = self.0.ask(call).await?;
        reservation(group, &answer).ok_or_else(|| unexpected_texts(&answer))
    }

    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError> {
        let mut call = self.0.call_of("cancel", group);
        call.push(format!("{:032x}", ticket.as_u128()));
        self.0.ask(call).await?;
        Ok(())
    }

    async fn finish(&self, permit: &Permit, outcome: Outcome) -> Result<(), GateError> {
        let mut call = self.0.call_of("finish", &permit.group);
        call.push(id(permit));
        call.push(match outcome {
            Outcome::Success => "success",
            Outcome::Blocked { .. } | Outcome::Failed => "failure",
            Outcome::Neutral => "neutral",
        });
        call.push(match outcome {
            Outcome::Blocked { retry_after: Some(asked) } => {
                millis(asked.min(self.0.policy.longest_retry_after)).to_string()
            }
            _ => String::new(),
        });
        call.push(self.0.jitter());
        let answer = self.0.ask(call).await?;
        match answer.first().map(String::as_str) {
            Some("finished") => Ok(()),
            Some("fenced") => Err(GateError::Fenced { group: permit.group.clone() }),
            _ => Err(unexpected_texts(&answer)),
        }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>> {
        let mut extended = Vec::with_capacity(permits.len());
        for permits in permits.chunks(BATCH_SIZE) {
            let mut call = self.0.call("extend");
            for permit in permits {
                self.0.add_group(&permit.group, &mut call);
                call.push(id(permit));
            }
            let answers = self.0.ask(call).await.map_err(GateError::from);
            extended.extend(permits.iter().enumerate().map(|(number, permit)| {
                let answers = answers.as_ref().map_err(Clone::clone)?;
                match answers.get(number).map(String::as_str) {
                    Some("fenced") => Err(GateError::Fenced { group: permit.group.clone() }),
                    Some(until) => time(until).ok_or_else(|| unexpected_texts(answers)),
                    None => Err(unexpected_texts(answers)),
                }
            }));
        }
        extended
    }

    async fn tracked(&self) -> Result<u64, GateError> {
        let answer = self.0.ask(self.0.call("tracked")).await?;
        answer.first().and_then(|count| count.parse().ok()).ok_or_else(|| unexpected_texts(&answer))
    }
}

/// Id of a permit as an argument of scripts: the start of its request in milliseconds, and six more digits.
fn id(permit: &Permit) -> String {
    format!("{:019}", permit.id)
}

fn reservation(group: &Group, answer: &[String]) -> Option<Turn> {
    let (word, rest) = answer.split_first()?;
    let why = match (word.as_str(), rest) {
        ("granted", [id, until]) => {
            let permit = Permit { group: group.clone(), id: id.parse().ok()?, until: time(until)? };
            return Some(Turn::Go(permit));
        }
        ("min_delay", _) => Why::Pace,
        ("concurrency", _) => Why::Busy,
        ("backoff", _) => Why::BackOff,
        ("circuit_open", _) => Why::Open,
        ("overloaded", _) => Why::Crowded,
        _ => return None,
    };
    Some(Turn::NotBefore { at: time(rest.first()?)?, why })
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok().map(Timestamp::from_millis)
}

fn unexpected_texts(answer: &[String]) -> GateError {
    unexpected(&Value::Array(answer.iter().cloned().map(Value::SimpleString).collect())).into()
}
