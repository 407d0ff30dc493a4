//! Declaring queues, and checking that they stay on the server as declared.
//!
//! ```text
//!              ┌── missing (404, unroutable publish) or other arguments (406) ──┐
//!              │                                                                ▼
//!  declare ─▶ declared ◀──────── declared again, with back-off ──────────── undeclared
//! ```
//!
//! An undeclared queue is not used, and calls fail with the reason.

use crate::{
    connection::BACKOFF,
    engine::{Engine, unusable},
    error::{ACCESS_REFUSED, PRECONDITION_FAILED, RESOURCE_LOCKED, SessionError},
    guarantees::LIMIT_SLACK,
    local_queue::LocalQueue,
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

/// Interval of the check that queues are still on the server as declared.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl Engine {
    pub(crate) async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        self.check_open()?;
        if queues.is_empty() {
            return Ok(());
        }
        for spec in queues {
            spec.check()?;
            self.options.check(spec)?;
        }
        let session = self.session().await?;
        for spec in queues {
            let before = self.queues.find(&spec.name).map(|local| local.spec());
            self.declare_all(&session, spec).await?;
            for removed in before.iter().flat_map(|before| &before.bindings) {
                if !spec.bindings.contains(removed) {
                    unbind(&session, &spec.name, removed).await?;
                }
            }
            self.register(spec).set_undeclared(None);
        }
        Ok(())
    }

    /// undeclared → declared, if the server accepts it.
    pub(crate) async fn redeclare(&self, session: &Session, local: &LocalQueue) {
        match self.declare_all(session, &local.spec()).await {
            Ok(()) => local.set_undeclared(None),
            Err(error) => self.report_mismatch(local, &error),
        }
    }

    /// declared → undeclared, because the server has the queue with other arguments or refuses to declare it.
    fn report_mismatch(&self, local: &LocalQueue, error: &BrokerError) {
        let reason = error.to_string();
        if local.undeclared().as_ref() != Some(&reason) {
            tracing::error!(queue = %local.queue, %error, "queue cannot be declared and is not used until it can");
            local.set_undeclared(Some(reason));
        }
        self.queue_missing.notify_one();
    }

    /// declared → undeclared, because the queue or one of its auxiliary queues is not on the server.
    pub(crate) fn report_missing(&self, queue: &QueueName) {
        let Some(local) = self.queues.find(queue) else { return };
        if local.undeclared().is_none() {
            tracing::warn!(%queue, "queue or one of its auxiliary queues was deleted on the server; declaring it again");
            local.set_undeclared(Some(
                "it or one of its auxiliary queues was deleted on the server, and is declared again".into(),
            ));
        }
        self.queue_missing.notify_one();
    }

    /// Checks that a queue is on the server as declared: another client may have deleted it, or declared it again with other
    /// arguments.
    ///
    /// # Errors
    /// If it must not be used.
    pub(crate) async fn check_declared(
        &self,
        session: &Session,
        queue: &QueueName,
    ) -> Result<(), BrokerError> {
        let Some(local) = self.queues.find(queue) else { return Ok(()) };
        if let Err(error) = session.message_count(queue.as_str()).await {
            if error.is_not_found() {
                self.report_missing(queue);
            }
            return Err(error.into());
        }
        let declared = declare_queue(session, queue, queue.as_str(), queue_arguments(&local.spec())).await;
        if let Err(error @ BrokerError::Mismatch { .. }) = &declared {
            self.report_mismatch(&local, error);
            return Err(unusable(queue, &error.to_string()));
        }
        declared
    }

    /// Declares missing queues again, for as long as the session lasts. Polls as well, since no event tells a publisher that
    /// its queue was deleted.
    pub(crate) async fn keep_queues_declared(&self, session: &Session) -> Infallible {
        loop {
            let _ = tokio::time::timeout(CHECK_INTERVAL, self.queue_missing.notified()).await;
            for local in self.queues.all().into_iter().filter(|local| local.undeclared().is_none()) {
                let _ = self.check_declared(session, &local.queue).await;
            }
            for delay in BACKOFF.delays() {
                for local in self.queues.all().into_iter().filter(|local| local.undeclared().is_some()) {
                    self.redeclare(session, &local).await;
                }
                if self.queues.all().iter().all(|local| local.undeclared().is_none()) {
                    break;
                }
                tokio::time::sleep(delay).await;
            }
        }
    }

    /// Declares a queue, its auxiliary queues and its bindings.
    async fn declare_all(&self, session: &Session, spec: &QueueSpec) -> Result<(), BrokerError> {
        let name = &spec.name;
        // The queue itself comes first: on a mismatch, no auxiliary queue is created.
        declare_queue(session, name, name.as_str(), queue_arguments(spec)).await?;
        for auxiliary in [names::dead_letters(name), names::due(name), names::pause(name)] {
            declare_queue(session, name, &auxiliary, FieldTable::default()).await?;
        }
        for tier in names::DELAY_TIERS {
            let delay_queue = names::delay_queue(name, tier);
            declare_queue(session, name, &delay_queue, delay_arguments(name, tier)).await?;
        }
        for binding in &spec.bindings {
            bind(session, name, binding).await?;
            self.exchanges.lock().insert(binding.exchange.to_string());
        }
        Ok(())
    }
}

async fn declare_queue(
    session: &Session,
    queue: &QueueName,
    name: &str,
    arguments: FieldTable,
) -> Result<(), BrokerError> {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let declared = session.declare_queue(name, options, arguments).await;
    declared.map_err(|error| mismatch(queue, &format!("queue `{name}`"), error))
}

async fn bind(session: &Session, queue: &QueueName, binding: &Binding) -> Result<(), BrokerError> {
    let exchange = binding.exchange.as_str();
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let declared = session.call("exchange.declare", async |channel| {
        channel.exchange_declare(short(exchange), ExchangeKind::Topic, options, FieldTable::default()).await
    });
    declared.await.map_err(|error| mismatch(queue, &format!("exchange `{exchange}`"), error))?;
    let bound = session.call("queue.bind", async |channel| {
        let (name, pattern) = (short(queue.as_str()), short(binding.pattern.as_str()));
        let options = QueueBindOptions::default();
        channel.queue_bind(name, short(exchange), pattern, options, FieldTable::default()).await
    });
    Ok(bound.await?)
}

async fn unbind(session: &Session, queue: &QueueName, binding: &Binding) -> Result<(), BrokerError> {
    let unbound = session.call("queue.unbind", async |channel| {
        let (name, pattern) = (short(queue.as_str()), short(binding.pattern.as_str()));
        channel.queue_unbind(name, short(binding.exchange.as_str()), pattern, FieldTable::default()).await
    });
    Ok(unbound.await?)
}

impl Options {
    /// Refuses a queue spec that RabbitMQ cannot honour. Needs no server.
    ///
    /// # Errors
    /// [`BrokerError::Refused`], with what to do instead.
    pub fn check(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        let refused = |aspect, why: String| Err(spec.refused(aspect, why));
        if let Some(aspect) = spec.ordering.aspect() {
            let why = "RabbitMQ cannot keep one message in flight when consumers come and go; declare the queue without an ordering, the rate limiter ensures politeness";
            return refused(aspect, why.into());
        }
        let max_lease = self.consumer_timeout;
        if spec.lease > max_lease {
            return refused(
                Aspect::Lease,
                format!(
                    "its lease is {:?}, and the server requeues what is unacknowledged for longer than {max_lease:?}; \
                     use a shorter lease and extend it, or raise `consumer_timeout` on the server and here",
                    spec.lease
                ),
            );
        }
        if spec.name.as_str().starts_with("amq.") {
            return refused(
                Aspect::Names,
                "names that start with `amq.` are reserved by the server; choose another".into(),
            );
        }
        match spec.max_length {
            Some(MaxLength::Approximate { slack, .. }) if slack < LIMIT_SLACK => refused(
                Aspect::MaxLengthApproximate,
                format!(
                    "its limit has a slack of {slack}, and the minimum is {LIMIT_SLACK}; allow more, or use an exact limit"
                ),
            ),
            _ => Ok(()),
        }
    }
}

/// Arguments of the queue itself: none, unless it has an exact limit.
fn queue_arguments(spec: &QueueSpec) -> FieldTable {
    let mut arguments = FieldTable::default();
    if let Some(MaxLength::Exact(limit)) = spec.max_length {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        arguments.insert(short("x-max-length"), AMQPValue::LongLongInt(limit));
        arguments.insert(short("x-overflow"), AMQPValue::LongString("reject-publish".into()));
    }
    arguments
}

/// Arguments of a delay queue: one TTL for all messages, so that none blocks another at the head, and `:due` as the target,
/// since a full queue with a limit would drop what expires into it.
fn delay_arguments(queue: &QueueName, tier: Duration) -> FieldTable {
    let mut arguments = FieldTable::default();
    let ttl = i64::try_from(tier.as_millis()).unwrap_or(i64::MAX);
    arguments.insert(short("x-message-ttl"), AMQPValue::LongLongInt(ttl));
    arguments.insert(short("x-dead-letter-exchange"), AMQPValue::LongString("".into()));
    let due = names::due(queue).into_bytes();
    arguments.insert(short("x-dead-letter-routing-key"), AMQPValue::LongString(due.into()));
    arguments
}

/// Error for a refused declaration.
fn mismatch(queue: &QueueName, what: &str, error: SessionError) -> BrokerError {
    match error.refusal() {
        Some((PRECONDITION_FAILED, text)) => BrokerError::Mismatch {
            queue: queue.clone(),
            difference: format!(
                "{what}: {}; declare it with the same arguments, or drain it, delete it on the server and start again",
                difference(&text)
            ),
        },
        Some((RESOURCE_LOCKED | ACCESS_REFUSED, text)) => {
            BrokerError::Unavailable { detail: format!("{what} cannot be used: {text}") }
        }
        _ => error.into(),
    }
}

/// Short form of the server's text: `x-max-length is '5' on the server and none in the declaration`.
fn difference(text: &str) -> String {
    let inner = || {
        let (_, rest) = text.split_once("inequivalent arg '")?;
        let (argument, rest) = rest.split_once('\'')?;
        let (_, rest) = rest.split_once("received ")?;
        let (declared, actual) = rest.split_once(" but current is ")?;
        Some(format!("{argument} is {actual} on the server and {declared} in the declaration"))
    };
    inner().unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_extracted_from_the_servers_text() {
        let text = "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'g' in vhost '/': \
                    received none but current is the value '5' of type 'signedint'";
        assert_eq!(
            difference(text),
            "x-max-length is the value '5' of type 'signedint' on the server and none in the declaration"
        );
        assert_eq!(difference("something else"), "something else");
    }
}
