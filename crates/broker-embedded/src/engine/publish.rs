//! Publishing: routing, limits, and the records that carry the messages to disk.

use super::{
    Engine,
    commit::{CommitError, Effect, Request},
    state::State,
};
use crate::record::{Kind, Parts};
use crawlway_broker::{Outgoing, PublishError, Target, Timestamp, limits};

/// Checked and routed, ready to be written.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) request: Request,
    /// Per message: refused, or how many records of the request are its own.
    routes: Vec<Result<usize, PublishError>>,
}

impl Prepared {
    /// What became of each message, given what became of each record.
    pub(crate) fn outcomes(
        routes: Vec<Result<usize, PublishError>>,
        records: Vec<Result<(), CommitError>>,
    ) -> Vec<Result<(), PublishError>> {
        let mut records = records.into_iter();
        routes
            .into_iter()
            .map(|route| {
                let mut outcome = Ok(());
                for _ in 0..route? {
                    // Without a word about a record, the broker was closed before it was written.
                    let record = records.next().map_or(Err(PublishError::Closed), |record| Ok(record?));
                    outcome = outcome.and(record);
                }
                outcome
            })
            .collect()
    }

    pub(crate) fn into_parts(self) -> (Request, Vec<Result<usize, PublishError>>) {
        (self.request, self.routes)
    }
}

impl From<CommitError> for PublishError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::NotWritten(detail) => PublishError::Unavailable { detail },
            CommitError::Unknown(detail) => PublishError::Unknown { detail },
        }
    }
}

impl Engine {
    /// Checks and routes a batch, and makes room for it within the queues' limits.
    pub(crate) fn route(&self, batch: &[Outgoing], now: Timestamp) -> Prepared {
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
                request.tie(queues.len());
                queues.len()
            }));
        }
        Prepared { request, routes }
    }

    fn check(&self, message: &Outgoing) -> Result<(), PublishError> {
        limits::check(message)?;
        let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let size = (message.body.len() + headers) as u64;
        let limit = self.sizes.largest_message;
        if size > limit {
            return Err(PublishError::TooLarge { id: message.id.to_string(), size, limit });
        }
        Ok(())
    }
}

fn add(request: &mut Request, queue: u16, message: &Outgoing, now: Timestamp) {
    let due = message.not_before.filter(|time| *time > now).unwrap_or_default();
    let parts = Parts {
        published_at: now,
        due,
        group: message.group.as_deref(),
        carried: None,
        death: None,
        id: message.id.as_str(),
        key: message.key.as_deref(),
        headers: &message.headers,
        body: &message.body,
    };
    let born = u32::try_from(now.as_millis() / 1000).unwrap_or(u32::MAX);
    let group = message.group.as_deref().map(Into::into);
    request.add(queue, Kind::Message, &parts, Effect::Publish { born, due, group });
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
                None => Err(PublishError::UnknownQueue { queue: name.clone(), known: self.known(name) }),
            },
            Target::Topic { exchange, topic } => {
                let bound = |spec: &crawlway_broker::QueueSpec| {
                    spec.bindings
                        .iter()
                        .any(|binding| binding.exchange == *exchange && binding.pattern.matches(topic))
                };
                let queues: Vec<u16> = (0..self.queues.len())
                    .filter(|n| bound(&self.queues[*n].spec))
                    .map(|n| n as u16)
                    .collect();
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
        if queue.spec.groups && message.group.is_none() {
            return Err(PublishError::Invalid {
                id: message.id.to_string(),
                problem: format!("queue `{}` has message groups; set the message's group", queue.spec.name),
            });
        }
        self.check_room(number)
    }

    /// Refuses when the queue has reached its limit.
    pub(super) fn check_room(&self, number: u16) -> Result<(), PublishError> {
        let queue = &self.queues[number as usize];
        match queue.spec.max_length.map(crawlway_broker::MaxLength::limit) {
            Some(limit) if queue.waiting() + queue.reserved >= limit => {
                Err(PublishError::QueueFull { queue: queue.spec.name.clone(), limit })
            }
            _ => Ok(()),
        }
    }
}
