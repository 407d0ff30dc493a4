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
    Group, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome, Reservation,
    Ticket, Timestamp, WaitReason, rate_limiter::Jitter,
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
    policy: RateLimitPolicy,
    jitter: Jitter,
    commands: Script,
    new_epoch: Script,
}

impl RedisRateLimiter {
    pub(crate) async fn open(store: RedisStore, policy: RateLimitPolicy) -> Result<Self, RateLimiterError> {
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
        limiter.tracked_groups().await?;
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
        let RateLimitPolicy { backoff: back_off, breaker, .. } = &self.policy;
        let (failure_threshold, cooldown, max_cooldown) = breaker.map_or((0, 0, 0), |breaker| {
            (breaker.failure_threshold, millis(breaker.cooldown), millis(breaker.max))
        });
        for number in [
            millis(self.policy.lease),
            millis(self.policy.grace),
            millis(back_off.first),
            millis(back_off.max),
            u64::from(failure_threshold),
            cooldown,
            max_cooldown,
            millis(self.policy.initial_latency),
            millis(self.policy.idle_ttl),
            millis(self.policy.failure_ttl),
            self.policy.max_groups as u64,
            self.policy.max_slots as u64,
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
        let percent = u64::from(self.policy.backoff.jitter_percent);
        100_000 - percent * 1000 + self.jitter.next_u64() % (2 * percent * 1000 + 1)
    }
}

#[async_trait::async_trait]
impl RateLimiter for RedisRateLimiter {
    fn policy(&self) -> &RateLimitPolicy {
        &self.0.policy
    }

    async fn reserve(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
    ) -> Result<Reservation, RateLimiterError> {
        limits.check(group)?;
        let mut call = self.0.call_of("reserve", group);
        call.push(format!("{:032x}", ticket.as_u128()));
        call.push(limits.concurrency);
        call.push(millis(limits.min_delay));
        call.push(self.0.jitter.next_u64() % 1_000_000);
        call.push(format!("0.{:09}", self.0.jitter.next_u64() % 1_000_000_000));
        let answer = self.0.ask(call).await?;
        reservation(group, &answer).ok_or_else(|| unexpected_texts(&answer))
    }

    async fn cancel(&self, group: &Group, ticket: Ticket) -> Result<(), RateLimiterError> {
        let mut call = self.0.call_of("cancel", group);
        call.push(format!("{:032x}", ticket.as_u128()));
        self.0.ask(call).await?;
        Ok(())
    }

    async fn finish(&self, permit: &Permit, outcome: RequestOutcome) -> Result<(), RateLimiterError> {
        let mut call = self.0.call_of("finish", &permit.group);
        call.push(id(permit));
        call.push(match outcome {
            RequestOutcome::Success => "success",
            RequestOutcome::Blocked { .. } | RequestOutcome::Failed => "failure",
            RequestOutcome::Neutral => "neutral",
        });
        call.push(match outcome {
            RequestOutcome::Blocked { retry_after: Some(asked) } => {
                millis(asked.min(self.0.policy.max_retry_after)).to_string()
            }
            _ => String::new(),
        });
        call.push(self.0.jitter());
        let answer = self.0.ask(call).await?;
        match answer.first().map(String::as_str) {
            Some("finished") => Ok(()),
            Some("fenced") => Err(RateLimiterError::Fenced { group: permit.group.clone() }),
            _ => Err(unexpected_texts(&answer)),
        }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, RateLimiterError>> {
        let mut extended = Vec::with_capacity(permits.len());
        for permits in permits.chunks(BATCH_SIZE) {
            let mut call = self.0.call("extend");
            for permit in permits {
                self.0.add_group(&permit.group, &mut call);
                call.push(id(permit));
            }
            let answers = self.0.ask(call).await.map_err(RateLimiterError::from);
            extended.extend(permits.iter().enumerate().map(|(number, permit)| {
                let answers = answers.as_ref().map_err(Clone::clone)?;
                match answers.get(number).map(String::as_str) {
                    Some("fenced") => Err(RateLimiterError::Fenced { group: permit.group.clone() }),
                    Some(until) => time(until).ok_or_else(|| unexpected_texts(answers)),
                    None => Err(unexpected_texts(answers)),
                }
            }));
        }
        extended
    }

    async fn tracked_groups(&self) -> Result<u64, RateLimiterError> {
        let answer = self.0.ask(self.0.call("tracked")).await?;
        answer.first().and_then(|count| count.parse().ok()).ok_or_else(|| unexpected_texts(&answer))
    }
}

/// Id of a permit as an argument of scripts: the start of its request in milliseconds, and six more digits.
fn id(permit: &Permit) -> String {
    format!("{:019}", permit.id)
}

fn reservation(group: &Group, answer: &[String]) -> Option<Reservation> {
    let (word, rest) = answer.split_first()?;
    let why = match (word.as_str(), rest) {
        ("granted", [id, until]) => {
            let permit = Permit { group: group.clone(), id: id.parse().ok()?, until: time(until)? };
            return Some(Reservation::Granted(permit));
        }
        ("min_delay", _) => WaitReason::MinDelay,
        ("concurrency", _) => WaitReason::Concurrency,
        ("backoff", _) => WaitReason::Backoff,
        ("circuit_open", _) => WaitReason::CircuitOpen,
        ("overloaded", _) => WaitReason::Overloaded,
        _ => return None,
    };
    Some(Reservation::NotBefore { at: time(rest.first()?)?, reason: why })
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok().map(Timestamp::from_millis)
}

fn unexpected_texts(answer: &[String]) -> RateLimiterError {
    unexpected(&Value::Array(answer.iter().cloned().map(Value::SimpleString).collect())).into()
}
