//! Declaring: what is refused, what is made on the server, and what is wrong with what exists there.

use crate::{
    engine::{Engine, lock},
    error::LinkError,
    guarantees::LIMIT_SLACK,
    names,
    session::Session,
    wire::short,
};
use crawlway_broker::{Aspect, Binding, BrokerError, MaxLength, QueueName, QueueSpec};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use std::time::Duration;

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
        }
        Ok(())
    }

    /// Makes everything again on a new connection, should the server have lost it.
    pub(crate) async fn declare_again(&self, session: &Session) -> Result<(), BrokerError> {
        for intake in self.intakes() {
            self.make(session, &intake.spec()).await?;
        }
        Ok(())
    }

    fn refuse(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        let refused =
            |aspect, why: String| Err(BrokerError::Refused { queue: spec.name.clone(), aspect, why });
        if spec.groups {
            let why = "RabbitMQ cannot keep one of each group in flight; leave `groups` off, the gate keeps the politeness";
            return refused(Aspect::Groups, why.into());
        }
        let longest = self.options.consumer_timeout;
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
        lock(&self.exchanges).insert(exchange.to_owned());
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
