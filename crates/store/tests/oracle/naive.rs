//! One group of the oracle: lists that are searched from end to end, and every rule spelled out.

use super::Fault;
use crawlway_store::{
    Limits, Outcome, Policy, Ticket, Timestamp, Why,
    gate::{BackOff, Jitter, Typical},
};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone)]
pub(super) struct Naive {
    seen: Timestamp,
    first_limits: Option<Limits>,
    gap: Duration,
    in_flight: Vec<Held>,
    line: Vec<(Ticket, Timestamp)>,
    last_start: Option<Timestamp>,
    last_end: Option<Timestamp>,
    typical: Option<Typical>,
    blocks: u32,
    blocked_at: Timestamp,
    until: Timestamp,
    openings: u32,
    probe: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    id: u64,
    started: Timestamp,
    until: Timestamp,
}

impl Naive {
    pub(super) fn new(now: Timestamp) -> Self {
        let never = Timestamp::from_millis(0);
        Self {
            seen: now,
            first_limits: None,
            gap: Duration::ZERO,
            in_flight: Vec::new(),
            line: Vec::new(),
            last_start: None,
            last_end: None,
            typical: None,
            blocks: 0,
            blocked_at: never,
            until: never,
            openings: 0,
            probe: None,
        }
    }

    #[allow(clippy::too_many_arguments, reason = "it is one call, and a struct would be made for it alone")]
    pub(super) fn reserve(
        &mut self,
        ticket: Ticket,
        limits: Limits,
        id: u64,
        now: Timestamp,
        policy: &Policy,
        jitter: &Jitter,
        fault: Fault,
    ) -> Result<Timestamp, (Timestamp, Why)> {
        self.catch_up(now, policy, fault);
        let limits = self.limits(limits, fault);
        self.gap = self.gap.max(limits.gap);
        let likely = match (self.typical, fault) {
            (_, Fault::GuessesNothing) => Duration::ZERO,
            (typical, _) => typical.map_or(policy.first_guess, Typical::likely).min(policy.lease),
        };
        let (free, why) = self.earliest(limits, likely, now, fault);
        let pace = limits.pace(likely);
        let place = self.line.iter().position(|(who, _)| *who == ticket && fault != Fault::ForgetsTickets);
        let newcomer = |line: &[(Ticket, Timestamp)]| match (line.first(), line.last(), fault) {
            (_, _, Fault::SameSlotForAll | Fault::NewcomersFirst) => free,
            (Some((_, first)), Some((_, last)), _) if free + pace > *first => free.max(*last + pace),
            _ => free,
        };
        let at = match place {
            Some(0) if free <= now && fault != Fault::NeverEarly => now,
            Some(place) if free <= now && self.line[place].1 <= now => now,
            Some(place) => self.line[place].1.max(free),
            None => newcomer(&self.line),
        };
        if at <= now {
            self.leave(ticket);
            return Ok(self.start(id, now, policy, fault));
        }
        match place {
            Some(place) if self.line[place].1 == at => {}
            Some(place) => {
                let mut behind = at;
                self.line[place].1 = at;
                for (_, follower) in &mut self.line[place + 1..] {
                    if fault != Fault::MovesNoFollowers {
                        behind = behind + limits.pace(self.typical.map_or(policy.first_guess, Typical::mean));
                        *follower = behind.max(*follower);
                        behind = *follower;
                    }
                }
            }
            None if self.line.len() >= policy.longest_line && fault != Fault::EndlessLine => {
                let spread = if fault == Fault::FullLineIsNotSpread {
                    Duration::ZERO
                } else {
                    jitter.up_to(at.since(now))
                };
                return Err((at + spread, Why::Crowded));
            }
            None => self.line.push((ticket, at)),
        }
        self.line.sort_by_key(|(_, at)| *at);
        Err((at, why))
    }

    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.line.retain(|(who, _)| *who != ticket);
    }

    pub(super) fn finish(
        &mut self,
        id: u64,
        outcome: Outcome,
        now: Timestamp,
        policy: &Policy,
        jitter: &Jitter,
        fault: Fault,
    ) -> bool {
        if fault != Fault::TakesLateFinish {
            self.catch_up(now, policy, fault);
        }
        let held = match self.in_flight.iter().position(|held| held.id == id) {
            Some(place) => self.in_flight.remove(place),
            None if fault == Fault::TakesAnyFinish => Held { id, started: now, until: now },
            None => return false,
        };
        self.ended(held, now, fault);
        let is_old = self.blocks > 0 && held.started <= self.blocked_at;
        match outcome {
            Outcome::Neutral if fault != Fault::NeutralResets => {}
            Outcome::Failed if fault == Fault::FailedIsNeutral => {}
            Outcome::Success | Outcome::Neutral => {
                let took = now.since(held.started);
                self.typical = Some(self.typical.map_or(Typical::first(took), |typical| typical.and(took)));
                let stays = self.openings > 0 && fault == Fault::ProbeNeverCloses;
                if (!is_old || fault == Fault::OldSuccessResets) && !stays {
                    self.until = Timestamp::from_millis(0);
                    self.openings = 0;
                    if fault != Fault::SuccessResetsNothing {
                        self.blocks = 0;
                    }
                }
            }
            Outcome::Blocked { .. } | Outcome::Failed => {
                self.blocked(outcome, is_old, now, policy, jitter, fault);
                let next = self.line.iter().map(|(_, at)| *at).find(|at| *at >= now).unwrap_or(self.until);
                for (_, at) in &mut self.line {
                    if fault != Fault::LineStaysInBackOff {
                        *at = *at + self.until.since(next);
                    }
                }
            }
        }
        true
    }

    pub(super) fn extend(
        &mut self,
        id: u64,
        now: Timestamp,
        policy: &Policy,
        fault: Fault,
    ) -> Option<Timestamp> {
        self.catch_up(now, policy, fault);
        let until = now + policy.lease;
        match self.in_flight.iter_mut().find(|held| held.id == id) {
            Some(_) if fault == Fault::IgnoresExtend => {}
            Some(held) => held.until = until,
            None if fault == Fault::ExtendRevives => self.in_flight.push(Held { id, started: now, until }),
            None => return None,
        }
        Some(until)
    }

    pub(super) fn is_spent(&mut self, now: Timestamp, policy: &Policy, fault: Fault) -> bool {
        self.catch_up(now, policy, fault);
        let in_use = !self.in_flight.is_empty() || !self.line.is_empty();
        if in_use && fault != Fault::ForgetsInUse {
            return false;
        }
        let gap = if fault == Fault::ForgetsGap { Duration::ZERO } else { self.gap };
        let last = self.last_start.max(self.last_end).unwrap_or(now);
        let trouble = self.blocks > 0 && now < self.until + policy.grudge && fault != Fault::ForgetsTrouble;
        now >= last + gap.max(policy.idle) && !trouble
    }

    fn limits(&mut self, limits: Limits, fault: Fault) -> Limits {
        let first = *self.first_limits.get_or_insert(limits);
        let Limits { in_flight, gap } = if fault == Fault::KeepsFirstLimits { first } else { limits };
        Limits {
            in_flight: match fault {
                Fault::AtMostAThousandInFlight => in_flight.min(1000),
                _ => in_flight,
            },
            gap: if fault == Fault::LeastGapOfAMoment { gap.max(MOMENT) } else { gap },
        }
    }

    fn earliest(&self, limits: Limits, likely: Duration, now: Timestamp, fault: Fault) -> (Timestamp, Why) {
        let alone = limits.in_flight == 1;
        let last = match fault {
            Fault::GapFromStart => self.last_start,
            Fault::GapFromEnd => self.last_end,
            _ if alone => self.last_end,
            _ => self.last_start,
        };
        let mut at = last.map_or(now, |last| now.max(last + limits.gap));
        let mut why = Why::Pace;
        let allowed = limits.in_flight as usize + usize::from(fault == Fault::OneMoreInFlight);
        let probe = self.probe.filter(|_| fault != Fault::ManyProbes);
        let stuck = fault == Fault::ProbeIsForEver && probe.is_some();
        let probe = self.in_flight.iter().find(|held| Some(held.id) == probe);
        let in_the_way =
            probe.or_else(|| self.in_flight.len().checked_sub(allowed).and_then(|n| self.in_flight.get(n)));
        if stuck {
            at = at.max(now + Duration::from_secs(60));
        }
        if let Some(held) = in_the_way {
            let thought = held.started + likely;
            let patience = if fault == Fault::HasThemPoll {
                MOMENT
            } else {
                (now.since(held.started) / 2).max(Duration::from_millis(50))
            };
            let end = if thought > now { thought } else { now + patience }.min(held.until.max(now + MOMENT));
            at = at.max(if alone { end + limits.gap } else { end });
            why = Why::Busy;
        }
        if self.openings > 0 {
            (at.max(self.until), Why::Open)
        } else if self.until > now {
            (at.max(self.until), Why::BackOff)
        } else {
            (at, why)
        }
    }

    fn start(&mut self, id: u64, now: Timestamp, policy: &Policy, fault: Fault) -> Timestamp {
        let lease = if fault == Fault::LeaseEndsEarly { policy.lease / 2 } else { policy.lease };
        self.in_flight.push(Held { id, started: now, until: now + lease });
        self.last_start = Some(now);
        if self.openings > 0 {
            self.probe = Some(id);
        }
        if fault == Fault::StatesNoLease { now } else { now + policy.lease }
    }

    fn blocked(
        &mut self,
        outcome: Outcome,
        is_old: bool,
        now: Timestamp,
        policy: &Policy,
        jitter: &Jitter,
        fault: Fault,
    ) {
        let asked = match outcome {
            Outcome::Blocked { retry_after: Some(asked) } if fault != Fault::IgnoresRetryAfter => {
                let uncapped = fault == Fault::RetryAfterUncapped;
                Some(if uncapped { asked } else { asked.min(policy.longest_retry_after) })
            }
            _ => None,
        };
        if let Some(asked) = asked {
            self.until = self.until.max(now + asked);
        }
        if is_old && fault != Fault::BurstCountsEach {
            return;
        }
        self.blocks += 1;
        self.blocked_at = now;
        let back_off = match fault {
            Fault::NoJitter => BackOff { jitter_percent: 0, ..policy.back_off },
            Fault::BackOffUncapped => BackOff { most: Duration::from_secs(86_400), ..policy.back_off },
            _ => policy.back_off,
        };
        let blocks = if fault == Fault::BackOffNeverDoubles { 1 } else { self.blocks };
        if asked.is_none() || fault != Fault::RetryAfterReplaces {
            self.until = self.until.max(now + back_off.after(blocks, jitter));
        }
        let breaker = match fault {
            Fault::BreakerNeverOpens => None,
            Fault::BreakerAlways => Some(policy.breaker.unwrap_or_default()),
            _ => policy.breaker,
        };
        if let Some(breaker) = breaker
            && self.blocks >= breaker.failures + u32::from(fault == Fault::BreakerOneLate)
        {
            self.openings += 1;
            let openings = if fault == Fault::SameCoolDown { 1 } else { self.openings };
            self.until = self.until.max(now + breaker.after(openings));
        }
    }

    fn ended(&mut self, held: Held, at: Timestamp, fault: Fault) {
        self.last_end = self.last_end.max(Some(at));
        if self.probe == Some(held.id) && fault != Fault::ProbeIsForEver {
            self.probe = None;
        }
    }

    fn catch_up(&mut self, now: Timestamp, policy: &Policy, fault: Fault) {
        if now < self.seen && fault != Fault::ClockBackIsIgnored {
            self.turn_back(self.seen.since(now));
        }
        self.seen = now;
        if fault != Fault::LeaseNeverEnds {
            let (lost, held): (Vec<Held>, Vec<Held>) =
                self.in_flight.drain(..).partition(|held| held.until <= now);
            self.in_flight = held;
            for held in lost {
                let last_end = self.last_end;
                self.ended(held, held.until, fault);
                if fault == Fault::LostLeaseHasNoEnd {
                    self.last_end = last_end;
                }
            }
        }
        let grace = match fault {
            Fault::SlotsNeverLapse => return,
            Fault::SlotsLapseAtOnce => Duration::ZERO,
            _ => policy.grace,
        };
        self.line.retain(|(_, at)| *at + grace >= now);
    }

    fn turn_back(&mut self, by: Duration) {
        let earlier = |time: &mut Timestamp| *time = *time - by;
        self.in_flight.iter_mut().flat_map(|held| [&mut held.started, &mut held.until]).for_each(earlier);
        self.line.iter_mut().map(|(_, at)| at).for_each(earlier);
        [&mut self.last_start, &mut self.last_end].into_iter().flatten().for_each(earlier);
        [&mut self.blocked_at, &mut self.until].into_iter().for_each(earlier);
    }
}
