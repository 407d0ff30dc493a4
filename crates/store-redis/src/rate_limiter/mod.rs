//! The gate on Redis: one script does what a call does, by the server's clock, whoever asks.
//!
//! Per group there are four keys, which vanish when the group can be forgotten; `book.lua` says what is in them.

use crate::{
    RedisStore,
    fault::Fault,
    options::millis,
    script::{Call, First, Script, nonsense, texts},
};
use crawlway_store::{
    Gate, GateError, Group, Limits, Outcome, Permit, Policy, Ticket, Timestamp, Turn, Why, gate::Jitter,
};
use redis::Value;
use std::sync::Arc;

/// How many permits one script extends. The server does nothing else meanwhile, so they are not many.
const AT_ONCE: usize = 128;

/// The gate on Redis, shared by all processes. Clones are handles on the same state.
#[derive(Debug, Clone)]
pub struct RedisGate(Arc<State>);

#[derive(Debug)]
struct State {
    store: RedisStore,
    policy: Policy,
    jitter: Jitter,
    calls: Script,
    new_life: Script,
}

impl RedisGate {
    pub(crate) async fn open(store: RedisStore, policy: Policy) -> Result<Self, GateError> {
        policy.check()?;
        let prefix = store.0.prefix();
        let calls = Script::new(
            prefix,
            &[
                include_str!("book.lua"),
                include_str!("line.lua"),
                include_str!("lane.lua"),
                include_str!("calls.lua"),
            ],
        );
        let new_life = Script::new(prefix, &[include_str!("life.lua")]);
        let gate = Self(Arc::new(State { store, policy, jitter: Jitter::random(), calls, new_life }));
        // Now rather than at the first request: if the gate's life begins here, the gap from then on passes meanwhile.
        gate.tracked().await?;
        Ok(gate)
    }
}

impl State {
    fn key(&self, rest: &str) -> String {
        self.store.0.key(&format!("gate:{rest}"))
    }

    /// A call that says nothing yet of its groups.
    fn call(&self, name: &str) -> Call {
        let mut call = Call { keys: vec![self.key("life"), self.key("groups")], arguments: vec![] };
        call.push(self.store.0.time.told());
        call.push(name);
        let Policy { back_off, breaker, .. } = &self.policy;
        let (failures, cool_down, longest_open) = breaker
            .map_or((0, 0, 0), |breaker| (breaker.failures, millis(breaker.cool_down), millis(breaker.most)));
        for number in [
            millis(self.policy.lease),
            millis(self.policy.grace),
            millis(back_off.first),
            millis(back_off.most),
            u64::from(failures),
            cool_down,
            longest_open,
            millis(self.policy.first_guess),
            millis(self.policy.idle),
            millis(self.policy.grudge),
            self.policy.most_groups as u64,
            self.policy.longest_line as u64,
            self.store.0.time.spare(),
        ] {
            call.push(number);
        }
        call
    }

    /// A call about one group.
    fn call_of(&self, name: &str, group: &Group) -> Call {
        let mut call = self.call(name);
        self.name(group, &mut call);
        call
    }

    fn name(&self, group: &Group, call: &mut Call) {
        for kind in ["lane", "flight", "leases", "line"] {
            call.keys.push(self.key(&format!("{kind}:{group}")));
        }
        call.push(group);
    }

    async fn ask(&self, call: Call) -> Result<Vec<String>, Fault> {
        let mut life = Call { keys: vec![self.key("life")], arguments: vec![] };
        life.push(self.store.0.time.told());
        let first = First {
            script: &self.new_life,
            call: &life,
            why: "Redis does not know the gate, as after each of its starts: every group waits one gap from now on",
        };
        let answers = self.calls.call(&self.store.0.link, &[call], Some(first)).await?;
        let answer = answers.first().unwrap_or(&Value::Nil);
        texts(answer).ok_or_else(|| nonsense(answer))
    }

    /// By how much a back-off is off, in thousandths of a percent of itself.
    fn jitter(&self) -> u64 {
        let percent = u64::from(self.policy.back_off.jitter_percent);
        100_000 - percent * 1000 + self.jitter.number() % (2 * percent * 1000 + 1)
    }
}

#[async_trait::async_trait]
impl Gate for RedisGate {
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
        turn(group, &answer).ok_or_else(|| unclear(&answer))
    }

    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError> {
        let mut call = self.0.call_of("leave", group);
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
            _ => Err(unclear(&answer)),
        }
    }

    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>> {
        let mut extended = Vec::with_capacity(permits.len());
        for permits in permits.chunks(AT_ONCE) {
            let mut call = self.0.call("extend");
            for permit in permits {
                self.0.name(&permit.group, &mut call);
                call.push(id(permit));
            }
            let answers = self.0.ask(call).await.map_err(GateError::from);
            extended.extend(permits.iter().enumerate().map(|(number, permit)| {
                let answers = answers.as_ref().map_err(Clone::clone)?;
                match answers.get(number).map(String::as_str) {
                    Some("fenced") => Err(GateError::Fenced { group: permit.group.clone() }),
                    Some(until) => time(until).ok_or_else(|| unclear(answers)),
                    None => Err(unclear(answers)),
                }
            }));
        }
        extended
    }

    async fn tracked(&self) -> Result<u64, GateError> {
        let answer = self.0.ask(self.0.call("tracked")).await?;
        answer.first().and_then(|count| count.parse().ok()).ok_or_else(|| unclear(&answer))
    }
}

/// The id of a permit as scripts have it: the time of its start, in milliseconds, and six more digits.
fn id(permit: &Permit) -> String {
    format!("{:019}", permit.id)
}

fn turn(group: &Group, answer: &[String]) -> Option<Turn> {
    let (word, rest) = answer.split_first()?;
    let why = match (word.as_str(), rest) {
        ("go", [id, until]) => {
            let permit = Permit { group: group.clone(), id: id.parse().ok()?, until: time(until)? };
            return Some(Turn::Go(permit));
        }
        ("pace", _) => Why::Pace,
        ("busy", _) => Why::Busy,
        ("back_off", _) => Why::BackOff,
        ("open", _) => Why::Open,
        ("crowded", _) => Why::Crowded,
        _ => return None,
    };
    Some(Turn::NotBefore { at: time(rest.first()?)?, why })
}

fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok().map(Timestamp::from_millis)
}

fn unclear(answer: &[String]) -> GateError {
    nonsense(&Value::Array(answer.iter().cloned().map(Value::SimpleString).collect())).into()
}
