//! One case on one broker: the harness, the open handle, and how to poll, wait and break things.

use crate::prelude::*;
use std::fmt::Debug;
use tokio::task::JoinHandle;

/// No delay.
pub(super) const NOW: Duration = Duration::ZERO;
/// A delay that a case waits for: whole seconds, since some brokers know no less.
pub(super) const SOON: Duration = Duration::from_secs(2);
/// A delay that no case waits for.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// A lease that a case lets run out.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// How far time is moved between two polls.
pub(super) const STEP: Duration = Duration::from_millis(50);
/// What a busy machine may add to any upper bound.
pub(super) const SLACK: Duration = Duration::from_secs(10);

/// How a broker goes down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outage {
    Restart,
    Crash,
}

impl Outage {
    pub(super) const BOTH: [Self; 2] = [Self::Restart, Self::Crash];
}

/// A receive on a task of its own.
pub(super) type Receiving = JoinHandle<Result<Vec<Delivery>, BrokerError>>;

/// A queue with the defaults, under a name that no other case and no other run has.
pub(super) fn queue(stem: &str) -> QueueSpec {
    QueueSpec::new(QueueName::new(&unique(stem)).expect("the suite's queue names are allowed"))
}

/// This name, made unique.
pub(super) fn unique(stem: &str) -> String {
    // The tail of a version 7 UUID is its random part.
    format!("{stem}-{}", &MessageId::random().as_str()[24..])
}

/// The body as text, for messages and comparisons.
pub(super) fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.message.body).into_owned()
}

/// One message for the queue per body.
pub(super) fn batch<S: AsRef<str>>(queue: &QueueName, bodies: &[S]) -> Vec<Outgoing> {
    bodies.iter().map(|body| Outgoing::to_queue(queue, body.as_ref().to_owned())).collect()
}

pub(super) struct Trial<'h> {
    pub(super) harness: &'h mut dyn Harness,
    broker: Option<Arc<dyn Broker>>,
    specs: Vec<QueueSpec>,
}

impl<'h> Trial<'h> {
    /// A fresh broker without queues.
    pub(super) async fn open(harness: &'h mut dyn Harness) -> Self {
        let broker = Some(harness.fresh().await);
        Self { harness, broker, specs: Vec::new() }
    }

    /// A fresh broker with this queue.
    pub(super) async fn with(harness: &'h mut dyn Harness, spec: QueueSpec) -> (Self, QueueName) {
        let mut trial = Self::open(harness).await;
        let name = trial.declare(spec).await;
        (trial, name)
    }

    /// A fresh broker with this queue, whose spec asks for the aspect. Where the broker refuses the aspect, sees that
    /// it refuses the spec, and then there is nothing more to test.
    pub(super) async fn asking(
        harness: &'h mut dyn Harness,
        aspect: Aspect,
        spec: QueueSpec,
    ) -> Option<(Self, QueueName)> {
        let mut trial = Self::open(harness).await;
        let name = trial.ask(aspect, spec).await?;
        Some((trial, name))
    }

    /// Declares a queue whose spec asks for the aspect, or sees that it is refused.
    pub(super) async fn ask(&mut self, aspect: Aspect, spec: QueueSpec) -> Option<QueueName> {
        if self.has(aspect) {
            return Some(self.declare(spec).await);
        }
        self.refuses(aspect, &spec).await;
        None
    }

    /// Sees that the spec is refused because of the aspect, and that no queue came of it.
    pub(super) async fn refuses(&self, aspect: Aspect, spec: &QueueSpec) {
        match self.broker().declare(std::slice::from_ref(spec)).await {
            Err(BrokerError::Refused { queue, aspect: named, .. }) => {
                assert_eq!((&queue, named), (&spec.name, aspect), "the refusal names queue and aspect");
            }
            other => panic!("a spec that asks for {aspect} must be refused, the answer was {other:?}"),
        }
        let depth = self.broker().depth(&spec.name).await;
        assert!(depth.is_err(), "a refused queue must not exist, its depth was {depth:?}");
    }

    /// The value of an answer that the aspect is needed for. Where the broker refuses the aspect, sees that the answer
    /// says so, and then there is nothing more to test.
    pub(super) fn held<T: Debug>(&self, aspect: Aspect, answer: Result<T, BrokerError>) -> Option<T> {
        match answer {
            Ok(value) if self.has(aspect) => Some(value),
            Err(BrokerError::Refused { aspect: named, .. }) if named == aspect && !self.has(aspect) => None,
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

    pub(super) fn broker(&self) -> &Arc<dyn Broker> {
        self.broker.as_ref().expect("the broker is open, except during an outage")
    }

    /// A second handle where the backend has such, else the same one again.
    pub(super) async fn another_handle(&mut self) -> Arc<dyn Broker> {
        let Some(second) = self.harness.second_handle().await else {
            return self.broker().clone();
        };
        assert_eq!(second.declare(&self.specs).await, Ok(()), "declaring the same on a second handle");
        second
    }

    pub(super) fn guarantees(&self) -> Guarantees {
        self.broker().guarantees()
    }

    pub(super) fn has(&self, aspect: Aspect) -> bool {
        self.guarantees().has(aspect)
    }

    pub(super) fn native(&self, aspect: Aspect) -> bool {
        self.guarantees().of(aspect) == Support::Native
    }

    pub(super) fn now(&self) -> Timestamp {
        self.harness.now()
    }

    pub(super) async fn pass(&mut self, time: Duration) {
        self.harness.pass(time).await;
    }

    /// Moves the time past this point, by as much as the broker may be late.
    pub(super) async fn pass_until(&mut self, time: Timestamp) {
        let rest = time.since(self.now()) + self.guarantees().late_by;
        self.pass(rest + Duration::from_millis(1)).await;
    }

    pub(super) async fn restart(&mut self) {
        self.outage(Outage::Restart).await;
    }

    pub(super) async fn crash(&mut self) {
        self.outage(Outage::Crash).await;
    }

    /// Goes down and comes up; the queues are declared again, as every start does.
    pub(super) async fn outage(&mut self, outage: Outage) {
        self.broker = None;
        let broker = match outage {
            Outage::Restart => self.harness.restart().await,
            Outage::Crash => self.harness.crash().await,
        };
        assert_eq!(broker.declare(&self.specs).await, Ok(()), "declaring the same after a {outage:?}");
        self.broker = Some(broker);
    }

    /// Publishes and expects all to be accepted.
    pub(super) async fn publish(&self, batch: Vec<Outgoing>) {
        let count = batch.len();
        let outcomes = self.broker().publish(batch).await;
        assert_eq!(outcomes.len(), count, "one outcome per published message");
        for (i, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome, &Ok(()), "message {i} of {count} must be accepted");
        }
    }

    /// Publishes these texts and expects them to be accepted.
    pub(super) async fn send_all<S: AsRef<str>>(&self, queue: &QueueName, bodies: &[S]) {
        self.publish(batch(queue, bodies)).await;
    }

    pub(super) async fn send(&self, queue: &QueueName, body: &str) {
        self.send_all(queue, &[body]).await;
    }

    /// Publishes one text to a queue where nothing else is ready, and takes it.
    pub(super) async fn send_and_take(&mut self, queue: &QueueName, body: &str) -> Delivery {
        self.send(queue, body).await;
        self.take(queue).await
    }

    /// One poll of the queue.
    pub(super) async fn poll(&self, queue: &QueueName, max: usize) -> Vec<Delivery> {
        let got = match self.broker().receive(queue, max, self.harness.poll_wait()).await {
            Ok(got) => got,
            Err(error) => panic!("receiving from `{queue}` must work, the answer was: {error}"),
        };
        assert!(got.len() <= max, "asked `{queue}` for {max} at most, got {}", got.len());
        for delivery in &got {
            assert_eq!(&delivery.receipt.queue, queue, "a receipt names the queue it is of");
            assert!(delivery.attempt >= 1, "attempts count from 1, got {}", delivery.attempt);
        }
        got
    }

    /// Polls until something is there.
    pub(super) async fn some(&mut self, queue: &QueueName, max: usize, what: &str) -> Vec<Delivery> {
        self.until(&format!("{what} from `{queue}`"), async |t| {
            let got = t.poll(queue, max).await;
            if got.is_empty() { Err("nothing".to_owned()) } else { Ok(got) }
        })
        .await
    }

    /// The next delivery.
    pub(super) async fn take(&mut self, queue: &QueueName) -> Delivery {
        self.some(queue, 1, "a delivery").await.remove(0)
    }

    /// The next deliveries, this many, all held at once.
    pub(super) async fn take_all(&mut self, queue: &QueueName, count: usize) -> Vec<Delivery> {
        let mut held = Vec::new();
        while held.len() < count {
            let what = format!("delivery {} of {count}", held.len() + 1);
            held.extend(self.some(queue, count - held.len(), &what).await);
        }
        held
    }

    /// The next delivery, which must come at this time: never earlier, and not much later.
    pub(super) async fn take_at(&mut self, queue: &QueueName, due: Timestamp, what: &str) -> Delivery {
        let delivery = self.some(queue, 1, what).await.remove(0);
        let now = self.now();
        assert!(now >= due, "{what} came {:?} too early: due at {due:?}, came by {now:?}", due.since(now));
        let latest = due + self.guarantees().late_by + SLACK;
        assert!(
            now <= latest,
            "{what} came too late: due at {due:?}, came at {now:?}, allowed until {latest:?}"
        );
        delivery
    }

    /// Takes and acknowledges this many, expects no more, and says what the bodies were.
    pub(super) async fn drain(&mut self, queue: &QueueName, count: usize) -> Vec<String> {
        let mut bodies = Vec::new();
        while bodies.len() < count {
            let what = format!("message {} of {count}", bodies.len() + 1);
            for delivery in self.some(queue, count - bodies.len(), &what).await {
                bodies.push(text(&delivery));
                self.done(&delivery).await;
            }
        }
        self.nothing(queue, &format!("all {count} were taken")).await;
        bodies
    }

    /// Expects that nothing is there to be delivered.
    pub(super) async fn nothing(&mut self, queue: &QueueName, because: &str) {
        for _ in 0..2 {
            let bodies: Vec<String> = self.poll(queue, 10).await.iter().map(text).collect();
            assert!(bodies.is_empty(), "expected nothing from `{queue}`, since {because}; got {bodies:?}");
        }
    }

    /// Begins a receive that has to wait, for whatever reason.
    pub(super) async fn receiving(&self, queue: &QueueName, max: usize, because: &str) -> Receiving {
        let (broker, queue) = (self.broker().clone(), queue.clone());
        let receiving = tokio::spawn(async move { broker.receive(&queue, max, LONG).await });
        tokio::time::sleep(self.harness.poll_wait()).await;
        assert!(!receiving.is_finished(), "a receive must wait, since {because}");
        receiving
    }

    /// What a receive that waited returns, now that it can.
    pub(super) async fn returned(
        &self,
        receiving: Receiving,
        because: &str,
    ) -> Result<Vec<Delivery>, BrokerError> {
        let ended = tokio::time::timeout(self.harness.deadline(), receiving).await;
        let ended = ended.unwrap_or_else(|_| panic!("the waiting receive must return, since {because}"));
        ended.expect("the receiving task")
    }

    /// The bodies that a receive which waited returns.
    pub(super) async fn delivered(&self, receiving: Receiving, because: &str) -> Vec<String> {
        let got = self.returned(receiving, because).await.expect("a receive that waits");
        got.iter().map(text).collect()
    }

    /// Asks until there is an answer. Gives up only when both clocks say so: real time alone means nothing to a broker
    /// whose clock stands still, and that clock alone nothing to one that works in the background.
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
            let over = real > self.harness.deadline() && passed > self.guarantees().late_by + SLACK;
            assert!(
                !over,
                "expected {what}, found {found} (after {real:?}, {passed:?} by the broker's clock)"
            );
            self.pass(STEP).await;
        }
    }
}
