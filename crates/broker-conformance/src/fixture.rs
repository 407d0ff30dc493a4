//! Test fixture: a broker with its harness, and helpers to publish, poll, wait and fail over.

use crate::prelude::*;
use std::fmt::Debug;
use tokio::task::JoinHandle;

/// No delay.
pub(super) const NOW: Duration = Duration::ZERO;
/// A delay that cases wait for, in whole seconds for brokers without a finer unit.
pub(super) const SOON: Duration = Duration::from_secs(2);
/// A delay that no case waits for.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// A lease that cases let expire.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// Time between two polls.
pub(super) const STEP: Duration = Duration::from_millis(50);
/// Tolerance for busy machines in upper bounds.
pub(super) const SLACK: Duration = Duration::from_secs(10);

/// Kind of outage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outage {
    Restart,
    Crash,
}

impl Outage {
    pub(super) const BOTH: [Self; 2] = [Self::Restart, Self::Crash];
}

/// A receive in a background task.
pub(super) type Receiving = JoinHandle<Result<Vec<Delivery>, BrokerError>>;

/// A queue with default settings and a unique name.
pub(super) fn queue(stem: &str) -> QueueSpec {
    QueueSpec::new(QueueName::new(&unique(stem)).expect("the suite's queue names are allowed"))
}

/// A unique name with this prefix.
pub(super) fn unique(stem: &str) -> String {
    // The tail of a version 7 UUID is random.
    format!("{stem}-{}", &MessageId::random().as_str()[24..])
}

pub(super) fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.message.body).into_owned()
}

/// One message per body.
pub(super) fn batch<S: AsRef<str>>(queue: &QueueName, bodies: &[S]) -> Vec<Outgoing> {
    bodies.iter().map(|body| Outgoing::to_queue(queue, body.as_ref().to_owned())).collect()
}

pub(super) struct Fixture<'h> {
    pub(super) harness: &'h mut dyn Harness,
    broker: Option<Arc<dyn QueueBackend>>,
    specs: Vec<QueueSpec>,
}

impl<'h> Fixture<'h> {
    /// A fresh broker without queues.
    pub(super) async fn open(harness: &'h mut dyn Harness) -> Self {
        let broker = Some(harness.fresh().await);
        Self { harness, broker, specs: Vec::new() }
    }

    /// A fresh broker with one queue.
    pub(super) async fn with(harness: &'h mut dyn Harness, spec: QueueSpec) -> (Self, QueueName) {
        let mut fixture = Self::open(harness).await;
        let name = fixture.declare(spec).await;
        (fixture, name)
    }

    /// A fresh broker with a queue whose spec needs an aspect. If the aspect is not supported, asserts that the spec is
    /// refused and returns `None`.
    pub(super) async fn with_aspect(
        harness: &'h mut dyn Harness,
        aspect: Aspect,
        spec: QueueSpec,
    ) -> Option<(Self, QueueName)> {
        let mut fixture = Self::open(harness).await;
        let name = fixture.declare_if_supported(aspect, spec).await?;
        Some((fixture, name))
    }

    /// Declares a queue whose spec needs an aspect; `None` if it is refused as it should be.
    pub(super) async fn declare_if_supported(
        &mut self,
        aspect: Aspect,
        spec: QueueSpec,
    ) -> Option<QueueName> {
        if self.supports(aspect) {
            return Some(self.declare(spec).await);
        }
        self.assert_refused(aspect, &spec).await;
        None
    }

    /// Asserts that the spec is refused because of the aspect, and that the queue does not exist.
    pub(super) async fn assert_refused(&self, aspect: Aspect, spec: &QueueSpec) {
        match self.broker().declare(std::slice::from_ref(spec)).await {
            Err(BrokerError::Refused { queue, aspect: named, .. }) => {
                assert_eq!((&queue, named), (&spec.name, aspect), "the refusal names queue and aspect");
            }
            other => panic!("a spec that asks for {aspect} must be refused, the answer was {other:?}"),
        }
        let depth = self.broker().depth(&spec.name).await;
        assert!(depth.is_err(), "a refused queue must not exist, its depth was {depth:?}");
    }

    /// The value of a call that needs an aspect; `None` if the aspect is not supported and the call is refused for it.
    pub(super) fn supported<T: Debug>(&self, aspect: Aspect, answer: Result<T, BrokerError>) -> Option<T> {
        match answer {
            Ok(value) if self.supports(aspect) => Some(value),
            Err(BrokerError::Refused { aspect: named, .. }) if named == aspect && !self.supports(aspect) => {
                None
            }
            other => panic!("{aspect} is {:?}, the answer was {other:?}", self.guarantees().of(aspect)),
        }
    }

    pub(super) async fn declare(&mut self, spec: QueueSpec) -> QueueName {
        let name = spec.name.clone();
        self.declare_all(vec![spec]).await;
        name
    }

    pub(super) async fn declare_all(&mut self, specs: Vec<QueueSpec>) {
        let answer = self.broker().declare(&specs).await;
        assert_eq!(answer, Ok(()), "declaring {:?}", specs.iter().map(|spec| &spec.name).collect::<Vec<_>>());
        self.specs.extend(specs);
    }

    pub(super) fn broker(&self) -> &Arc<dyn QueueBackend> {
        self.broker.as_ref().expect("the broker is open, except during an outage")
    }

    /// A second handle if the backend supports it, else the same one.
    pub(super) async fn another_handle(&mut self) -> Arc<dyn QueueBackend> {
        let Some(second) = self.harness.second_handle().await else {
            return self.broker().clone();
        };
        assert_eq!(second.declare(&self.specs).await, Ok(()), "declaring the same on a second handle");
        second
    }

    pub(super) fn guarantees(&self) -> Guarantees {
        self.broker().guarantees()
    }

    pub(super) fn supports(&self, aspect: Aspect) -> bool {
        self.guarantees().supports(aspect)
    }

    pub(super) fn native(&self, aspect: Aspect) -> bool {
        self.guarantees().of(aspect) == Support::Native
    }

    pub(super) fn now(&self) -> Timestamp {
        self.harness.now()
    }

    pub(super) async fn advance(&mut self, time: Duration) {
        self.harness.pass(time).await;
    }

    /// Advances the clock beyond this time and the maximum lateness.
    pub(super) async fn advance_past(&mut self, time: Timestamp) {
        let rest = time.since(self.now()) + self.guarantees().max_lateness;
        self.advance(rest + Duration::from_millis(1)).await;
    }

    pub(super) async fn restart(&mut self) {
        self.outage(Outage::Restart).await;
    }

    pub(super) async fn crash(&mut self) {
        self.outage(Outage::Crash).await;
    }

    /// Restarts or crashes the broker, and declares the queues again.
    pub(super) async fn outage(&mut self, outage: Outage) {
        self.broker = None;
        let broker = match outage {
            Outage::Restart => self.harness.restart().await,
            Outage::Crash => self.harness.crash().await,
        };
        assert_eq!(broker.declare(&self.specs).await, Ok(()), "declaring the same after a {outage:?}");
        self.broker = Some(broker);
    }

    /// Publishes messages, which must all be accepted.
    pub(super) async fn publish(&self, batch: Vec<Outgoing>) {
        let count = batch.len();
        let outcomes = self.broker().publish(batch).await;
        assert_eq!(outcomes.len(), count, "one outcome per published message");
        for (i, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome, &Ok(()), "message {i} of {count} must be accepted");
        }
    }

    /// Publishes texts.
    pub(super) async fn send_all<S: AsRef<str>>(&self, queue: &QueueName, bodies: &[S]) {
        self.publish(batch(queue, bodies)).await;
    }

    pub(super) async fn send(&self, queue: &QueueName, body: &str) {
        self.send_all(queue, &[body]).await;
    }

    /// Publishes a text to an otherwise empty queue and takes it.
    pub(super) async fn send_and_take(&mut self, queue: &QueueName, body: &str) -> Delivery {
        self.send(queue, body).await;
        self.take(queue).await
    }

    /// Polls the queue once.
    pub(super) async fn poll(&self, queue: &QueueName, max: usize) -> Vec<Delivery> {
        let got = self.broker().receive(queue, max, self.harness.poll_timeout()).await;
        let got = got.unwrap_or_else(|error| panic!("receiving from `{queue}`: {error}"));
        assert!(got.len() <= max, "asked `{queue}` for {max} at most, got {}", got.len());
        for delivery in &got {
            assert_eq!(&delivery.receipt.queue, queue, "a receipt names the queue it is of");
            assert!(delivery.attempt >= 1, "attempts count from 1, got {}", delivery.attempt);
        }
        got
    }

    /// Polls until at least one message is received.
    pub(super) async fn receive_some(&mut self, queue: &QueueName, max: usize, what: &str) -> Vec<Delivery> {
        self.until(&format!("{what} from `{queue}`"), async |t| {
            let got = t.poll(queue, max).await;
            if got.is_empty() { Err("nothing".to_owned()) } else { Ok(got) }
        })
        .await
    }

    /// Takes the next message.
    pub(super) async fn take(&mut self, queue: &QueueName) -> Delivery {
        self.receive_some(queue, 1, "a delivery").await.remove(0)
    }

    /// Takes the next message and settles it as done.
    pub(super) async fn consume(&mut self, queue: &QueueName) -> Delivery {
        let delivery = self.take(queue).await;
        self.done(&delivery).await;
        delivery
    }

    /// Takes this many messages, all in flight together.
    pub(super) async fn take_all(&mut self, queue: &QueueName, count: usize) -> Vec<Delivery> {
        let mut held = Vec::new();
        while held.len() < count {
            let what = format!("delivery {} of {count}", held.len() + 1);
            held.extend(self.receive_some(queue, count - held.len(), &what).await);
        }
        held
    }

    /// Takes the next message, which must be due at this time: not earlier, and not much later.
    pub(super) async fn take_at(&mut self, queue: &QueueName, due: Timestamp, what: &str) -> Delivery {
        let delivery = self.receive_some(queue, 1, what).await.remove(0);
        let now = self.now();
        assert!(now >= due, "{what} came {:?} too early: due at {due:?}, came by {now:?}", due.since(now));
        let latest = due + self.guarantees().max_lateness + SLACK;
        assert!(now <= latest, "{what} is late: due at {due:?}, received at {now:?}, latest {latest:?}");
        delivery
    }

    /// Takes and settles exactly this many messages, and returns their bodies.
    pub(super) async fn drain(&mut self, queue: &QueueName, count: usize) -> Vec<String> {
        let mut bodies = Vec::new();
        while bodies.len() < count {
            let what = format!("message {} of {count}", bodies.len() + 1);
            for delivery in self.receive_some(queue, count - bodies.len(), &what).await {
                bodies.push(text(&delivery));
                self.done(&delivery).await;
            }
        }
        self.expect_none(queue, &format!("all {count} were taken")).await;
        bodies
    }

    /// Takes and settles messages until all these bodies were seen, and returns all bodies.
    pub(super) async fn drain_until(
        &mut self,
        queue: &QueueName,
        expected: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        while !seen.is_superset(expected) {
            seen.insert(text(&self.consume(queue).await));
        }
        seen
    }

    /// Asserts that no message is ready.
    pub(super) async fn expect_none(&mut self, queue: &QueueName, because: &str) {
        for _ in 0..2 {
            let bodies: Vec<String> = self.poll(queue, 10).await.iter().map(text).collect();
            assert!(bodies.is_empty(), "expected nothing from `{queue}`, since {because}; got {bodies:?}");
        }
    }

    /// Starts a receive that must wait.
    pub(super) async fn start_receive(&self, queue: &QueueName, max: usize, because: &str) -> Receiving {
        let (broker, queue) = (self.broker().clone(), queue.clone());
        let receiving = tokio::spawn(async move { broker.receive(&queue, max, LONG).await });
        tokio::time::sleep(self.harness.poll_timeout()).await;
        assert!(!receiving.is_finished(), "a receive must wait, since {because}");
        receiving
    }

    /// Result of a receive that had to wait.
    pub(super) async fn await_receive(
        &self,
        receiving: Receiving,
        because: &str,
    ) -> Result<Vec<Delivery>, BrokerError> {
        let ended = tokio::time::timeout(self.harness.deadline(), receiving).await;
        let ended = ended.unwrap_or_else(|_| panic!("the waiting receive must return, since {because}"));
        ended.expect("the receiving task")
    }

    /// Bodies from a receive that had to wait.
    pub(super) async fn await_bodies(&self, receiving: Receiving, because: &str) -> Vec<String> {
        let got = self.await_receive(receiving, because).await.expect("a receive that waits");
        got.iter().map(text).collect()
    }

    /// Polls until there is a result. Times out only on both clocks: real time means nothing to a manual clock, and a manual
    /// clock nothing to a broker with background work.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut ask: impl AsyncFnMut(&Self) -> Result<T, String>,
    ) -> T {
        let (started, from) = (Instant::now(), self.now());
        loop {
            let found = match ask(self).await {
                Ok(answer) => return answer,
                Err(found) => found,
            };
            let (real, passed) = (started.elapsed(), self.now().since(from));
            let timed_out = real > self.harness.deadline() && passed > self.guarantees().max_lateness + SLACK;
            assert!(!timed_out, "expected {what}, found {found} (after {real:?}, broker clock {passed:?})");
            self.advance(STEP).await;
        }
    }
}
