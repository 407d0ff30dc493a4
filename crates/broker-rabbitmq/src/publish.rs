//! Publishing: validation, routing to queues and delay queues, enforcement of maximum lengths, and results.

use crate::{
    engine::{Engine, unusable},
    error::SessionError,
    guarantees::LIMIT_STEP,
    names,
    publisher::PublishOutcome,
    session::Session,
    wire::{self, Publication, short},
};
use crawlway_broker::{
    ExchangeName, MaxLength, Outgoing, PublishError, QueueName, Target, Timestamp, limits,
};
use lapin::{ExchangeKind, options::ExchangeDeclareOptions, types::FieldTable};
use std::collections::BTreeMap;

/// A validated message.
struct Prepared {
    /// Position in the caller's batch.
    index: usize,
    publication: Publication,
    target: Target,
    /// Queue whose maximum length the publisher has to check.
    limited: Option<(QueueName, MaxLength)>,
    /// Goes to a delay queue.
    delayed: bool,
}

type PublishResult = Result<(), PublishError>;

impl Engine {
    pub(crate) async fn publish(&self, batch: Vec<Outgoing>) -> Vec<PublishResult> {
        if let Err(closed) = self.check_open() {
            return batch.iter().map(|_| Err(closed.clone().into())).collect();
        }
        if batch.is_empty() {
            return Vec::new();
        }
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => {
                let validated = |message| self.check(message).and(Err(error.clone().into()));
                return batch.iter().map(validated).collect();
            }
        };
        let now = Timestamp::now();
        let mut results: Vec<PublishResult> = Vec::with_capacity(batch.len());
        let mut unlimited = Vec::new();
        let mut limited: BTreeMap<QueueName, Vec<Prepared>> = BTreeMap::new();
        for (index, message) in batch.into_iter().enumerate() {
            match self.prepare(&session, index, message, now).await {
                Ok(prepared) => {
                    results.push(Ok(()));
                    match &prepared.limited {
                        Some((queue, _)) => limited.entry(queue.clone()).or_default().push(prepared),
                        None => unlimited.push(prepared),
                    }
                }
                Err(error) => results.push(Err(error)),
            }
        }
        self.send(&session, unlimited, &mut results).await;
        for (queue, prepared) in limited {
            self.send_limited(&session, &queue, prepared, &mut results).await;
        }
        results
    }

    /// Validates a message without asking the server.
    fn check(&self, message: &Outgoing) -> Result<(), PublishError> {
        limits::check(message)?;
        let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = (message.body.len() + headers) as u64;
        if size > self.options.max_message {
            let (id, limit) = (message.id.to_string(), self.options.max_message);
            return Err(PublishError::TooLarge { id, size, limit });
        }
        match &message.to {
            Target::Queue(queue) => {
                let Some(local) = self.queues.find(queue) else {
                    return Err(self.queues.unknown_target(queue));
                };
                match local.undeclared() {
                    None => Ok(()),
                    Some(reason) => {
                        Err(PublishError::Unavailable { detail: unusable(queue, &reason).to_string() })
                    }
                }
            }
            Target::Topic { .. } => Ok(()),
        }
    }

    async fn prepare(
        &self,
        session: &Session,
        index: usize,
        message: Outgoing,
        now: Timestamp,
    ) -> Result<Prepared, PublishError> {
        self.check(&message)?;
        let properties = wire::encode_new(&message, self.options.content_type.as_deref(), now);
        let (body, target) = (message.body, message.to);
        let (publication, limited, delayed) = match &target {
            Target::Queue(queue) => {
                let delay = message.not_before.map(|time| time.since(now)).unwrap_or_default();
                let limit = self.queues.find(queue).and_then(|local| local.max_length());
                let delayed = !delay.is_zero();
                let name = if delayed { names::delay_target(queue, delay) } else { queue.to_string() };
                let limited = limit.map(|limit| (queue.clone(), limit));
                (Publication::to_queue(name, properties, body), limited, delayed)
            }
            Target::Topic { exchange, topic } => {
                if !self.exchange_exists(session, exchange).await? {
                    let (exchange, topic) = (exchange.clone(), topic.clone());
                    return Err(PublishError::Unroutable { exchange, topic });
                }
                let approximate = |limit: &MaxLength| matches!(limit, MaxLength::Approximate { .. });
                let limited = self.bound_with_limit(exchange, topic).find(|(_, limit)| approximate(limit));
                let publication = Publication {
                    exchange: exchange.to_string(),
                    routing_key: topic.clone(),
                    properties,
                    body,
                };
                (publication, limited, false)
            }
        };
        Ok(Prepared { index, publication, target, limited, delayed })
    }

    /// Queues with a maximum length that the topic is routed to, among those declared on this handle.
    fn bound_with_limit(
        &self,
        exchange: &ExchangeName,
        topic: &str,
    ) -> impl Iterator<Item = (QueueName, MaxLength)> {
        let matches = |spec: &crawlway_broker::QueueSpec| {
            spec.bindings
                .iter()
                .any(|binding| binding.exchange == *exchange && binding.pattern.matches(topic))
        };
        let specs: Vec<_> =
            self.queues.all().iter().map(|local| local.spec()).filter(|spec| matches(spec)).collect();
        specs.into_iter().filter_map(|spec| Some((spec.name, spec.max_length?)))
    }

    /// Checked first, because a publish to a missing exchange closes the channel and loses the confirms of its batch.
    async fn exchange_exists(
        &self,
        session: &Session,
        exchange: &ExchangeName,
    ) -> Result<bool, SessionError> {
        if self.exchanges.lock().contains(exchange.as_str()) {
            return Ok(true);
        }
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let declared = session
            .call("exchange.declare", async |channel| {
                let name = short(exchange.as_str());
                channel.exchange_declare(name, ExchangeKind::Topic, options, FieldTable::default()).await
            })
            .await;
        match declared {
            Ok(()) => {
                self.exchanges.lock().insert(exchange.to_string());
                Ok(true)
            }
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, session: &Session, prepared: Vec<Prepared>, results: &mut [PublishResult]) {
        let publications = prepared.iter().map(|prepared| prepared.publication.clone()).collect();
        let outcomes = session.publish_when_unblocked(publications, self.options.connection_timeout).await;
        for (prepared, outcome) in prepared.into_iter().zip(outcomes) {
            results[prepared.index] = self.result(outcome, &prepared);
        }
    }

    /// Sends messages to a queue with a maximum length: at once where the server's own limit suffices, and else in small
    /// steps, one caller after the other.
    async fn send_limited(
        &self,
        session: &Session,
        queue: &QueueName,
        mut prepared: Vec<Prepared>,
        results: &mut [PublishResult],
    ) {
        let delayed_count = self.delayed_count(queue);
        if let Some(local) = self.queues.find(queue) {
            local.before_limited_publish().await;
        }
        while !prepared.is_empty() {
            let Some((_, limit)) = prepared[0].limited.clone() else { return };
            let any_delayed = prepared.iter().any(|prepared| prepared.delayed);
            if self.uncounted_by_server(queue) == 0 && delayed_count.server_limit_suffices(limit, any_delayed)
            {
                return self.send(session, prepared, results).await;
            }
            let turn = delayed_count.turn.lock().await;
            let room = self.remaining_length(session, queue, limit, &delayed_count, any_delayed).await;
            let error = match room {
                Ok(None) => {
                    // The server's limit holds: the next caller need not wait for these confirms.
                    drop(turn);
                    return self.send(session, prepared, results).await;
                }
                Ok(Some(0)) => PublishError::QueueFull { queue: queue.clone(), limit: limit.limit() },
                Ok(Some(room)) => {
                    let room = usize::try_from(room).unwrap_or(usize::MAX);
                    let step: Vec<Prepared> =
                        prepared.drain(..prepared.len().min(LIMIT_STEP).min(room)).collect();
                    let delayed = step.iter().filter(|prepared| prepared.delayed);
                    let delayed: Vec<usize> = delayed.map(|prepared| prepared.index).collect();
                    self.send(session, step, results).await;
                    delayed_count.add(delayed.iter().filter(|index| results[**index].is_ok()).count() as u64);
                    continue;
                }
                Err(error) => error,
            };
            prepared.iter().for_each(|prepared| results[prepared.index] = Err(error.clone()));
            return;
        }
    }

    fn result(&self, outcome: PublishOutcome, prepared: &Prepared) -> PublishResult {
        let target = &prepared.target;
        Err(match outcome {
            PublishOutcome::Confirmed => return Ok(()),
            PublishOutcome::Unknown(detail) => {
                if let Target::Topic { exchange, .. } = target {
                    // The exchange may be deleted: check again before the next publish.
                    self.exchanges.lock().remove(exchange.as_str());
                }
                PublishError::Unconfirmed { detail }
            }
            PublishOutcome::TooLarge(limit) => {
                let Publication { properties, body, .. } = &prepared.publication;
                let id = properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default();
                PublishError::TooLarge { id, size: body.len() as u64, limit }
            }
            PublishOutcome::Unsent(detail) => PublishError::Unavailable { detail },
            PublishOutcome::Unroutable => match target {
                Target::Topic { exchange, topic } => {
                    PublishError::Unroutable { exchange: exchange.clone(), topic: topic.clone() }
                }
                Target::Queue(queue) => {
                    self.report_missing(queue);
                    let detail =
                        format!("queue `{queue}` was deleted on the server and is declared again; try again");
                    PublishError::Unavailable { detail }
                }
            },
            PublishOutcome::Rejected => self.queue_full(target),
        })
    }

    /// A nack does not name the full queue: it is the target, or a bound queue with a maximum length.
    fn queue_full(&self, target: &Target) -> PublishError {
        let full = match target {
            Target::Queue(queue) => {
                self.queues.find(queue).and_then(|local| Some((queue.clone(), local.max_length()?)))
            }
            Target::Topic { exchange, topic } => self.bound_with_limit(exchange, topic).next(),
        };
        match full {
            Some((queue, limit)) => PublishError::QueueFull { queue, limit: limit.limit() },
            None => PublishError::Unavailable {
                detail: "RabbitMQ rejected the message; check the queue for a policy with a maximum length"
                    .into(),
            },
        }
    }
}
