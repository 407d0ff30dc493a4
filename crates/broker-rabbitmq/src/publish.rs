//! Publishing: what is checked before anything is sent, where it goes, and what the server's answers mean.

use crate::{
    engine::{Engine, unusable},
    error::LinkError,
    guarantees::LIMIT_STEP,
    names,
    publisher::Fate,
    session::Session,
    wire::{self, Parcel, short},
};
use crawlway_broker::{
    ExchangeName, MaxLength, Outgoing, PublishError, QueueName, Target, Timestamp, limits,
};
use lapin::{ExchangeKind, options::ExchangeDeclareOptions, types::FieldTable};
use std::collections::BTreeMap;

/// A message that may be sent.
struct Ready {
    index: usize,
    parcel: Parcel,
    to: Target,
    /// The queue whose limit we have to count for, and that limit.
    limited: Option<(QueueName, MaxLength)>,
    /// It goes beside its queue, into a tier.
    delayed: bool,
}

impl Engine {
    pub(crate) async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        if let Err(closed) = self.open() {
            return batch.iter().map(|_| Err(closed.clone().into())).collect();
        }
        if batch.is_empty() {
            return Vec::new();
        }
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => {
                // What would be refused anyway is refused now too.
                let refused = |message| self.check(message).err();
                return batch
                    .iter()
                    .map(|message| Err(refused(message).unwrap_or_else(|| error.clone().into())))
                    .collect();
            }
        };
        let now = Timestamp::now();
        let mut outcomes: Vec<Result<(), PublishError>> = Vec::with_capacity(batch.len());
        let mut at_once = Vec::new();
        let mut counted: BTreeMap<QueueName, Vec<Ready>> = BTreeMap::new();
        for (index, message) in batch.into_iter().enumerate() {
            match self.prepare(&session, index, message, now).await {
                Ok(ready) => {
                    outcomes.push(Ok(()));
                    match &ready.limited {
                        Some((queue, _)) => counted.entry(queue.clone()).or_default().push(ready),
                        None => at_once.push(ready),
                    }
                }
                Err(error) => outcomes.push(Err(error)),
            }
        }
        self.send(&session, at_once, &mut outcomes).await;
        for (queue, ready) in counted {
            self.send_counted(&session, &queue, ready, &mut outcomes).await;
        }
        outcomes
    }

    /// What can be said against a message without asking anybody.
    fn check(&self, message: &Outgoing) -> Result<(), PublishError> {
        limits::check(message)?;
        let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = (message.body.len() + headers) as u64;
        if size > self.options.max_message {
            let (id, limit) = (message.id.to_string(), self.options.max_message);
            return Err(PublishError::TooLarge { id, size, limit });
        }
        match &message.to {
            Target::Queue(queue) => match self.intake(queue) {
                None => Err(PublishError::UnknownQueue { queue: queue.clone(), known: self.nearest(queue) }),
                Some(intake) => match intake.unmade() {
                    None => Ok(()),
                    Some(why) => Err(PublishError::Unavailable { detail: unusable(queue, &why).to_string() }),
                },
            },
            Target::Topic { .. } => Ok(()),
        }
    }

    async fn prepare(
        &self,
        session: &Session,
        index: usize,
        message: Outgoing,
        now: Timestamp,
    ) -> Result<Ready, PublishError> {
        self.check(&message)?;
        let properties = wire::first(&message, self.options.content_type.as_deref(), now);
        let (body, to) = (message.body, message.to);
        let (parcel, limited, delayed) = match &to {
            Target::Queue(queue) => {
                let left = message.not_before.map(|time| time.since(now)).unwrap_or_default();
                let limit = self.intake(queue).and_then(|intake| intake.max_length());
                let delayed = !left.is_zero();
                let place = if delayed { names::waiting_place(queue, left) } else { queue.to_string() };
                let limited = limit.map(|limit| (queue.clone(), limit));
                (Parcel::to_queue(place, properties, body), limited, delayed)
            }
            Target::Topic { exchange, topic } => {
                if !self.exchange_exists(session, exchange).await? {
                    let (exchange, topic) = (exchange.clone(), topic.clone());
                    return Err(PublishError::Unroutable { exchange, topic });
                }
                let approximate = |limit: &MaxLength| matches!(limit, MaxLength::Approximate { .. });
                let limited = self.bound_with_limit(exchange, topic).find(|(_, limit)| approximate(limit));
                let parcel =
                    Parcel { exchange: exchange.to_string(), routing_key: topic.clone(), properties, body };
                (parcel, limited, false)
            }
        };
        Ok(Ready { index, parcel, to, limited, delayed })
    }

    /// Queues with a limit that this topic reaches, as far as they were declared here.
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
            self.intakes().iter().map(|intake| intake.spec()).filter(|spec| matches(spec)).collect();
        specs.into_iter().filter_map(|spec| Some((spec.name, spec.max_length?)))
    }

    /// Publishing on an exchange that does not exist would cost the channel and everybody's confirms on it.
    async fn exchange_exists(&self, session: &Session, exchange: &ExchangeName) -> Result<bool, LinkError> {
        if self.exchanges.lock().contains(exchange.as_str()) {
            return Ok(true);
        }
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let declared = session
            .ask("exchange.declare", async |channel| {
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

    async fn send(&self, session: &Session, ready: Vec<Ready>, outcomes: &mut [Result<(), PublishError>]) {
        let (parcels, rest): (Vec<Parcel>, Vec<_>) = ready
            .into_iter()
            .map(|ready| {
                let (id, size) = (ready.parcel.properties.message_id().clone(), ready.parcel.body.len());
                (ready.parcel, (ready.index, ready.to, id, size as u64))
            })
            .unzip();
        for (fate, (index, to, id, size)) in
            session.publish_patiently(parcels, self.options.patience).await.into_iter().zip(rest)
        {
            outcomes[index] = match fate {
                Fate::TooLarge(limit) => {
                    let id = id.map(|id| id.to_string()).unwrap_or_default();
                    Err(PublishError::TooLarge { id, size, limit })
                }
                fate => self.outcome(fate, &to),
            };
        }
    }

    /// Sends what goes to a queue with a limit: at once where the server counts, and else few at a time, one caller after
    /// the other.
    async fn send_counted(
        &self,
        session: &Session,
        queue: &QueueName,
        mut ready: Vec<Ready>,
        outcomes: &mut [Result<(), PublishError>],
    ) {
        let room = self.room(queue);
        if let Some(intake) = self.intake(queue) {
            intake.consumer_out_of_doubt().await;
        }
        while !ready.is_empty() {
            let Some((_, limit)) = ready[0].limited.clone() else { return };
            let any_delayed = ready.iter().any(|ready| ready.delayed);
            if self.buffered(queue) == 0 && room.is_left_to_the_server(limit, any_delayed) {
                return self.send(session, ready, outcomes).await;
            }
            let turn = room.turn.lock().await;
            let left = match self.room_left(session, queue, limit, &room, any_delayed).await {
                Ok(left) => left,
                Err(error) => {
                    ready.iter().for_each(|ready| outcomes[ready.index] = Err(error.clone()));
                    return;
                }
            };
            let count = match left {
                None => {
                    // Nobody has to wait until this is confirmed.
                    drop(turn);
                    return self.send(session, ready, outcomes).await;
                }
                Some(0) => {
                    let full = PublishError::QueueFull { queue: queue.clone(), limit: limit.limit() };
                    ready.iter().for_each(|ready| outcomes[ready.index] = Err(full.clone()));
                    return;
                }
                Some(left) => ready.len().min(LIMIT_STEP).min(usize::try_from(left).unwrap_or(usize::MAX)),
            };
            let now: Vec<Ready> = ready.drain(..count).collect();
            let delayed: Vec<usize> =
                now.iter().filter(|ready| ready.delayed).map(|ready| ready.index).collect();
            self.send(session, now, outcomes).await;
            room.went_beside(delayed.iter().filter(|index| outcomes[**index].is_ok()).count() as u64);
        }
    }

    fn outcome(&self, fate: Fate, to: &Target) -> Result<(), PublishError> {
        match fate {
            Fate::Confirmed => Ok(()),
            Fate::Unknown(detail) => {
                if let Target::Topic { exchange, .. } = to {
                    // It may be gone: look before the next one is published on it.
                    self.exchanges.lock().remove(exchange.as_str());
                }
                Err(PublishError::Unknown { detail })
            }
            Fate::TooLarge(limit) => {
                Err(PublishError::Unavailable { detail: format!("RabbitMQ takes {limit} bytes at most") })
            }
            Fate::Unsent(detail) => Err(PublishError::Unavailable { detail }),
            Fate::Unroutable => Err(match to {
                Target::Topic { exchange, topic } => {
                    PublishError::Unroutable { exchange: exchange.clone(), topic: topic.clone() }
                }
                Target::Queue(queue) => {
                    self.has_to_be_made_again(queue);
                    let detail =
                        format!("queue `{queue}` was deleted on the server; it is made again, try again");
                    PublishError::Unavailable { detail }
                }
            }),
            Fate::Rejected => Err(self.full(to)),
        }
    }

    /// A refusal does not say which queue was full; of those that have a limit, it is the one that was meant or bound.
    fn full(&self, to: &Target) -> PublishError {
        let full = match to {
            Target::Queue(queue) => {
                self.intake(queue).and_then(|intake| Some((queue.clone(), intake.max_length()?)))
            }
            Target::Topic { exchange, topic } => self.bound_with_limit(exchange, topic).next(),
        };
        match full {
            Some((queue, limit)) => PublishError::QueueFull { queue, limit: limit.limit() },
            None => PublishError::Unavailable {
                detail: "RabbitMQ rejected the message, as by a limit that a policy sets".into(),
            },
        }
    }
}
