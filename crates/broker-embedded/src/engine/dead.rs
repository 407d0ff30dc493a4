//! Dead letters: listing, replaying and dropping them; and emptying a queue of what waits.

use super::{Engine, Request, commit::Effect, state::State};
use crate::{
    index::{Life, Slot},
    journal::Event,
    record::{Kind, Losses, OWN_PLACE, Stored},
};
use crawlway_broker::{
    BrokerError, Cause, DeadFilter, DeadId, DeadLetter, DeadPage, Message, PublishError, QueueName, Timestamp,
};

/// Letters are read and changed this many at a time, so that others get their turn in between.
const CHUNK: usize = 256;
const CHUNK_BYTES: u64 = 4 << 20;

/// Letters that are being written back into their queue.
#[derive(Debug)]
pub(crate) struct Replaying {
    pub(crate) request: Request,
    /// Go on after this one; `None` at the end.
    pub(crate) next: Option<u64>,
    /// Why no more can be replayed.
    pub(crate) stopped: Option<PublishError>,
}

impl Engine {
    pub(crate) fn dead_letters(
        &self,
        name: &QueueName,
        filter: &DeadFilter,
        after: Option<&DeadId>,
        limit: usize,
    ) -> Result<DeadPage, BrokerError> {
        let mut cursor = after.map(|id| number_of(id).unwrap_or(u64::MAX));
        let mut letters = Vec::new();
        let below = self.deaths_so_far();
        loop {
            let (chunk, next) = self.read_chunk(name, filter, cursor, below)?;
            for (_, letter) in chunk {
                if letters.len() == limit {
                    return Ok(DeadPage {
                        next: letters.last().map(|letter: &DeadLetter| letter.id.clone()),
                        letters,
                    });
                }
                letters.push(letter);
            }
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(DeadPage { letters, next: None }),
            }
        }
    }

    /// The matching ones among the next few letters, and where to go on.
    #[allow(clippy::type_complexity, reason = "numbered letters and a cursor; a name would say no more")]
    fn read_chunk(
        &self,
        name: &QueueName,
        filter: &DeadFilter,
        after: Option<u64>,
        below: u64,
    ) -> Result<(Vec<(u64, DeadLetter)>, Option<u64>), BrokerError> {
        let state = self.state.lock();
        let queue = state.number(name)?;
        let (numbers, next) = state.dead_after(queue, filter, after, below);
        let mut letters = Vec::new();
        for (number, slot) in numbers {
            match state.read(slot) {
                Ok(stored) => {
                    let letter = letter(name, number, stored);
                    if filter.matches(&letter) {
                        letters.push((number, letter));
                    }
                }
                Err(error) => tracing::error!(%error, queue = %name, "a dead letter cannot be read"),
            }
        }
        Ok((letters, next))
    }

    /// Letters that die from now on have this number or a higher one. Who goes through the dead letters
    /// goes no further, else those that die again at once would keep it going for ever.
    pub(crate) fn deaths_so_far(&self) -> u64 {
        self.state.lock().next_death
    }

    /// Prepares the next few matching letters, of those that died so far, to be written back.
    pub(crate) fn replay(
        &self,
        name: &QueueName,
        filter: &DeadFilter,
        after: Option<u64>,
        below: u64,
    ) -> Result<Replaying, BrokerError> {
        let mut state = self.state.lock();
        let queue = state.number(name)?;
        let (numbers, next) = state.dead_after(queue, filter, after, below);
        let mut request = Request::default();
        for (number, slot) in numbers {
            if state.slab.get(slot).life != Life::Dead {
                continue;
            }
            let (mut stored, mut carried) = match state.with_history(slot) {
                Ok(read) => read,
                Err(error) => {
                    tracing::error!(%error, queue = %name, "a dead letter cannot be read and is not replayed");
                    continue;
                }
            };
            stored.carried = Some(carried.clone());
            if !filter.matches(&letter(name, number, stored.clone())) {
                continue;
            }
            if let Err(full) = state.check_room(queue) {
                return Ok(Replaying { request, next: None, stopped: Some(full) });
            }
            carried.attempts = 0;
            carried.replays += 1;
            carried.losses = Losses::default();
            // It goes to the end of the line, also after a restart.
            carried.sequence = OWN_PLACE;
            (carried.first_error, carried.last_error) = (None, None);
            (stored.carried, stored.death) = (Some(carried), None);
            let group = stored.group.as_deref().map(Into::into);
            state.slab.get_mut(slot).life = Life::Leaving;
            state.queue(queue).reserved += 1;
            request.add(queue, Kind::Copy, &stored.parts(), Effect::Revive { slot, number, group });
        }
        Ok(Replaying { request, next, stopped: None })
    }

    /// Throws the matching letters away.
    pub(crate) fn drop_dead(&self, name: &QueueName, filter: &DeadFilter) -> Result<u64, BrokerError> {
        let mut cursor = None;
        let mut dropped = 0;
        let below = self.deaths_so_far();
        loop {
            let (chunk, next) = self.read_chunk(name, filter, cursor, below)?;
            let mut state = self.state.lock();
            let queue = state.number(name)?;
            let slots: Vec<(u64, Slot)> = chunk
                .iter()
                .filter_map(|(number, _)| Some((*number, *state.queues[queue as usize].dead.get(number)?)))
                .filter(|(_, slot)| state.slab.get(*slot).life == Life::Dead)
                .collect();
            self.end_all(&mut state, &slots.iter().map(|(_, slot)| *slot).collect::<Vec<_>>())?;
            dropped += slots.len() as u64;
            for (number, slot) in slots {
                state.queue(queue).dead.remove(&number);
                state.erase(slot);
            }
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(dropped),
            }
        }
    }

    /// Throws away what waits.
    pub(crate) fn purge(&self, name: &QueueName, now: Timestamp) -> Result<u64, BrokerError> {
        let mut state = self.state.lock();
        let number = state.number(name)?;
        state.expire_leases(now);
        let slots = state.queues[number as usize].waiting_slots(&state.slab);
        self.end_all(&mut state, &slots)?;
        state.queue(number).clear();
        let count = slots.len() as u64;
        for slot in slots {
            state.erase(slot);
        }
        Ok(count)
    }

    fn end_all(&self, state: &mut State, slots: &[Slot]) -> Result<(), BrokerError> {
        let events: Vec<_> = slots.iter().map(|slot| (state.slab.get(*slot).place, Event::Done)).collect();
        state.write_events(&events).map_err(|error| self.unavailable(&error))
    }
}

impl State {
    /// The next few dead letters, and where to go on after them.
    fn dead_after(
        &self,
        queue: u16,
        filter: &DeadFilter,
        after: Option<u64>,
        below: u64,
    ) -> (Vec<(u64, Slot)>, Option<u64>) {
        let dead = &self.queues[queue as usize].dead;
        if let Some(id) = &filter.id {
            let one = number_of(id).and_then(|number| Some((number, *dead.get(&number)?)));
            return (
                one.into_iter().filter(|(number, _)| after.is_none_or(|after| *number > after)).collect(),
                None,
            );
        }
        if !filter.ids.is_empty() {
            let mut numbers: Vec<u64> = filter.ids.iter().filter_map(number_of).collect();
            numbers.sort_unstable();
            numbers.retain(|number| after.is_none_or(|after| *number > after));
            let next = numbers.get(CHUNK).map(|_| numbers[CHUNK - 1]);
            numbers.truncate(CHUNK);
            let found = numbers.into_iter().filter_map(|number| Some((number, *dead.get(&number)?)));
            return (found.collect(), next);
        }
        let start = after.map_or(0, |after| after.saturating_add(1));
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        for (number, slot) in dead.range(start..below.max(start)) {
            chunk.push((*number, *slot));
            bytes += u64::from(self.slab.get(*slot).payload);
            if chunk.len() == CHUNK || bytes >= CHUNK_BYTES {
                return (chunk, Some(*number));
            }
        }
        (chunk, None)
    }
}

fn number_of(id: &DeadId) -> Option<u64> {
    id.0.strip_prefix('d')?.parse().ok()
}

fn letter(queue: &QueueName, number: u64, stored: Stored) -> DeadLetter {
    let carried = stored.carried;
    let (cause, reason, dead_at) =
        stored.death.map_or((Cause::Refused, String::new(), Timestamp::default()), |death| {
            (death.cause, death.reason, death.at)
        });
    let (attempts, replays, first_error, last_error) = carried.map_or((0, 0, None, None), |carried| {
        (carried.attempts, carried.replays, carried.first_error, carried.last_error)
    });
    DeadLetter {
        id: DeadId(format!("d{number}")),
        queue: queue.clone(),
        message: Message {
            id: stored.id,
            key: stored.key,
            group: stored.group,
            headers: stored.headers,
            body: stored.body,
            published_at: stored.published_at,
        },
        cause,
        reason,
        attempts,
        first_error,
        last_error,
        dead_at,
        replays,
    }
}
