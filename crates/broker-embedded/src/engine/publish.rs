//! Publishing: validation, routing, maximum lengths, and encoding of records.

use super::{
    Engine,
    commit::{CommitError, Effect, Request},
    state::State,
};
use crate::record::{Kind, PayloadParts};
use crawlway_broker::{Ordering, Outgoing, PublishError, Target, Timestamp, limits};

/// Routing result of a batch: per message, an error or the number of its records.
#[derive(Debug)]
pub(crate) struct Routes(Vec<Result<usize, PublishError>>);

impl Routes {
    /// Outcome per message, given the results of its records.
    pub(crate) fn outcomes(self, records: Vec<Result<(), CommitError>>) -> Vec<Result<(), PublishError>> {
        let mut records = records.into_iter();
        let outcome = |route: Result<usize, PublishError>| {
            let mut outcome = Ok(());
            for _ in 0..route? {
                // A missing result means that the broker was closed before the write.
                let record = records.next().map_or(Err(PublishError::Closed), |record| Ok(record?));
                outcome = outcome.and(record);
            }
            outcome
        };
        self.0.into_iter().map(outcome).collect()
    }
}

impl From<CommitError> for PublishError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::NotWritten(detail) => PublishError::Unavailable { detail },
            CommitError::Unknown(detail) => PublishError::Unconfirmed { detail },
        }
    }
}

impl Engine {
    /// Validates and routes a batch, and reserves places in its queues.
    pub(crate) fn route(&self, batch: &[Outgoing], now: Timestamp) -> (Request, Routes) {
        let checked: Vec<Result<(), PublishError>> =
            batch.iter().map(|message| self.check(message)).collect();
        let queues = self.state.lock().route_all(batch, checked);
        let mut request = Request::default();
        let mut routes = Vec::with_capacity(batch.len());
        for (message, queues) in batch.iter().zip(queues) {
            routes.push(queues.map(|queues| {
                for number in &queues {
                    add(&mut request, *number, message, now);
                }
                request.make_atomic(queues.len());
                queues.len()
            }));
        }
        (request, Routes(routes))
    }

    fn check(&self, message: &Outgoing) -> Result<(), PublishError> {
        limits::check(message)?;
        let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = (message.body.len() + headers) as u64;
        let limit = self.sizes.max_message;
        if size > limit {
            return Err(PublishError::TooLarge { id: message.id.to_string(), size, limit });
        }
        Ok(())
    }
}

fn add(request: &mut Request, queue: u16, message: &Outgoing, now: Timestamp) {
    let due = message.not_before.filter(|time| *time > now).unwrap_or_default();
    let parts = PayloadParts {
        published_at: now,
        due,
        group: message.group.as_deref(),
        history: None,
        dead_letter: None,
        id: message.id.as_str(),
        key: message.key.as_deref(),
        headers: &message.headers,
        body: &message.body,
    };
    let published_second = u32::try_from(now.as_millis() / 1000).unwrap_or(u32::MAX);
    let group = message.group.as_deref().map(Into::into);
    request.add(queue, Kind::Message, &parts, Effect::Publish { published_second, due, group });
}

impl State {
    fn route_all(
        &mut self,
        batch: &[Outgoing],
        checked: Vec<Result<(), PublishError>>,
    ) -> Vec<Result<Vec<u16>, PublishError>> {
        let route = |(message, checked): (&Outgoing, Result<(), PublishError>)| {
            checked?;
            if self.closed {
                return Err(PublishError::Closed);
            }
            let queues = self.route(message)?;
            for number in &queues {
                self.check_queue(*number, message)?;
            }
            for number in &queues {
                self.queue(*number).reserved += 1;
            }
            Ok(queues)
        };
        batch.iter().zip(checked).map(route).collect()
    }

    fn route(&self, message: &Outgoing) -> Result<Vec<u16>, PublishError> {
        match &message.to {
            Target::Queue(name) => match self.numbers.get(name) {
                Some(number) => Ok(vec![*number]),
                None => {
                    Err(PublishError::UnknownQueue { queue: name.clone(), known: self.similar_names(name) })
                }
            },
            Target::Topic { exchange, topic } => {
                let is_routed = |n: &u16| self.queues[*n as usize].spec.is_routed(&message.to);
                let queues: Vec<u16> = (0..self.queues.len()).map(|n| n as u16).filter(is_routed).collect();
                if queues.is_empty() {
                    return Err(PublishError::Unroutable {
                        exchange: exchange.clone(),
                        topic: topic.clone(),
                    });
                }
                Ok(queues)
            }
        }
    }

    fn check_queue(&self, number: u16, message: &Outgoing) -> Result<(), PublishError> {
        let queue = &self.queues[number as usize];
        if queue.spec.ordering == Ordering::PerGroup && message.group.is_none() {
            return Err(PublishError::Invalid {
                id: message.id.to_string(),
                problem: format!("queue `{}` is ordered per group; set the message's group", queue.spec.name),
            });
        }
        self.check_room(number)
    }

    /// Fails if the queue is at its maximum length.
    pub(super) fn check_room(&self, number: u16) -> Result<(), PublishError> {
        let queue = &self.queues[number as usize];
        match queue.spec.max_length.map(crawlway_broker::MaxLength::limit) {
            Some(limit) if queue.pending() + queue.reserved >= limit => {
                Err(PublishError::QueueFull { queue: queue.spec.name.clone(), limit })
            }
            _ => Ok(()),
        }
    }
}
