//! One group in memory: its state, and the places of the tickets that wait.

use crawlway_store::{
    Ticket,
    rate_limiter::rules::{Answer, Context, GroupState, Request, decide},
};
use std::collections::HashMap;

/// Number of places that may be out of date before they are removed.
const MAX_OUTDATED: usize = 64;

/// A group, kept small since there may be millions.
#[derive(Debug)]
pub(super) struct GroupEntry {
    /// `None` only while a decision is made.
    state: Option<GroupState>,
    /// Places by ticket, some of which may have been passed over.
    #[expect(clippy::box_collection, reason = "most groups have none, and a map has six words")]
    places: Option<Box<HashMap<Ticket, u64>>>,
}

impl GroupEntry {
    pub(super) fn new(state: GroupState) -> Self {
        Self { state: Some(state), places: None }
    }

    pub(super) fn state(&self) -> Option<&GroupState> {
        self.state.as_ref()
    }

    pub(super) fn state_mut(&mut self) -> Option<&mut GroupState> {
        self.state.as_mut()
    }

    /// Place of a ticket.
    pub(super) fn place(&self, ticket: Ticket) -> Option<u64> {
        self.places.as_ref()?.get(&ticket).copied()
    }

    /// Decides about a request, and stores the new place of its ticket.
    pub(super) fn decide(
        &mut self,
        request: Request,
        ticket: Option<Ticket>,
        context: &Context<'_>,
    ) -> Answer {
        let (state, answer) = decide(self.state.take(), request, context);
        let (first, waiting) = state.places();
        self.state = Some(state);
        if let Some(ticket) = ticket {
            match answer {
                Answer::Wait { place: Some(place), .. } => {
                    self.places.get_or_insert_default().insert(ticket, place);
                }
                _ => {
                    if let Some(places) = &mut self.places {
                        places.remove(&ticket);
                    }
                }
            }
        }
        let waiting = usize::try_from(waiting).unwrap_or(usize::MAX);
        self.places.take_if(|places| {
            if places.len() > waiting.saturating_mul(2).saturating_add(MAX_OUTDATED) {
                places.retain(|_, place| *place >= first);
            }
            waiting == 0
        });
        answer
    }
}
