//! robots.txt cache: each site's file is fetched once, through the rate limiter, and cached for up to a day.

use crate::{
    budget::TimeBudget,
    client::{Fetcher, HopResponse, Oversize, group_of, outcome, outcome_within},
    error::{FetchCode, FetchError, HopError},
    limits::Limits,
    permit::{acquire, next_permit_at},
    redirects::redirect_location,
    request::{Request, retry_after},
    robots::{self, Robots},
    robots_outage::Outage,
    site_cache::SiteCache,
};
use crawlway_content::{NormalUrl, UrlOptions};
use crawlway_store::{
    Timestamp,
    rate_limiter::{self, Group, RequestOutcome, Ticket},
};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// TTL of rules; RFC 9309 allows a day.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// TTL of permanent failures: unknown host, refused address, invalid certificate.
const FAILURE_TTL: Duration = Duration::from_secs(60);
/// Delay of the items of a site while another task probes its robots.txt.
const PROBE_DELAY: Duration = Duration::from_secs(2);
/// Maximum number of redirects of a robots.txt.
const MAX_REDIRECTS: usize = 5;
/// Maximum `Crawl-delay` that is honoured.
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(60);

/// robots.txt of one site, applied to one product token.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    robots: Arc<Robots>,
    agent: String,
}

impl Rules {
    /// Rate limit with the minimum delay raised to the `Crawl-delay` of the site.
    pub(crate) fn pace(&self, pace: rate_limiter::RateLimits) -> rate_limiter::RateLimits {
        match self.robots.crawl_delay(&self.agent) {
            Some(delay) => pace.with_min_delay(delay.min(MAX_CRAWL_DELAY)),
            None => pace,
        }
    }

    pub(crate) fn robots(&self) -> &Arc<Robots> {
        &self.robots
    }

    pub(crate) fn sitemaps(&self) -> &[String] {
        self.robots.sitemaps()
    }

    pub(crate) fn check(&self, url: &NormalUrl) -> Result<(), FetchError> {
        let decision = self.robots.check(&self.agent, url.path_and_query());
        if decision.allowed {
            return Ok(());
        }
        let detail = match decision.rule {
            Some(rule) => format!("line {} of robots.txt: `{}`", rule.line, rule.text),
            None => "robots.txt disallows everything".to_owned(),
        };
        Err(HopError::new(FetchCode::RobotsDisallowed, detail).at(url.as_str()))
    }
}

/// Cache entry: the robots.txt of one site.
#[derive(Debug, Default)]
pub(crate) struct Site {
    state: Mutex<State>,
    /// Locked during a probe, so that concurrent requests fetch the file once.
    probe: tokio::sync::Mutex<()>,
}

/// State of a robots.txt.
#[derive(Debug, Default)]
enum State {
    /// Not fetched yet, or expired.
    #[default]
    Unknown,
    /// Rules of the file.
    Rules { robots: Arc<Robots>, until: Timestamp },
    /// Permanent failure.
    Failed { error: FetchError, until: Timestamp },
    /// Unreachable for now.
    Unreachable(Outage),
}

impl Site {
    /// Cached result; `None` if the file has to be fetched.
    fn cached(&self, url: &NormalUrl, request: &Request, now: Timestamp) -> Option<RobotsResult> {
        match &mut *self.state.lock() {
            State::Rules { robots, until } if is_fresh(*until, now, TTL) => Some(Ok(robots.clone())),
            State::Failed { error, until } if is_fresh(*until, now, FAILURE_TTL) => {
                Some(Err(FetchError { url: url.as_str().to_owned(), ..error.clone() }))
            }
            State::Unreachable(outage) if !outage.is_due(now) => {
                Some(Err(outage.error(request.ticket, request.robots_max_wait, now, url.as_str())))
            }
            _ => None,
        }
    }

    fn is_unreachable(&self) -> bool {
        matches!(&*self.state.lock(), State::Unreachable(_))
    }
}

type RobotsResult = Result<Arc<Robots>, FetchError>;

/// Whether an entry has not expired. A clock that was set back extends no TTL.
fn is_fresh(until: Timestamp, now: Timestamp, ttl: Duration) -> bool {
    until > now && until.since(now) <= ttl
}

/// Cache of the robots.txt of each site.
#[derive(Debug, Default)]
pub(crate) struct RobotsCache {
    sites: Mutex<SiteCache<Site>>,
}

impl RobotsCache {
    /// Rules for this URL. Fails while they are unknown, since then everything is disallowed.
    ///
    /// At most one probe per site runs at a time. While a site is unreachable, its back-off decides when the next one is due,
    /// and until then the result comes from the cache.
    pub(crate) async fn rules(
        &self,
        fetcher: &Fetcher,
        url: &NormalUrl,
        request: &Request,
        budget: &mut TimeBudget,
    ) -> Result<Rules, FetchError> {
        let clock = fetcher.clock();
        let site = self.sites.lock().get_or_add(url.origin());
        let robots = match site.cached(url, request, clock.now()) {
            Some(result) => result,
            None => self.probe(&site, fetcher, url, request, budget).await,
        };
        Ok(Rules { robots: robots?, agent: request.identity.robots_token().to_owned() })
    }

    /// Expires the rules of a site whose connections fail, so that its robots.txt is fetched before the next page.
    pub(crate) fn expire(&self, origin: &str) {
        let site = self.sites.lock().get(origin);
        if let Some(site) = site {
            let mut state = site.state.lock();
            if matches!(&*state, State::Rules { .. }) {
                *state = State::Unknown;
            }
        }
    }

    /// Fetches the robots.txt of a site, or waits for the task that does.
    async fn probe(
        &self,
        site: &Arc<Site>,
        fetcher: &Fetcher,
        url: &NormalUrl,
        request: &Request,
        budget: &mut TimeBudget,
    ) -> RobotsResult {
        let clock = fetcher.clock();
        let wait = |detail: &str| FetchError {
            code: FetchCode::RobotsWait,
            url: url.as_str().to_owned(),
            detail: detail.to_owned(),
            not_before: Some(clock.now() + PROBE_DELAY),
        };
        let _probe = match site.probe.try_lock() {
            Ok(probe) => probe,
            Err(_) if site.is_unreachable() => {
                return Err(wait("robots.txt is unreachable and being probed"));
            }
            Err(_) => match budget.wait(site.probe.lock()).await {
                Some(probe) => probe,
                None => return Err(wait("robots.txt is still being fetched")),
            },
        };
        if let Some(result) = site.cached(url, request, clock.now()) {
            return result;
        }
        let fetched = fetch(fetcher, url, request, budget).await;
        let memory = fetched.as_ref().map_or(0, Robots::memory);
        self.sites.lock().resize(url.origin(), site, memory);
        let now = clock.now();
        let mut state = site.state.lock();
        match fetched {
            Ok(robots) => {
                let robots = Arc::new(robots);
                *state = State::Rules { robots: robots.clone(), until: now + TTL };
                Ok(robots)
            }
            Err(Failure::Wait(error)) => {
                if let (State::Unreachable(outage), Some(at)) = (&mut *state, error.not_before) {
                    outage.postpone(at);
                }
                Err(FetchError { url: url.as_str().to_owned(), ..error })
            }
            Err(Failure::Unreachable { detail, next_probe }) => {
                let before = match &*state {
                    State::Unreachable(outage) => Some(outage),
                    _ => None,
                };
                let policy = fetcher.rate_limiter().policy();
                let next_probe = next_probe.unwrap_or_else(|| {
                    let duration = before.map_or(Duration::ZERO, |outage| outage.duration(now));
                    now + duration.clamp(policy.backoff.first, policy.backoff.max.max(policy.backoff.first))
                });
                let mut outage = Outage::probed(before, detail, now, next_probe, policy.failure_ttl);
                let error = outage.error(request.ticket, request.robots_max_wait, now, url.as_str());
                *state = State::Unreachable(outage);
                Err(error)
            }
            Err(Failure::Permanent(error)) => {
                *state = State::Failed { error: error.clone(), until: now + FAILURE_TTL };
                Err(FetchError { url: url.as_str().to_owned(), ..error })
            }
        }
    }
}

/// Failure of a probe.
enum Failure {
    /// No permit, or too little time left: nothing is known of the file.
    Wait(FetchError),
    /// Unreachable for now. The time of the next probe comes from the rate limiter of the host; `None` if another origin of the
    /// host is live, so that this one has a back-off of its own.
    Unreachable { detail: String, next_probe: Option<Timestamp> },
    /// A retry would not help.
    Permanent(FetchError),
}

/// Fetches a robots.txt, every hop through the rate limiter. A 4xx status means that there are no rules.
async fn fetch(
    fetcher: &Fetcher,
    page: &NormalUrl,
    request: &Request,
    budget: &mut TimeBudget,
) -> Result<Robots, Failure> {
    let had_time = budget.is_half_left();
    let invalid =
        |error: String| Failure::Permanent(HopError::new(FetchCode::UrlInvalid, error).at(page.as_str()));
    let mut url =
        page.join("/robots.txt", &UrlOptions::default()).map_err(|error| invalid(error.to_string()))?;
    let limits =
        Limits { body_bytes: robots::MAX_BYTES, decoded_bytes: robots::MAX_BYTES, ..request.limits.clone() };
    for hop in 0..=MAX_REDIRECTS {
        let group = match &request.group {
            Some(group) if url.host() == request.url.host() => group.clone(),
            _ => group_of(&url).map_err(Failure::Permanent)?,
        };
        // One ticket for all items of the site, since the file is fetched once for all of them.
        let ticket = Ticket::of(url.as_str());
        let response = loop {
            let (permit, _) = acquire(
                fetcher.rate_limiter(),
                fetcher.clock(),
                &group,
                ticket,
                &request.rate_limit,
                request.on_rate_limit,
                // Deferring the fetch of a redirect's target would begin with the redirect again.
                hop > 0 || *page != request.url,
                url.as_str(),
            )
            .await
            .map_err(Failure::Wait)?;
            let had_half = budget.is_half_left();
            let sending = fetcher.request(&url, request.identity.headers(), &limits, Oversize::Truncate);
            let response = permit.during(budget.run(sending)).await;
            permit.finish(probe_outcome(had_half, fetcher.live_origins().has_other(&url), &response)).await;
            // A stale pooled connection is replaced, with a permit of its own.
            if !response.as_ref().is_err_and(|error| error.stale) {
                break response;
            }
        };
        let response = match response {
            Err(error) if is_permanent(error.code) => {
                return Err(Failure::Permanent(error.at(url.as_str())));
            }
            Err(error) if error.code == FetchCode::TimeoutTotal && !had_time => {
                return Err(Failure::Wait(error.at(url.as_str())));
            }
            Err(error) => {
                let detail = format!("robots.txt: {}: {}", error.code, error.detail);
                return Err(unreachable(fetcher, &group, ticket, request, &url, detail).await);
            }
            Ok(response) if is_unavailable(response.status.as_u16()) => {
                let detail = format!("robots.txt: status {}", response.status.as_u16());
                return Err(unreachable(fetcher, &group, ticket, request, &url, detail).await);
            }
            Ok(response) => response,
        };
        if let Some(location) = redirect_location(&response) {
            match url.join(&location, &UrlOptions::default()) {
                Ok(next) => url = next,
                // An invalid redirect counts as a missing file.
                Err(_) => return Ok(Robots::default()),
            }
            continue;
        }
        return Ok(if response.status.is_success() {
            Robots::parse(&response.body)
        } else {
            Robots::default()
        });
    }
    // RFC 9309: after five redirects it may be treated as unavailable, which means no rules.
    Ok(Robots::default())
}

async fn unreachable(
    fetcher: &Fetcher,
    group: &Group,
    ticket: Ticket,
    request: &Request,
    url: &NormalUrl,
    detail: String,
) -> Failure {
    if fetcher.live_origins().has_other(url) {
        return Failure::Unreachable { detail, next_probe: None };
    }
    let next_probe =
        next_permit_at(fetcher.rate_limiter(), fetcher.clock(), group, ticket, &request.rate_limit).await;
    Failure::Unreachable { detail, next_probe: Some(next_probe) }
}

/// Outcome of a probe for the rate limiter. Whatever leaves the rules unknown is a failure of the host, so that its back-off
/// schedules the next probe, unless another origin of the host is live.
fn probe_outcome(
    had_half: bool,
    other_is_live: bool,
    response: &Result<HopResponse, HopError>,
) -> RequestOutcome {
    match response {
        Err(_) if other_is_live => RequestOutcome::Neutral,
        Ok(response) if other_is_live && is_unavailable(response.status.as_u16()) => RequestOutcome::Neutral,
        Err(error) if error.stale || is_permanent(error.code) => outcome(response),
        Err(error) if error.code == FetchCode::TimeoutTotal => outcome_within(had_half, response),
        Err(_) => RequestOutcome::Failed,
        Ok(response) if is_unavailable(response.status.as_u16()) => {
            RequestOutcome::Blocked { retry_after: retry_after(&response.headers, SystemTime::now()) }
        }
        Ok(_) => outcome(response),
    }
}

fn is_unavailable(status: u16) -> bool {
    matches!(status, 429 | 500..=599)
}

/// Whether a retry of the probe would not help.
fn is_permanent(code: FetchCode) -> bool {
    matches!(
        code,
        FetchCode::GuardPrivateAddress
            | FetchCode::GuardPort
            | FetchCode::DnsNotFound
            | FetchCode::TlsCertificate
            | FetchCode::UrlInvalid
    )
}
