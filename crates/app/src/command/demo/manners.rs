//! How polite the crawl was, by the log of the servers that were asked.

use crawlway_demo_web::{Log, Visit, Web};
use crawlway_fetch::robots::{AGENT, Robots};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// The clock of the servers and that of the crawler round differently, by a millisecond at most.
const ROUNDING: u64 = 1;

/// How one host was treated.
#[derive(Debug, Serialize)]
pub(super) struct Manners {
    pub(super) host: String,
    /// How many of its pages a search finds.
    pub(super) pages: u64,
    /// How many requests it got.
    pub(super) requests: u64,
    /// How many of them it had open at once, at most.
    pub(super) at_once: u32,
    /// How long one of its answers takes, in milliseconds, at the median.
    pub(super) answers_in_ms: u64,
    /// How long it is left alone between two requests, in milliseconds.
    pub(super) promised_gap_ms: u64,
    /// Whether its robots.txt asked for that.
    pub(super) asked_for_it: bool,
    /// How long it was, at least, in milliseconds.
    pub(super) smallest_gap_ms: Option<u64>,
    /// When it had its last request, in milliseconds after the first one of all.
    pub(super) done_after_ms: u64,
}

impl Manners {
    /// Whether the promise was kept.
    pub(super) fn kept(&self) -> bool {
        self.at_once <= 1 && self.smallest_gap_ms.is_none_or(|gap| gap + ROUNDING >= self.promised_gap_ms)
    }
}

/// How each host was treated, in the order of the web.
pub(super) fn look(web: &Web, log: &Log, gap: Duration, pages: &BTreeMap<String, u64>) -> Vec<Manners> {
    let first = log.visits().iter().map(|visit| visit.started_us).min().unwrap_or_default();
    let of_host = |host: &str| {
        let visits = log.of(host);
        let asked_for = asked_for(web, host).filter(|delay| *delay > gap);
        let last = visits.iter().map(|visit| visit.ended_us).max().unwrap_or(first);
        Manners {
            host: host.to_owned(),
            pages: pages.get(host).copied().unwrap_or_default(),
            requests: visits.len() as u64,
            at_once: visits.iter().map(|visit| visit.open).max().unwrap_or_default(),
            answers_in_ms: median(&visits) / 1000,
            promised_gap_ms: millis(asked_for.unwrap_or(gap)),
            asked_for_it: asked_for.is_some(),
            smallest_gap_ms: smallest_gap(&visits).map(|gap| gap / 1000),
            done_after_ms: (last - first) / 1000,
        }
    };
    web.hosts().map(of_host).collect()
}

/// From the end of one request to the start of the next, in microseconds.
fn smallest_gap(visits: &[Visit]) -> Option<u64> {
    visits.windows(2).map(|pair| pair[1].started_us.saturating_sub(pair[0].ended_us)).min()
}

/// In microseconds.
fn median(visits: &[Visit]) -> u64 {
    let mut times: Vec<u64> = visits.iter().map(|visit| visit.ended_us - visit.started_us).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The delay that a host's robots.txt asks for.
fn asked_for(web: &Web, host: &str) -> Option<Duration> {
    let robots = web.answer(&format!("http://{host}:{}/robots.txt", web.port()))?;
    Robots::parse(&robots.body).crawl_delay(AGENT)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(started_us: u64, ended_us: u64) -> Visit {
        Visit {
            host: "a.test".to_owned(),
            path: "/".to_owned(),
            status: 200,
            started_ms: 0,
            ended_ms: 0,
            started_us,
            ended_us,
            open: 1,
        }
    }

    #[test]
    fn a_gap_is_from_an_end_to_the_next_start_and_the_smallest_counts() {
        let visits = [visit(0, 1_000), visit(101_000, 102_000), visit(150_000, 160_000)];
        assert_eq!(smallest_gap(&visits), Some(48_000));
        assert_eq!(smallest_gap(&visits[..1]), None);
        let polite = Manners {
            host: String::new(),
            pages: 0,
            requests: 3,
            at_once: 1,
            answers_in_ms: 1,
            promised_gap_ms: 49,
            asked_for_it: false,
            smallest_gap_ms: Some(48),
            done_after_ms: 160,
        };
        assert!(polite.kept(), "a millisecond is rounding");
        assert!(!Manners { promised_gap_ms: 50, ..polite }.kept());
    }
}
