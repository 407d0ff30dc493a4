//! Who watches every start and end, and knows what the limits allow.

use super::trial::*;

/// Has seen every request so far. A clock that goes on by itself accuses no gate wrongly: a request started at some time
/// between the question and the answer, so that the next one is held to the earlier of them and itself to the later, and
/// an end is noted before the gate is told.
#[derive(Debug, Default)]
pub(super) struct Witness {
    groups: HashMap<Group, Seen>,
    pub(super) starts: usize,
}

#[derive(Debug, Default)]
struct Seen {
    /// When their leases end.
    in_flight: HashMap<u64, Timestamp>,
    last_start: Option<Timestamp>,
    last_end: Option<Timestamp>,
}

impl Witness {
    /// One was asked for at the first of these times and granted by the second.
    pub(super) fn started(&mut self, permit: &Permit, limits: &Limits, asked: Timestamp, now: Timestamp) {
        let Permit { group, id, until } = permit;
        let seen = self.groups.entry(group.clone()).or_default();
        let lost: Vec<(u64, Timestamp)> = seen
            .in_flight
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(id, until)| (*id, *until))
            .collect();
        for (id, until) in lost {
            seen.in_flight.remove(&id);
            seen.last_end = seen.last_end.max(Some(until));
        }
        assert!(
            seen.in_flight.len() < limits.in_flight as usize,
            "`{group}`: one more starts at {now:?} than {} in flight",
            limits.in_flight
        );
        let (last, which) =
            if limits.in_flight == 1 { (seen.last_end, "end") } else { (seen.last_start, "start") };
        if let Some(last) = last {
            assert!(
                now >= last + limits.gap,
                "`{group}`: {:?} since the {which} of the last, a gap of {:?} was asked for",
                now.since(last),
                limits.gap
            );
        }
        assert!(*until > now - MOMENT, "`{group}`: a lease that has ended when it begins");
        assert!(seen.in_flight.insert(*id, *until).is_none(), "`{group}`: permit {id} is given twice");
        seen.last_start = seen.last_start.max(Some(asked));
        self.starts += 1;
    }

    pub(super) fn ended(&mut self, permit: &Permit, now: Timestamp) {
        let seen = self.groups.entry(permit.group.clone()).or_default();
        if let Some(until) = seen.in_flight.remove(&permit.id) {
            // Who ends later than its lease has lost its place before.
            seen.last_end = seen.last_end.max(Some(now.min(until)));
        }
    }
}
