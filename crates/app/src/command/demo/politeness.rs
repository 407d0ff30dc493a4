//! Politeness of the crawl, measured from the servers' access log.

use crawlway_demo_web::{AccessLog, AccessLogEntry, Web};
use crawlway_fetch::robots::{AGENT, Robots};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Requests to one host. Field names are those of the JSON output.
#[derive(Debug, Serialize)]
pub(super) struct HostPoliteness {
    pub(super) host: String,
    /// Pages in the index.
    pub(super) pages: u64,
    pub(super) requests: u64,
    /// Highest number of concurrent requests.
    pub(super) at_once: u32,
    /// Median time of a response, in milliseconds.
    pub(super) answers_in_ms: u64,
    /// Minimum delay between two requests that the settings or robots.txt ask for, in milliseconds.
    pub(super) promised_gap_ms: u64,
    /// Whether the minimum delay is the `Crawl-delay` of robots.txt.
    pub(super) asked_for_it: bool,
    /// Shortest delay in the access log, in milliseconds.
    pub(super) smallest_gap_ms: Option<u64>,
    /// End of the last request, in milliseconds after the first request to any host.
    pub(super) done_after_ms: u64,
}

/// Politeness to each host, in the order of the web. `min_delay` is that of the settings.
pub(super) fn measure(
    web: &Web,
    log: &AccessLog,
    min_delay: Duration,
    pages: &BTreeMap<String, u64>,
) -> Vec<HostPoliteness> {
    let first = log.entries().iter().map(|visit| visit.started_us).min().unwrap_or_default();
    let of_host = |host: &str| {
        let visits = log.of(host);
        let crawl_delay = crawl_delay(web, host).filter(|delay| *delay > min_delay);
        let last = visits.iter().map(|visit| visit.ended_us).max().unwrap_or(first);
        let promised = crawl_delay.unwrap_or(min_delay);
        HostPoliteness {
            host: host.to_owned(),
            pages: pages.get(host).copied().unwrap_or_default(),
            requests: visits.len() as u64,
            at_once: visits.iter().map(|visit| visit.open).max().unwrap_or_default(),
            answers_in_ms: median_us(&visits) / 1000,
            promised_gap_ms: u64::try_from(promised.as_millis()).unwrap_or(u64::MAX),
            asked_for_it: crawl_delay.is_some(),
            smallest_gap_ms: shortest_delay_us(&visits).map(|delay| delay / 1000),
            done_after_ms: (last - first) / 1000,
        }
    };
    web.hosts().map(of_host).collect()
}

/// Shortest time from the end of a request to the start of the next.
fn shortest_delay_us(visits: &[AccessLogEntry]) -> Option<u64> {
    visits.windows(2).map(|pair| pair[1].started_us.saturating_sub(pair[0].ended_us)).min()
}

fn median_us(visits: &[AccessLogEntry]) -> u64 {
    let mut times: Vec<u64> = visits.iter().map(|visit| visit.ended_us - visit.started_us).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// `Crawl-delay` in the robots.txt of a host.
fn crawl_delay(web: &Web, host: &str) -> Option<Duration> {
    let robots = web.response(&format!("http://{host}:{}/robots.txt", web.port()))?;
    Robots::parse(&robots.body).crawl_delay(AGENT)
}
