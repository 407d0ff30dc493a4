//! HTTP client: one fetch from the request to the response, through rate limiter, SSRF guard and redirect chain.

use crate::{
    blocks, body,
    budget::TimeBudget,
    connect::{Connected, Connector, Origin, Sender},
    error::{FetchCode, FetchError, HopError},
    exchange::{ExchangeError, send, send_error},
    guard::SsrfGuard,
    host_delays::{HostDelay, HostDelays},
    limits::Limits,
    memory::{MemoryBudget, MemoryReservation},
    origins::LiveOrigins,
    outcomes::OutcomeCounters,
    permit::acquire,
    pool::{Pool, PoolLimits},
    redirects::RedirectChain,
    request::{FetchResponse, Request, Timing, retry_after},
    request_log::RequestLine,
    resolve::{DnsResolver, Resolve},
    robots::Robots,
    robots_cache::{RobotsCache, Rules},
    tls,
};
use bytes::Bytes;
use crawlway_content::NormalUrl;
use crawlway_store::{
    Clock,
    rate_limiter::{Group, RateLimiter, RequestOutcome},
};
use http::{HeaderMap, StatusCode, Version};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::time::timeout;

/// Configuration of a [`Fetcher`].
#[derive(Debug)]
pub struct FetcherConfig {
    /// Rate limiter of all groups.
    pub rate_limiter: Arc<dyn RateLimiter>,
    /// SSRF guard: the addresses that may be dialled.
    pub ssrf_guard: SsrfGuard,
    /// DNS resolver.
    pub resolver: Arc<dyn Resolve>,
    /// Root certificates in PEM, in addition to the Mozilla roots.
    pub extra_roots: Vec<Vec<u8>>,
    /// Limits of the connection pool.
    pub pool_limits: PoolLimits,
    /// Clock for the expiry of robots.txt files and the wait for permits.
    pub clock: Clock,
    /// Memory budget of all responses together.
    pub memory: MemoryBudget,
}

impl FetcherConfig {
    /// Defaults: public addresses only, the system's name servers, the Mozilla root certificates.
    pub fn new(rate_limiter: Arc<dyn RateLimiter>) -> Self {
        Self {
            rate_limiter,
            ssrf_guard: SsrfGuard::default(),
            resolver: Arc::new(DnsResolver::new()),
            extra_roots: Vec::new(),
            pool_limits: PoolLimits::default(),
            clock: Clock::System,
            memory: MemoryBudget::default(),
        }
    }
}

/// HTTP client with a connection pool, a DNS cache and a robots.txt cache; one per process.
#[derive(Debug)]
pub struct Fetcher {
    rate_limiter: Arc<dyn RateLimiter>,
    connector: Connector,
    pool: Pool,
    robots: RobotsCache,
    outcomes: OutcomeCounters,
    delays: HostDelays,
    live_origins: LiveOrigins,
    clock: Clock,
    memory: MemoryBudget,
}

/// Error of a fetch, or of the callback before its first request.
enum PageError<E> {
    Fetch(FetchError),
    Begin(E),
}

impl<E> From<FetchError> for PageError<E> {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

/// Response of one hop.
pub(crate) struct HopResponse {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) wire_bytes: usize,
    pub(crate) address: SocketAddr,
    pub(crate) timing: Timing,
    /// Memory reserved for the body.
    pub(crate) share: MemoryReservation,
}

/// Treatment of a body that exceeds its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Oversize {
    Reject,
    Truncate,
}

impl Fetcher {
    /// Fails for root certificates that cannot be read.
    pub fn new(setup: FetcherConfig) -> Result<Self, crawlway_tls::RootError> {
        let connector = Connector {
            resolver: setup.resolver,
            guard: setup.ssrf_guard,
            tls: Arc::new(tls::config(&setup.extra_roots)?),
        };
        Ok(Self {
            rate_limiter: setup.rate_limiter,
            connector,
            pool: Pool::new(setup.pool_limits),
            robots: RobotsCache::default(),
            outcomes: OutcomeCounters::default(),
            delays: HostDelays::default(),
            live_origins: LiveOrigins::default(),
            clock: setup.clock,
            memory: setup.memory,
        })
    }

    /// Number of idle connections in the pool.
    pub fn idle_connections(&self) -> usize {
        self.pool.len()
    }

    /// Number of fetches by outcome: the status of the response, such as `200`, or the code of the error.
    pub fn outcomes(&self) -> BTreeMap<String, u64> {
        self.outcomes.snapshot()
    }

    /// Hosts that get no request before some time, ordered by that time.
    pub fn delayed_hosts(&self) -> Vec<HostDelay> {
        self.delays.snapshot(crawlway_store::Timestamp::now())
    }

    /// Delayed hosts in words: the first one with its reason, and the number of others.
    pub fn delayed_hosts_summary(&self) -> Option<String> {
        let waits = self.delayed_hosts();
        let first = waits.first()?;
        Some(match waits.len() - 1 {
            0 => first.to_string(),
            1 => format!("{first} (and 1 more host)"),
            more => format!("{first} (and {more} more hosts)"),
        })
    }

    /// Fetches a page. A response of any status is a success, except a block: 429, 503 or a challenge.
    pub async fn fetch(&self, request: &Request) -> Result<FetchResponse, FetchError> {
        let begin = || std::future::ready(Ok::<(), Infallible>(()));
        match self.fetch_after(request, begin).await {
            Ok(fetched) => fetched,
            Err(never) => match never {},
        }
    }

    /// [`fetch`](Self::fetch) with a callback that runs once, just before the first request for the page: after robots.txt
    /// allowed it and the rate limiter granted a permit. An error of `begin` releases the permit and is returned.
    pub async fn fetch_after<E, B>(
        &self,
        request: &Request,
        begin: impl FnOnce() -> B,
    ) -> Result<Result<FetchResponse, FetchError>, E>
    where
        B: Future<Output = Result<(), E>>,
    {
        match self.fetch_page(request, begin).await {
            Ok(fetched) => {
                self.outcomes.response(fetched.status);
                self.delays.clear(fetched.url.origin());
                Ok(Ok(fetched))
            }
            Err(PageError::Fetch(error)) => {
                self.outcomes.error(&error);
                self.delays.record(&error);
                Ok(Err(error))
            }
            Err(PageError::Begin(error)) => Err(error),
        }
    }

    async fn fetch_page<E, B>(
        &self,
        request: &Request,
        begin: impl FnOnce() -> B,
    ) -> Result<FetchResponse, PageError<E>>
    where
        B: Future<Output = Result<(), E>>,
    {
        let started = Instant::now();
        let mut begin = Some(begin);
        let mut chain = RedirectChain::new(request);
        let mut waited = Duration::ZERO;
        let mut budget = TimeBudget::new(request.limits.total);
        loop {
            let url = chain.url.clone();
            let mut pace = request.rate_limit;
            if request.obey_robots {
                let rules = self.rules(&url, request, &mut budget).await?;
                pace = rules.pace(pace);
                rules.check(&url)?;
            }
            let group = chain.group()?;
            let (permit, wait) = acquire(
                &self.rate_limiter,
                &self.clock,
                &group,
                chain.ticket(),
                &pace,
                request.on_rate_limit,
                chain.is_redirected(),
                url.as_str(),
            )
            .await?;
            waited += wait;
            if let Some(begin) = begin.take() {
                begin().await.map_err(PageError::Begin)?;
            }
            let had_half = budget.is_half_left();
            let sending = self.request(&url, chain.headers(), &request.limits, Oversize::Reject);
            let response = permit.during(budget.run(sending)).await;
            permit
                .finish(match &response {
                    Err(error) if error.code.is_no_connection() && self.live_origins.has_other(&url) => {
                        RequestOutcome::Neutral
                    }
                    response => outcome_within(had_half, response),
                })
                .await;
            if response.as_ref().is_err_and(|error| error.stale) {
                continue;
            }
            if response.as_ref().is_err_and(|error| error.code.is_no_connection()) {
                // The next probe of the site is its robots.txt, so that the probe costs no item an attempt.
                self.robots.expire(url.origin());
            }
            let response = response.map_err(|error| error.at(url.as_str()))?;
            if let Some(code) = blocks::detect(response.status, &response.headers, &response.body) {
                return Err(block_error(code, &response, url.as_str()).into());
            }
            if !chain.follow(&response).map_err(|error| error.at(url.as_str()))? {
                let timing = Timing { rate_limit_wait: waited, total: started.elapsed(), ..response.timing };
                return Ok(chain.into_fetched(response, timing));
            }
        }
    }

    /// Sends one request and writes its line of the request log.
    pub(crate) async fn request(
        &self,
        url: &NormalUrl,
        headers: HeaderMap,
        limits: &Limits,
        oversize: Oversize,
    ) -> Result<HopResponse, HopError> {
        let line = RequestLine::begin(url);
        let response = self.send(url, headers, limits, oversize).await;
        match &response {
            Ok(response) => {
                self.live_origins.record(url);
                line.response(response.status, response.wire_bytes);
            }
            Err(error) => line.error(error),
        }
        response
    }

    /// Sends one request on a pooled connection or a new one.
    async fn send(
        &self,
        url: &NormalUrl,
        headers: HeaderMap,
        limits: &Limits,
        oversize: Oversize,
    ) -> Result<HopResponse, HopError> {
        let parsed = url::Url::parse(url.as_str())
            .map_err(|error| HopError::new(FetchCode::UrlInvalid, error.to_string()))?;
        let origin = Origin::of(&parsed)?;
        if let Some((sender, address)) = self.pool.take(&origin) {
            let timing = Timing::default();
            match self.exchange(sender, address, timing, &origin, &parsed, &headers, limits, oversize).await {
                // Closed before anything was sent: the permit is still unused.
                Err(ExchangeError::NotSent(_)) => {}
                Err(ExchangeError::NoResponse(error)) => return Err(HopError { stale: true, ..error }),
                other => return other.map_err(ExchangeError::into_hop_error),
            }
        }
        let Connected { sender, address, lookup, dial, tls } =
            self.connector.connect(&origin, &parsed, limits).await?;
        let timing = Timing { lookup, dial, tls, ..Timing::default() };
        let response =
            self.exchange(sender, address, timing, &origin, &parsed, &headers, limits, oversize).await;
        response.map_err(ExchangeError::into_hop_error)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one exchange in one place; a struct would only name them again"
    )]
    async fn exchange(
        &self,
        mut sender: Sender,
        address: SocketAddr,
        mut timing: Timing,
        origin: &Origin,
        url: &url::Url,
        headers: &HeaderMap,
        limits: &Limits,
        oversize: Oversize,
    ) -> Result<HopResponse, ExchangeError> {
        let sent = Instant::now();
        let flood = |sender: &Sender| sender.flood_limit.error().map(ExchangeError::Failed);
        sender.flood_limit.reset();
        let response = match timeout(limits.first_byte, send(&mut sender, url, headers.clone())).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(flood(&sender).unwrap_or_else(|| send_error(&error))),
            Err(_) => {
                let detail = format!("no answer within {:?}", limits.first_byte);
                return Err(ExchangeError::Failed(HopError::new(FetchCode::TimeoutFirstByte, detail)));
            }
        };
        timing.first_byte = sent.elapsed();
        sender.flood_limit.reset();
        let (head, incoming) = response.into_parts();
        let size: usize =
            head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size > limits.header_bytes || head.headers.len() > limits.max_headers {
            let detail = format!(
                "{} headers of {size} bytes, the limits are {} and {}",
                head.headers.len(),
                limits.max_headers,
                limits.header_bytes
            );
            return Err(ExchangeError::Failed(HopError::new(FetchCode::HeadersTooLarge, detail)));
        }
        let mut share = self.memory.reserve();
        let read =
            body::read(incoming, &head.headers, limits, oversize, &sender.flood_limit, &mut share).await;
        let (raw, is_complete) =
            read.map_err(|error| flood(&sender).unwrap_or(ExchangeError::Failed(error)))?;
        if is_complete {
            self.pool.put(origin.clone(), sender, address);
        }
        let wire_bytes = raw.len();
        let body = body::decode(raw, &head.headers, limits, oversize, &mut share)
            .await
            .map_err(ExchangeError::Failed)?;
        Ok(HopResponse {
            status: head.status,
            version: head.version,
            headers: head.headers,
            body,
            wire_bytes,
            address,
            timing,
            share,
        })
    }

    /// robots.txt of the site of this request's URL, from the cache or fetched. A site without one gets an empty one.
    pub async fn robots(&self, request: &Request) -> Result<Arc<Robots>, FetchError> {
        let mut budget = TimeBudget::new(request.limits.total);
        Ok(self.rules(&request.url, request, &mut budget).await?.robots().clone())
    }

    /// robots.txt rules of the site of this URL.
    pub(crate) async fn rules(
        &self,
        url: &NormalUrl,
        request: &Request,
        budget: &mut TimeBudget,
    ) -> Result<Rules, FetchError> {
        self.robots.rules(self, url, request, budget).await
    }

    pub(crate) fn live_origins(&self) -> &LiveOrigins {
        &self.live_origins
    }

    pub(crate) fn rate_limiter(&self) -> &Arc<dyn RateLimiter> {
        &self.rate_limiter
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Outcome of a request for the rate limiter of its group.
pub(crate) fn outcome(response: &Result<HopResponse, HopError>) -> RequestOutcome {
    match response {
        Err(error) if error.stale => RequestOutcome::Neutral,
        Ok(response) => match blocks::detect(response.status, &response.headers, &response.body) {
            Some(_) => {
                RequestOutcome::Blocked { retry_after: retry_after(&response.headers, SystemTime::now()) }
            }
            None => RequestOutcome::Success,
        },
        Err(error) if error.code.is_of_host() => RequestOutcome::Failed,
        Err(_) => RequestOutcome::Neutral,
    }
}

/// [`outcome`], where a timeout counts only if the request had at least half of the time budget.
pub(crate) fn outcome_within(had_half: bool, response: &Result<HopResponse, HopError>) -> RequestOutcome {
    match response {
        Err(error) if error.code == FetchCode::TimeoutTotal && !had_half => RequestOutcome::Neutral,
        response => outcome(response),
    }
}

/// Longest `Retry-After` that is honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

fn block_error(code: FetchCode, response: &HopResponse, url: &str) -> FetchError {
    let after = retry_after(&response.headers, SystemTime::now());
    let detail = match after {
        Some(after) => format!("status {}, Retry-After {after:?}", response.status),
        None => format!("status {}", response.status),
    };
    let not_before = after.map(|after| crawlway_store::Timestamp::now() + after.min(MAX_RETRY_AFTER));
    FetchError { code, url: url.to_owned(), detail, not_before }
}

/// Default group of a URL: its host without the port, since all ports are one machine.
pub(crate) fn group_of(url: &NormalUrl) -> Result<Group, FetchError> {
    Group::new(url.host())
        .map_err(|error| HopError::new(FetchCode::UrlInvalid, error.to_string()).at(url.as_str()))
}
