//! Steps of rate limiter cases.
//!
//! Tickets and their permits have names; `x1..3` stands for `x1 x2 x3`, and a call without a name has a ticket of its own. A
//! time is a mark, a ticket, which stands for its slot, or its lease such as `x1.lease`, and a span: `end+2s`. Default limits:
//! a concurrency of 1 and a minimum delay of 2 s. Outcomes are `success`, `failed`, `neutral`, `blocked` and `blocked:60s`.
//! Reasons to wait are `min_delay`, `concurrency`, `backoff`, `circuit_open` and `overloaded`.
//!
//! | step | call and expectation |
//! |---|---|
//! | `policy KEY VALUE`, `policy breaker` | first steps: policy; three failures open the circuit breaker for 100 to 300 s |
//! | `group NAME`, `limits 4 2s` | group and limits of the next steps; `_` is a new group each time |
//! | `elsewhere`, `here` | the next steps use another handle, or the first again |
//! | `go a b` | permits at once |
//! | `at a b` | permits at their slots, within the slack |
//! | `each a b [taking 1s]` | the same, and each ends with success |
//! | `acquire a` | asks until there is a permit, three times at most |
//! | `wait a [= REASON at TIME from TIME same jitter N TIME]` | slots: about or from this time, as before, in back-off N |
//! | `early a …`, `peek …` | the same if there is no slack; the same, and its slot is cancelled |
//! | `send [OUTCOME]`, `end a b [OUTCOME]`, `fenced a [OUTCOME]` | a request without duration; finishes, and marks `end` |
//! | `extend a b = yes no`, `cancel a` | leases; cancels a slot |
//! | `trip`, `open 100s` | fails until the breaker is open; it is open for so long after `end`, which passes |
//! | `backoffs 1..4 OUTCOME` | failures in a row, with the back-off after each, which passes |
//! | `about TIME = TIME`, `before TIME`, `apart a b [exactly]`, `spread a b` | times; slots a minimum delay apart, or spread |
//! | `tracked 2`, `tracked 1+` | number of groups |
//! | `pass 2s [slack]`, `until TIME [slack]`, `mark NAME` | time passes, with the slack; names the present time |

use super::fixture::*;
use crate::script::{Step, duration, is_yes, number, shifted, steps};

/// Opens much longer than any back-off of the policy.
const BREAKER: CircuitBreakerPolicy = CircuitBreakerPolicy {
    failure_threshold: 3,
    cooldown: Duration::from_secs(100),
    max: Duration::from_secs(300),
};

pub(super) async fn run(harness: Fresh<'_>, script: &str) {
    let steps = steps(script);
    let mut policy = default_policy();
    let settings = steps.iter().take_while(|step| step.starts_with("policy ")).count();
    for step in &steps[..settings] {
        match &Step::parse(step).args[..] {
            ["breaker"] => {
                policy.breaker = Some(BREAKER);
                policy.backoff.max = Duration::from_secs(8);
            }
            ["backoff", max] => policy.backoff.max = duration(max),
            ["initial_latency", latency] => policy.initial_latency = duration(latency),
            ["max_retry_after", max] => policy.max_retry_after = duration(max),
            ["failure_ttl", ttl] => policy.failure_ttl = duration(ttl),
            ["max_slots", max] => policy.max_slots = number(max),
            ["max_defer", max] => policy.max_defer = duration(max),
            other => panic!("`{other:?}` is no setting"),
        }
    }
    let t = Fixture::with(harness, policy).await;
    let mut story = Story {
        here: t.store.clone(),
        t,
        limits: ALONE,
        group: group("g"),
        groups: HashMap::new(),
        tickets: HashMap::new(),
        permits: HashMap::new(),
        times: HashMap::new(),
    };
    for step in &steps[settings..] {
        story.step(step).await;
    }
}

/// Names, with `x1..3` for `x1 x2 x3`; `_` if there is none.
fn names(words: &[&str]) -> Vec<String> {
    let expand = |word: &&str| match word.split_once("..") {
        Some((first, last)) => {
            let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
            let first: usize = number(&first[stem.len()..]);
            (first..=number(last)).map(|place| format!("{stem}{place}")).collect()
        }
        None => vec![(*word).to_owned()],
    };
    let names: Vec<String> = words.iter().flat_map(expand).collect();
    if names.is_empty() { vec!["_".to_owned()] } else { names }
}

fn outcome(word: &str) -> Option<RequestOutcome> {
    Some(match word {
        "success" => RequestOutcome::Success,
        "failed" => RequestOutcome::Failed,
        "neutral" => RequestOutcome::Neutral,
        "blocked" => BLOCKED,
        word => {
            let seconds = number(word.strip_prefix("blocked:")?.trim_end_matches('s'));
            RequestOutcome::Blocked { retry_after: Some(Duration::from_secs(seconds)) }
        }
    })
}

fn reason(word: &str) -> WaitReason {
    match word {
        "min_delay" => WaitReason::MinDelay,
        "concurrency" => WaitReason::Concurrency,
        "backoff" => WaitReason::Backoff,
        "circuit_open" => WaitReason::CircuitOpen,
        "overloaded" => WaitReason::Overloaded,
        other => panic!("`{other}` is no reason to wait"),
    }
}

/// Names, and the outcome behind them, which is a success by default.
fn with_outcome(words: &[&str]) -> (Vec<String>, RequestOutcome) {
    match words.split_last().and_then(|(last, rest)| outcome(last).map(|outcome| (rest, outcome))) {
        Some((rest, outcome)) => (names(rest), outcome),
        None => (names(words), RequestOutcome::Success),
    }
}

struct Story<'h> {
    t: Fixture<'h>,
    here: Arc<dyn RateLimiter>,
    limits: RateLimits,
    group: Group,
    groups: HashMap<String, Group>,
    tickets: HashMap<String, Ticket>,
    permits: HashMap<String, Permit>,
    /// Marks, slots and ends of leases.
    times: HashMap<String, Timestamp>,
}

impl Story<'_> {
    fn time(&self, word: &str) -> Timestamp {
        let (name, span) = word.split_at(word.find(['+', '-']).unwrap_or(word.len()));
        let time = self.times.get(name).unwrap_or_else(|| panic!("there is no time `{name}`"));
        if span.is_empty() { *time } else { shifted(*time, span) }
    }

    fn mark(&mut self, name: &str) {
        self.times.insert(name.to_owned(), self.t.now());
    }

    /// The ticket of a name, a new one if it has none that waits.
    fn ticket(&mut self, name: &str) -> Ticket {
        let new = ticket();
        if name == "_" { new } else { *self.tickets.entry(name.to_owned()).or_insert(new) }
    }

    fn holds(&mut self, name: &str, permit: Permit) {
        self.tickets.remove(name);
        self.times.insert(format!("{name}.lease"), permit.until);
        self.permits.insert(name.to_owned(), permit);
    }

    /// A permit at once, or at the slot of the ticket.
    async fn go(&mut self, name: &str, at_slot: bool, step: &str) {
        let ticket = self.ticket(name);
        let permit = if at_slot {
            self.t.goes_at(self.time(name), &self.group, ticket, &self.limits, step).await
        } else {
            self.t.goes_with(&self.group, ticket, &self.limits, step).await
        };
        self.holds(name, permit);
    }

    async fn end(&mut self, name: &str, outcome: RequestOutcome) {
        self.mark("end");
        self.t.finish(&self.permits[name], outcome).await;
    }

    async fn wait(&mut self, name: &str, expected: &[&str], step: &str) {
        let ticket = self.ticket(name);
        let (at, why) = self.t.waits_with(&self.group, ticket, &self.limits, step).await;
        let mut words = expected.iter();
        let missing = || panic!("{step}: a value is missing");
        while let Some(word) = words.next() {
            match *word {
                "same" => assert_eq!(at, self.time(name), "{step}"),
                "at" => self.t.about(at, self.time(words.next().unwrap_or_else(missing)), step),
                "from" => {
                    let min = self.time(words.next().unwrap_or_else(missing));
                    assert!(at >= min, "{step}: {at:?} is before {min:?}");
                }
                "jitter" => {
                    let failures = number(words.next().unwrap_or_else(missing));
                    let since = self.time(words.next().unwrap_or_else(missing));
                    self.t.check_backoff(at.since(since), failures, step);
                }
                word => assert_eq!(why, reason(word), "{step}: until {at:?}"),
            }
        }
        self.times.insert(name.to_owned(), at);
    }

    async fn cancel(&mut self, name: &str) {
        let ticket = self.ticket(name);
        assert_eq!(self.t.store.cancel(&self.group, ticket).await, Ok(()), "cancelling a slot");
        self.tickets.remove(name);
    }

    async fn peek(&mut self, expected: &[&str], step: &str) {
        self.wait("peek", expected, step).await;
        self.cancel("peek").await;
    }

    async fn acquire(&mut self, name: &str) {
        let ticket = self.ticket(name);
        for _ in 0..3 {
            match self.t.ask(&self.group, ticket, &self.limits).await {
                Reservation::Granted(permit) => return self.holds(name, permit),
                Reservation::NotBefore { at, .. } => self.t.pass_until(at).await,
            }
        }
        panic!("a ticket that comes at its slot must get a permit in the end");
    }

    async fn extend(&self, names: &[String], held: &[bool], step: &str) {
        let permits: Vec<Permit> = names.iter().map(|name| self.permits[name].clone()).collect();
        let until = self.t.now() + self.t.store.policy().lease;
        let answers = self.t.store.extend(&permits).await;
        assert_eq!(answers.len(), held.len(), "{step}: one answer per permit");
        for ((permit, answer), held) in permits.iter().zip(answers).zip(held) {
            match answer {
                Ok(end) if *held => self.t.about(end, until, step),
                answer => {
                    let fenced = Err(RateLimiterError::Fenced { group: permit.group.clone() });
                    assert_eq!((answer, *held), (fenced, false), "{step}");
                }
            }
        }
    }

    fn are_apart(&self, names: &[String], exactly: bool, step: &str) {
        let slots: Vec<Timestamp> = names.iter().map(|name| self.time(name)).collect();
        let delay = self.limits.min_delay;
        for pair in slots.windows(2) {
            assert!(pair[1] >= pair[0] + delay, "{step}: slots less than {delay:?} apart: {slots:?}");
            let near = pair[1] <= pair[0] + delay + self.t.slack();
            assert!(near || !exactly, "{step}: slots more than {delay:?} apart: {slots:?}");
        }
    }

    async fn step(&mut self, step: &str) {
        let Step { verb, args, answer, .. } = Step::parse(step);
        let slack = if args.get(1) == Some(&"slack") { self.t.slack() } else { Duration::ZERO };
        match verb {
            "group" if args[0] == "_" => self.group = group("new"),
            "group" => {
                let new = || group(args[0]);
                self.group = self.groups.entry(args[0].to_owned()).or_insert_with(new).clone();
            }
            "limits" => self.limits = limits(number(args[0]), duration(args[1])),
            "elsewhere" => self.t.store = self.t.another_handle().await,
            "here" => self.t.store = self.here.clone(),
            "mark" => self.mark(args[0]),
            "pass" => self.t.pass(duration(args[0]) + slack).await,
            "until" => self.t.pass_until(self.time(args[0]) + slack).await,
            "before" => assert!(self.t.now() < self.time(args[0]), "{step}: it is {:?}", self.t.now()),
            "about" => self.t.about(self.time(args[0]), self.time(answer[0]), step),
            "go" | "at" => {
                for name in names(&args) {
                    self.go(&name, verb == "at", step).await;
                }
            }
            "each" => {
                let place = args.iter().position(|word| *word == "taking").unwrap_or(args.len());
                for name in names(&args[..place]) {
                    self.go(&name, true, step).await;
                    self.t.pass(args.get(place + 1).map_or(Duration::ZERO, |time| duration(time))).await;
                    self.end(&name, RequestOutcome::Success).await;
                }
            }
            "acquire" => self.acquire(args[0]).await,
            "early" if !self.t.slack().is_zero() => {}
            "wait" | "early" => {
                for name in names(&args) {
                    self.wait(&name, &answer, step).await;
                }
            }
            "peek" => self.peek(&answer, step).await,
            "send" => {
                self.go("_", false, step).await;
                self.end("_", with_outcome(&args).1).await;
            }
            "end" => {
                let (names, outcome) = with_outcome(&args);
                for name in names {
                    self.end(&name, outcome).await;
                }
            }
            "fenced" => {
                let (names, outcome) = with_outcome(&args);
                self.t.fenced(&self.permits[&names[0]], outcome, step).await;
            }
            "extend" => {
                let held: Vec<bool> = answer.iter().map(|word| is_yes(word)).collect();
                self.extend(&if args.is_empty() { vec![] } else { names(&args) }, &held, step).await;
            }
            "cancel" => {
                for name in names(&args) {
                    self.cancel(&name).await;
                }
            }
            "trip" => {
                for _ in 0..BREAKER.failure_threshold {
                    self.acquire("failure").await;
                    self.end("failure", BLOCKED).await;
                }
            }
            "open" => {
                let until = format!("end+{}", args[0]);
                self.peek(&["circuit_open", "at", &until], step).await;
                let until = self.time("peek");
                self.t.pass_until(until - MOMENT).await;
                if self.t.slack().is_zero() {
                    self.peek(&["circuit_open", "same"], step).await;
                }
                self.t.pass_until(until).await;
            }
            "backoffs" => {
                let (first, last) = args[0].split_once("..").unwrap_or((args[0], args[0]));
                for failures in number::<u32>(first)..=number(last) {
                    self.go("_", false, step).await;
                    self.end("_", outcome(args[1]).unwrap_or_else(|| panic!("{step}: no outcome"))).await;
                    self.peek(&["backoff", "jitter", &failures.to_string(), "end"], step).await;
                    self.t.pass_until(self.time("peek")).await;
                }
            }
            "apart" => {
                let exactly = args.last() == Some(&"exactly");
                self.are_apart(&names(&args[..args.len() - usize::from(exactly)]), exactly, step);
            }
            "spread" => {
                let names = names(&args);
                let slots: HashSet<Timestamp> = names.iter().map(|name| self.time(name)).collect();
                assert!(slots.len() > names.len() / 2, "{step}: {slots:?}");
            }
            "tracked" => {
                let tracked = self.t.tracked().await;
                match args[0].strip_suffix('+') {
                    Some(min) => assert!(tracked >= number(min), "{step}, not {tracked}"),
                    None => assert_eq!(tracked, number::<u64>(args[0]), "{step}"),
                }
            }
            other => panic!("there is no step `{other}`"),
        }
    }
}
