//! The fetcher: from a request to an answer, through gate, guard, redirects and every bound.

use crate::{
    blocked, body,
    budget::Budget,
    connect::{Connected, Connector, Origin, Sender},
    error::{Code, FetchError, Trouble},
    exchange::{Exchange, send, unanswered},
    guard::Guard,
    limits::Limits,
    memory::{Memory, Share},
    pool::{Keep, Pool},
    request::{Fetched, Request, Timing, retry_after},
    request_log::RequestLine,
    resolve::{Resolve, SystemResolver},
    robots::Robots,
    robots_cache::{RobotsCache, Rules},
    siblings::Siblings,
    tally::Tally,
    tls,
    turn::turn,
    waits::{HostWait, Waits},
    walk::Walk,
};
use bytes::Bytes;
use crawlway_content::NormalUrl;
use crawlway_store::{
    Clock,
    gate::{Gate, Group, Outcome},
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

/// How a fetcher is set up.
#[derive(Debug)]
pub struct Setup {
    /// Who may be asked when.
    pub gate: Arc<dyn Gate>,
    /// Which addresses may be dialled.
    pub guard: Guard,
    /// Who knows the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// Certificates trusted besides those that browsers trust, in PEM.
    pub extra_roots: Vec<Vec<u8>>,
    /// How many connections are kept for later.
    pub keep: Keep,
    /// The clock by which robots.txt files are kept and turns are waited for.
    pub clock: Clock,
    /// The memory that answers may take together.
    pub memory: Memory,
}

impl Setup {
    /// The defaults: public addresses only, the system's name servers, the certificates that browsers trust.
    pub fn new(gate: Arc<dyn Gate>) -> Self {
        Self {
            gate,
            guard: Guard::default(),
            resolver: Arc::new(SystemResolver::new()),
            extra_roots: Vec::new(),
            keep: Keep::default(),
            clock: Clock::System,
            memory: Memory::default(),
        }
    }
}

/// Fetches pages. One for the whole program: it keeps connections, names and robots.txt files.
#[derive(Debug)]
pub struct Fetcher {
    gate: Arc<dyn Gate>,
    connector: Connector,
    pool: Pool,
    robots: RobotsCache,
    tally: Tally,
    waits: Waits,
    siblings: Siblings,
    clock: Clock,
    memory: Memory,
}

/// Why a fetch ended without an answer.
enum Ended<E> {
    Failed(FetchError),
    /// The caller did not let it begin.
    NotBegun(E),
}

impl<E> From<FetchError> for Ended<E> {
    fn from(error: FetchError) -> Self {
        Self::Failed(error)
    }
}

/// An answer of one hop.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) sent_bytes: usize,
    pub(crate) address: SocketAddr,
    pub(crate) timing: Timing,
    /// The memory that it takes.
    pub(crate) share: Share,
}

/// What is done with a body beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    Refuse,
    /// The first part is enough.
    Cut,
}

impl Fetcher {
    /// A fetcher of this setup.
    pub fn new(setup: Setup) -> Result<Self, tls::RootError> {
        let connector = Connector {
            resolver: setup.resolver,
            guard: setup.guard,
            tls: Arc::new(tls::config(&setup.extra_roots)?),
        };
        Ok(Self {
            gate: setup.gate,
            connector,
            pool: Pool::new(setup.keep),
            robots: RobotsCache::default(),
            tally: Tally::default(),
            waits: Waits::default(),
            siblings: Siblings::default(),
            clock: setup.clock,
            memory: setup.memory,
        })
    }

    /// How many idle connections are kept right now.
    pub fn idle_connections(&self) -> usize {
        self.pool.len()
    }

    /// How many fetches ended how so far: by the status of the answer, such as `200`, or by the code of the error.
    pub fn outcomes(&self) -> BTreeMap<String, u64> {
        self.tally.read()
    }

    /// The hosts that are not to be asked before some time, the one whose time comes first in front.
    pub fn waits(&self) -> Vec<HostWait> {
        self.waits.read(crawlway_store::Timestamp::now())
    }

    /// What is waited for, in words: the host whose time comes first, and how many more there are.
    pub fn waits_for(&self) -> Option<String> {
        let waits = self.waits();
        let first = waits.first()?;
        Some(match waits.len() - 1 {
            0 => first.to_string(),
            1 => format!("{first} (and 1 more host)"),
            more => format!("{first} (and {more} more hosts)"),
        })
    }

    /// Fetches a page. An answer of any status is an answer, unless it is a refusal to answer (429, 503, a
    /// challenge); what a 404 means is the caller's to say.
    pub async fn fetch(&self, request: &Request) -> Result<Fetched, FetchError> {
        let begin = || std::future::ready(Ok::<(), Infallible>(()));
        match self.fetch_after(request, begin).await {
            Ok(fetched) => fetched,
            Err(never) => match never {},
        }
    }

    /// Fetches a page as [`fetch`](Self::fetch) does and calls `begin` once, just before the first request for the page is
    /// sent: after robots.txt allowed it and the rate limiter granted its turn. An error of `begin` gives the turn back
    /// and is the answer.
    pub async fn fetch_after<E, B>(
        &self,
        request: &Request,
        begin: impl FnOnce() -> B,
    ) -> Result<Result<Fetched, FetchError>, E>
    where
        B: Future<Output = Result<(), E>>,
    {
        match self.fetch_page(request, begin).await {
            Ok(fetched) => {
                self.tally.answered(fetched.status);
                self.waits.answered(fetched.url.origin());
                Ok(Ok(fetched))
            }
            Err(Ended::Failed(error)) => {
                self.tally.failed(&error);
                self.waits.failed(&error);
                Ok(Err(error))
            }
            Err(Ended::NotBegun(error)) => Err(error),
        }
    }

    async fn fetch_page<E, B>(
        &self,
        request: &Request,
        begin: impl FnOnce() -> B,
    ) -> Result<Fetched, Ended<E>>
    where
        B: Future<Output = Result<(), E>>,
    {
        let started = Instant::now();
        let mut begin = Some(begin);
        let mut walk = Walk::new(request);
        let mut waited = Duration::ZERO;
        let mut budget = Budget::new(request.limits.total);
        loop {
            let url = walk.url.clone();
            let mut pace = request.pace;
            if request.robots {
                let rules = self.rules(&url, request, &mut budget).await?;
                pace = rules.pace(pace);
                rules.check(&url)?;
            }
            let group = walk.group()?;
            let (held, wait) = turn(
                &self.gate,
                &self.clock,
                &group,
                walk.ticket(),
                &pace,
                request.waiting,
                walk.redirected(),
                url.as_str(),
            )
            .await?;
            waited += wait;
            if let Some(begin) = begin.take() {
                begin().await.map_err(Ended::NotBegun)?;
            }
            let is_fair = budget.is_fair();
            let asking = self.ask(&url, walk.headers(), &request.limits, Beyond::Refuse);
            let answer = held.during(budget.run(asking)).await;
            held.finish(match &answer {
                Err(trouble) if trouble.code.is_no_connection() && self.siblings.answer_for(&url) => {
                    Outcome::Neutral
                }
                answer => outcome_within(is_fair, answer),
            })
            .await;
            if answer.as_ref().is_err_and(|trouble| trouble.stale) {
                continue;
            }
            if answer.as_ref().is_err_and(|trouble| trouble.code.is_no_connection()) {
                // Whether the site is back is for its robots.txt to show, so that no page is spent on finding out.
                self.robots.expire(url.origin());
            }
            let answer = answer.map_err(|trouble| trouble.at(url.as_str()))?;
            if let Some(code) = blocked::refusal(answer.status, &answer.headers, &answer.body) {
                return Err(refused(code, &answer, url.as_str()).into());
            }
            match walk.step(&answer).map_err(|trouble| trouble.at(url.as_str()))? {
                true => {}
                false => {
                    let timing = Timing { gate: waited, total: started.elapsed(), ..answer.timing };
                    return Ok(walk.arrived(answer, timing));
                }
            }
        }
    }

    /// Asks once, and writes a line of the request log.
    pub(crate) async fn ask(
        &self,
        url: &NormalUrl,
        headers: HeaderMap,
        limits: &Limits,
        beyond: Beyond,
    ) -> Result<Answer, Trouble> {
        let line = RequestLine::begin(url);
        let answer = self.ask_once(url, headers, limits, beyond).await;
        match &answer {
            Ok(answer) => {
                self.siblings.answered(url);
                line.answered(answer.status, answer.sent_bytes);
            }
            Err(trouble) => line.failed(trouble),
        }
        answer
    }

    /// Asks once, on a connection that was kept or on a new one.
    async fn ask_once(
        &self,
        url: &NormalUrl,
        headers: HeaderMap,
        limits: &Limits,
        beyond: Beyond,
    ) -> Result<Answer, Trouble> {
        let parsed = url::Url::parse(url.as_str())
            .map_err(|error| Trouble::new(Code::UrlInvalid, error.to_string()))?;
        let origin = Origin::of(&parsed)?;
        if let Some((sender, address)) = self.pool.take(&origin) {
            let timing = Timing::default();
            match self.exchange(sender, address, timing, &origin, &parsed, &headers, limits, beyond).await {
                // It was closed before anything was sent, so that this turn is still unused.
                Err(Exchange::NeverSent(_)) => {}
                Err(Exchange::NeverAnswered(trouble)) => return Err(Trouble { stale: true, ..trouble }),
                other => return other.map_err(Exchange::into_trouble),
            }
        }
        let Connected { sender, address, lookup, dial, tls } =
            self.connector.connect(&origin, &parsed, limits).await?;
        let timing = Timing { lookup, dial, tls, ..Timing::default() };
        let answer = self.exchange(sender, address, timing, &origin, &parsed, &headers, limits, beyond).await;
        answer.map_err(Exchange::into_trouble)
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
        beyond: Beyond,
    ) -> Result<Answer, Exchange> {
        let asked = Instant::now();
        let flood = |sender: &Sender| sender.meter.trouble().map(Exchange::Failed);
        sender.meter.reset();
        let response = match timeout(limits.first_byte, send(&mut sender, url, headers.clone())).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(flood(&sender).unwrap_or_else(|| unanswered(&error))),
            Err(_) => {
                let detail = format!("no answer within {:?}", limits.first_byte);
                return Err(Exchange::Failed(Trouble::new(Code::TimeoutFirstByte, detail)));
            }
        };
        timing.first_byte = asked.elapsed();
        sender.meter.reset();
        let (head, incoming) = response.into_parts();
        let size: usize =
            head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size > limits.header_bytes || head.headers.len() > limits.header_count {
            let detail = format!(
                "{} headers of {size} bytes, the limits are {} and {}",
                head.headers.len(),
                limits.header_count,
                limits.header_bytes
            );
            return Err(Exchange::Failed(Trouble::new(Code::HeadersTooLarge, detail)));
        }
        let mut share = self.memory.share();
        let read = body::read(incoming, &head.headers, limits, beyond, &sender.meter, &mut share).await;
        let (raw, whole) = read.map_err(|trouble| flood(&sender).unwrap_or(Exchange::Failed(trouble)))?;
        if whole {
            self.pool.put(origin.clone(), sender, address);
        }
        let sent_bytes = raw.len();
        let body =
            body::decode(raw, &head.headers, limits, beyond, &mut share).await.map_err(Exchange::Failed)?;
        Ok(Answer {
            status: head.status,
            version: head.version,
            headers: head.headers,
            body,
            sent_bytes,
            address,
            timing,
            share,
        })
    }

    /// The robots.txt of the site of this request's URL, from memory or fetched on the terms of the request. A site that has
    /// none has one without rules.
    pub async fn robots(&self, request: &Request) -> Result<Arc<Robots>, FetchError> {
        let mut budget = Budget::new(request.limits.total);
        Ok(self.rules(&request.url, request, &mut budget).await?.robots().clone())
    }

    /// What the site of this URL lets us do.
    pub(crate) async fn rules(
        &self,
        url: &NormalUrl,
        request: &Request,
        budget: &mut Budget,
    ) -> Result<Rules, FetchError> {
        self.robots.rules(self, url, request, budget).await
    }

    pub(crate) fn siblings(&self) -> &Siblings {
        &self.siblings
    }

    pub(crate) fn gate(&self) -> &Arc<dyn Gate> {
        &self.gate
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// What an answer, or the lack of one, tells the gate about the group.
pub(crate) fn outcome(answer: &Result<Answer, Trouble>) -> Outcome {
    match answer {
        Err(trouble) if trouble.stale => Outcome::Neutral,
        Ok(answer) => match blocked::refusal(answer.status, &answer.headers, &answer.body) {
            Some(_) => Outcome::Blocked { retry_after: retry_after(&answer.headers, SystemTime::now()) },
            None => Outcome::Success,
        },
        Err(trouble) if trouble.code.is_of_host() => Outcome::Failed,
        Err(_) => Outcome::Neutral,
    }
}

/// The same of a request that may have had little time, because of those before it.
pub(crate) fn outcome_within(is_fair: bool, answer: &Result<Answer, Trouble>) -> Outcome {
    match answer {
        Err(trouble) if trouble.code == Code::TimeoutTotal && !is_fair => Outcome::Neutral,
        answer => outcome(answer),
    }
}

fn refused(code: Code, answer: &Answer, url: &str) -> FetchError {
    let after = retry_after(&answer.headers, SystemTime::now());
    let detail = match after {
        Some(after) => format!("answered {}, asks to be left alone for {after:?}", answer.status),
        None => format!("answered {}", answer.status),
    };
    let not_before =
        after.map(|after| crawlway_store::Timestamp::now() + after.min(Duration::from_secs(86_400)));
    FetchError { code, url: url.to_owned(), detail, not_before }
}

/// The group of a URL: its host, whatever the port, since one machine answers for all of them.
pub(crate) fn group_of(url: &NormalUrl) -> Result<Group, FetchError> {
    Group::new(url.host()).map_err(|error| Trouble::new(Code::UrlInvalid, error.to_string()).at(url.as_str()))
}
