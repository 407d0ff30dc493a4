//! Declaring: what is refused, what is made on the server, and what is wrong with what exists there.

use crate::{
    engine::{Engine, FIRST_PAUSE, LONGEST_PAUSE, unusable},
    error::LinkError,
    guarantees::LIMIT_SLACK,
    intake::Intake,
    names,
    options::Options,
    session::Session,
    wire::short,
};
use crawlway_broker::{Aspect, Binding, BrokerError, MaxLength, QueueName, QueueSpec};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use std::{convert::Infallible, time::Duration};

/// How often it is looked whether queues are still there as they were declared.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

const PRECONDITION_FAILED: u16 = 406;
const RESOURCE_LOCKED: u16 = 405;
const ACCESS_REFUSED: u16 = 403;

impl Engine {
    pub(crate) async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        self.open()?;
        if queues.is_empty() {
            return Ok(());
        }
        for spec in queues {
            spec.check()?;
            self.refuse(spec)?;
        }
        let session = self.session().await?;
        for spec in queues {
            let before = self.intake(&spec.name).map(|intake| intake.spec());
            self.make(&session, spec).await?;
            for gone in before.iter().flat_map(|before| &before.bindings) {
                if !spec.bindings.contains(gone) {
                    self.unbind(&session, &spec.name, gone).await?;
                }
            }
            self.learn(spec);
            if let Some(intake) = self.intake(&spec.name) {
                intake.set_unmade(None);
            }
        }
        Ok(())
    }

    /// Makes everything again on a new connection, should the server have lost it.
    pub(crate) async fn declare_again(&self, session: &Session) {
        for intake in self.intakes() {
            self.make_again(session, &intake).await;
        }
    }

    /// Makes one queue and what stands beside it again. What cannot be made is not used until it can be.
    async fn make_again(&self, session: &Session, intake: &Intake) {
        match self.make(session, &intake.spec()).await {
            Ok(()) => intake.set_unmade(None),
            Err(error) => self.not_as_declared(intake, &error),
        }
    }

    /// Notes that a queue is not on the server as it was declared, so that it is not used until it is.
    fn not_as_declared(&self, intake: &Intake, error: &BrokerError) {
        let why = error.to_string();
        if intake.unmade().as_ref() != Some(&why) {
            tracing::error!(queue = %intake.queue, %error, "the queue is not used until it can be declared");
            intake.set_unmade(Some(why));
        }
        self.unmade.notify_one();
    }

    /// Looks whether a queue is still there as it was declared: another client may have deleted it and declared it anew, with
    /// other arguments. One that is gone is made again.
    ///
    /// # Errors
    /// If it must not be used.
    pub(crate) async fn check_declared(
        &self,
        session: &Session,
        queue: &QueueName,
    ) -> Result<(), BrokerError> {
        let Some(intake) = self.intake(queue) else { return Ok(()) };
        if let Err(error) = self.count(session, queue.as_str()).await {
            if error.is_not_found() {
                self.has_to_be_made_again(queue);
            }
            return Err(error.into());
        }
        let declared = self.make_queue(session, queue, queue.as_str(), arguments(&intake.spec())).await;
        if let Err(error @ BrokerError::Mismatch { .. }) = &declared {
            self.not_as_declared(&intake, error);
            return Err(unusable(queue, &error.to_string()));
        }
        declared
    }

    /// Notes that a queue, or something beside it, is not on the server any more, and has it made again.
    pub(crate) fn has_to_be_made_again(&self, queue: &QueueName) {
        let Some(intake) = self.intake(queue) else { return };
        if intake.unmade().is_none() {
            tracing::warn!(%queue, "the queue or one beside it was deleted on the server, and is made again");
            intake.set_unmade(Some(
                "it or a queue beside it was deleted on the server, and is made again".into(),
            ));
        }
        self.unmade.notify_one();
    }

    /// Makes again what is not on the server as it should be, for as long as the session lasts. Looks for it now and then, too:
    /// nothing tells a publisher that its queue was deleted and declared anew.
    pub(crate) async fn keep_queues_made(&self, session: &Session) -> Infallible {
        loop {
            let _ = tokio::time::timeout(CHECK_INTERVAL, self.unmade.notified()).await;
            for intake in self.intakes().into_iter().filter(|intake| intake.unmade().is_none()) {
                // What is wrong is noted; a connection that is lost is not looked after here.
                let _ = self.check_declared(session, &intake.queue).await;
            }
            let mut pause = FIRST_PAUSE;
            loop {
                for intake in self.intakes().into_iter().filter(|intake| intake.unmade().is_some()) {
                    self.make_again(session, &intake).await;
                }
                if self.intakes().iter().all(|intake| intake.unmade().is_none()) {
                    break;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn refuse(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        self.options.check(spec)
    }

    /// Makes a queue and what stands beside it, or checks that they are as they should be.
    async fn make(&self, session: &Session, spec: &QueueSpec) -> Result<(), BrokerError> {
        let name = &spec.name;
        // First the one that may exist with other settings, so that nothing is left beside it then.
        self.make_queue(session, name, name.as_str(), arguments(spec)).await?;
        for beside in [names::dead(name), names::due(name), names::pause(name)] {
            self.make_queue(session, name, &beside, FieldTable::default()).await?;
        }
        for wait in names::TIERS {
            self.make_queue(session, name, &names::tier(name, wait), tier_arguments(name, wait)).await?;
        }
        for binding in &spec.bindings {
            self.bind(session, name, binding).await?;
        }
        Ok(())
    }

    async fn make_queue(
        &self,
        session: &Session,
        queue: &QueueName,
        name: &str,
        arguments: FieldTable,
    ) -> Result<(), BrokerError> {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declared = session
            .ask("queue.declare", async |channel| {
                channel.queue_declare(short(name), options, arguments).await
            })
            .await;
        declared.map(drop).map_err(|error| mismatch(queue, &format!("queue `{name}`"), error))
    }

    async fn bind(&self, session: &Session, queue: &QueueName, binding: &Binding) -> Result<(), BrokerError> {
        let exchange = binding.exchange.as_str();
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared = session
            .ask("exchange.declare", async |channel| {
                let kind = ExchangeKind::Topic;
                channel.exchange_declare(short(exchange), kind, options, FieldTable::default()).await
            })
            .await;
        declared.map_err(|error| mismatch(queue, &format!("exchange `{exchange}`"), error))?;
        session
            .ask("queue.bind", async |channel| {
                let (name, pattern) = (short(queue.as_str()), short(binding.pattern.as_str()));
                let options = QueueBindOptions::default();
                channel.queue_bind(name, short(exchange), pattern, options, FieldTable::default()).await
            })
            .await?;
        self.exchanges.lock().insert(exchange.to_owned());
        Ok(())
    }

    async fn unbind(
        &self,
        session: &Session,
        queue: &QueueName,
        binding: &Binding,
    ) -> Result<(), BrokerError> {
        session
            .ask("queue.unbind", async |channel| {
                let (name, pattern) = (short(queue.as_str()), short(binding.pattern.as_str()));
                let exchange = short(binding.exchange.as_str());
                channel.queue_unbind(name, exchange, pattern, FieldTable::default()).await
            })
            .await?;
        Ok(())
    }
}

impl Options {
    /// Refuses a queue that RabbitMQ could not hold as it is declared. Asks no server.
    ///
    /// # Errors
    /// [`BrokerError::Refused`], with what to do instead.
    pub fn check(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        let refused =
            |aspect, why: String| Err(BrokerError::Refused { queue: spec.name.clone(), aspect, why });
        if spec.groups {
            let why = "RabbitMQ cannot keep one of each group in flight; leave `groups` off, the gate keeps the politeness";
            return refused(Aspect::Groups, why.into());
        }
        let longest = self.consumer_timeout;
        if spec.lease > longest {
            return refused(
                Aspect::Lease,
                format!(
                    "its lease is {:?}, and the server takes back what is held for longer than {longest:?}; \
                     ask for less and extend it, or raise `consumer_timeout` on the server and here",
                    spec.lease
                ),
            );
        }
        if spec.name.as_str().starts_with("amq.") {
            return refused(
                Aspect::Names,
                "names that start with `amq.` are the server's own; choose another".into(),
            );
        }
        match spec.max_length {
            Some(MaxLength::Approximate { slack, .. }) if slack < LIMIT_SLACK => refused(
                Aspect::LimitApproximate,
                format!(
                    "it allows a slack of {slack}, and {LIMIT_SLACK} is the least that is kept; allow more, or ask for an exact limit"
                ),
            ),
            _ => Ok(()),
        }
    }
}

/// The arguments of the queue itself: none, unless it has an exact limit.
fn arguments(spec: &QueueSpec) -> FieldTable {
    let mut arguments = FieldTable::default();
    if let Some(MaxLength::Exact(limit)) = spec.max_length {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        arguments.insert(short("x-max-length"), AMQPValue::LongLongInt(limit));
        arguments.insert(short("x-overflow"), AMQPValue::LongString("reject-publish".into()));
    }
    arguments
}

/// A tier lets go of everything after the same time, so that nothing waits behind anything, and into a queue that has no
/// limit, since what a full queue does not take from a tier is gone.
fn tier_arguments(queue: &QueueName, wait: Duration) -> FieldTable {
    let mut arguments = FieldTable::default();
    let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
    arguments.insert(short("x-message-ttl"), AMQPValue::LongLongInt(wait));
    arguments.insert(short("x-dead-letter-exchange"), AMQPValue::LongString("".into()));
    let due = names::due(queue).into_bytes();
    arguments.insert(short("x-dead-letter-routing-key"), AMQPValue::LongString(due.into()));
    arguments
}

/// What the server's refusal to declare something means.
fn mismatch(queue: &QueueName, what: &str, error: LinkError) -> BrokerError {
    match error.refusal() {
        Some((PRECONDITION_FAILED, said)) => BrokerError::Mismatch {
            queue: queue.clone(),
            difference: format!(
                "{what} on the server: {}; declare it alike, or empty it, delete it there and start again",
                difference(&said)
            ),
        },
        Some((RESOURCE_LOCKED | ACCESS_REFUSED, said)) => {
            BrokerError::Unavailable { detail: format!("{what} cannot be used: {said}") }
        }
        _ => error.into(),
    }
}

/// `x-max-length is '5' there, asked for was none`, of what the server says at length.
fn difference(said: &str) -> String {
    let inner = || {
        let (_, rest) = said.split_once("inequivalent arg '")?;
        let (argument, rest) = rest.split_once('\'')?;
        let (_, rest) = rest.split_once("received ")?;
        let (asked, there) = rest.split_once(" but current is ")?;
        Some(format!("{argument} is {there} there, asked for was {asked}"))
    };
    inner().unwrap_or_else(|| said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_complaint_becomes_a_difference() {
        let said = "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'g' in vhost '/': \
                    received none but current is the value '5' of type 'signedint'";
        assert_eq!(
            difference(said),
            "x-max-length is the value '5' of type 'signedint' there, asked for was none"
        );
        assert_eq!(difference("something else"), "something else");
    }
}
