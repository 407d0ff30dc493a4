//! Checker of limits over all starts and ends of requests.

use super::fixture::*;

/// Checks concurrency and minimum delays. With a clock that runs by itself a request starts between call and answer: it is
/// checked with the later time, and the next one against the earlier; an end is recorded before the rate limiter learns of it.
#[derive(Debug, Default)]
pub(super) struct LimitChecker {
    groups: HashMap<Group, GroupState>,
    pub(super) starts: usize,
}

#[derive(Debug, Default)]
struct GroupState {
    /// Ends of leases by permit id.
    in_flight: HashMap<u64, Timestamp>,
    last_start: Option<Timestamp>,
    last_end: Option<Timestamp>,
}

impl LimitChecker {
    /// Records a permit that was requested and granted at these times.
    pub(super) fn started(&mut self, permit: &Permit, limits: &RateLimits, asked: Timestamp, now: Timestamp) {
        let Permit { group, id, until } = permit;
        let state = self.groups.entry(group.clone()).or_default();
        let lost: Vec<(u64, Timestamp)> = state
            .in_flight
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(id, until)| (*id, *until))
            .collect();
        for (id, until) in lost {
            state.in_flight.remove(&id);
            state.last_end = state.last_end.max(Some(until));
        }
        assert!(
            state.in_flight.len() < limits.concurrency as usize,
            "`{group}`: one more starts at {now:?} than {} in flight",
            limits.concurrency
        );
        let (last, which) =
            if limits.concurrency == 1 { (state.last_end, "end") } else { (state.last_start, "start") };
        if let Some(last) = last {
            assert!(
                now >= last + limits.min_delay,
                "`{group}`: {:?} since the {which} of the last, a gap of {:?} was asked for",
                now.since(last),
                limits.min_delay
            );
        }
        assert!(*until > now - MOMENT, "`{group}`: a lease that has ended when it begins");
        assert!(state.in_flight.insert(*id, *until).is_none(), "`{group}`: permit {id} is given twice");
        state.last_start = state.last_start.max(Some(asked));
        self.starts += 1;
    }

    pub(super) fn ended(&mut self, permit: &Permit, now: Timestamp) {
        let state = self.groups.entry(permit.group.clone()).or_default();
        if let Some(until) = state.in_flight.remove(&permit.id) {
            // A lease that has ended counts until its end.
            state.last_end = state.last_end.max(Some(now.min(until)));
        }
    }
}
