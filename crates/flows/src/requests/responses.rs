//! The stage `responses`: applies each response to its request, once.

use super::message::{self, Head};
use crawlway_broker::{Delivery, MessageId};
use crawlway_flow::{Context, Invalid, Item, Output, Stage, StageError};
use crawlway_store::{
    RequestStore,
    requests::{Answer, ApplyOutcome, RequestKey},
};
use std::{collections::HashMap, sync::Arc};

/// Name of the stage in trails, metrics and fail points.
pub(super) const NAME: &str = "responses";

type Done = Output<(), ()>;

/// A response. An invalid one with readable headers fails its request, so that its user does not wait.
#[derive(Debug)]
pub(super) struct Response {
    answer: Answer,
    /// Reason why the message is a dead letter.
    invalid: Option<String>,
}

/// The stage `responses`.
#[derive(Debug)]
pub(super) struct ResponseStage {
    pub(super) store: Arc<dyn RequestStore>,
}

impl ResponseStage {
    /// Applies answers, of which several may be to one request.
    async fn apply(&self, answers: Vec<&Answer>) -> Result<Vec<ApplyOutcome>, StageError> {
        let mut rounds: Vec<Vec<usize>> = Vec::new();
        let mut answered: HashMap<&RequestKey, usize> = HashMap::new();
        for (place, answer) in answers.iter().enumerate() {
            let round = answered.entry(&answer.key).and_modify(|round| *round += 1).or_insert(0);
            if rounds.len() <= *round {
                rounds.push(Vec::new());
            }
            rounds[*round].push(place);
        }
        let mut outcomes = vec![ApplyOutcome::Deleted; answers.len()];
        for places in rounds {
            let batch: Vec<Answer> = places.iter().map(|place| answers[*place].clone()).collect();
            for (place, outcome) in places.iter().zip(self.store.apply(&batch).await?) {
                outcomes[*place] = outcome;
            }
        }
        Ok(outcomes)
    }
}

#[async_trait::async_trait]
impl Stage for ResponseStage {
    type In = Response;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, delivery: &Delivery) -> Result<Response, Invalid> {
        let message = &delivery.message;
        let read = || {
            let head = Head::read(message)?;
            Ok(Response { answer: message::read_response(&head, message::body_of(message)?)?, invalid: None })
        };
        read().or_else(|Invalid(reason)| {
            // Invalid headers cannot be trusted to name the request.
            let head = Head::read(message)?;
            let answer = head.error_answer(&format!("invalid response: {reason}"));
            Ok(Response { answer, invalid: Some(reason) })
        })
    }

    fn subject(&self, response: &Response) -> Option<String> {
        Some(response.answer.key.email.clone())
    }

    fn item_id(&self, response: &Response) -> Option<MessageId> {
        Some(MessageId::from(&*response.answer.key.id))
    }

    async fn run(&self, batch: Vec<Item<Response>>, _: &Context) -> Vec<Result<Done, StageError>> {
        let outcomes = self.apply(batch.iter().map(|item| &item.value.answer).collect()).await;
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => return batch.iter().map(|_| Err(error.clone())).collect(),
        };
        let finish = |(item, outcome): (Item<Response>, ApplyOutcome)| match item.value.invalid {
            Some(reason) => Err(StageError::Permanent { reason }),
            None => Ok(done(&item.value.answer, outcome)),
        };
        batch.into_iter().zip(outcomes).map(finish).collect()
    }
}

fn done(answer: &Answer, outcome: ApplyOutcome) -> Done {
    match outcome {
        ApplyOutcome::Applied => Output::empty(answer.status().as_str()),
        ApplyOutcome::Created => Output {
            detail: Some("the store did not know the request".to_owned()),
            ..Output::empty(answer.status().as_str())
        },
        ApplyOutcome::AlreadyEnded(status) => {
            Output { detail: Some(format!("the request is {status}")), ..Output::empty("ended_before") }
        }
        ApplyOutcome::Deleted => Output::empty("deleted"),
    }
}
