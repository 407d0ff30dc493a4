//! The robots.txt of each site: fetched once, through the gate, kept for a day at most.

use crate::{
    budget::Budget,
    client::{Beyond, Fetcher, group_of, outcome, outcome_within},
    error::{Code, FetchError, Trouble},
    kept::Kept,
    limits::Limits,
    request::{Request, retry_after},
    robots::{self, Robots},
    turn::{next_turn, turn},
    unreachable::Outage,
};
use crawlway_content::{NormalUrl, UrlOptions};
use crawlway_store::{
    Timestamp,
    gate::{self, Group, Outcome, Ticket},
};
use http::header;
use parking_lot::{Mutex, MutexGuard};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Rules are kept this long (RFC 9309 allows a day).
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// A failure that another attempt would not change is kept this long: a name that does not exist, an address that the
/// guard refuses, a wrong certificate.
const FAILURE_KEPT: Duration = Duration::from_secs(60);
/// While a probe that is not waited for is under way, the items of its site come back after this time.
const BEING_PROBED: Duration = Duration::from_secs(2);
/// How many redirects are followed for it.
const REDIRECTS: usize = 5;
/// How much of it is read.
const BYTES: usize = robots::MAX_BYTES;
/// A site that asks for more time between requests than this gets this much.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// The rules of one site for one agent.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    robots: Arc<Robots>,
    agent: String,
}

impl Rules {
    /// The pace that the site asks for, if it is slower than ours.
    pub(crate) fn pace(&self, pace: gate::Limits) -> gate::Limits {
        match self.robots.crawl_delay(&self.agent) {
            Some(delay) => pace.with_gap_of_at_least(delay.min(LONGEST_DELAY)),
            None => pace,
        }
    }

    /// The file itself.
    pub(crate) fn robots(&self) -> &Arc<Robots> {
        &self.robots
    }

    /// The sitemaps that the site names.
    pub(crate) fn sitemaps(&self) -> &[String] {
        self.robots.sitemaps()
    }

    pub(crate) fn check(&self, url: &NormalUrl) -> Result<(), FetchError> {
        let decision = self.robots.check(&self.agent, url.path_and_query());
        if decision.allowed {
            return Ok(());
        }
        let detail = match decision.rule {
            Some(rule) => format!("line {} of its robots.txt says `{}`", rule.line, rule.text),
            None => "its robots.txt forbids everything".to_owned(),
        };
        Err(Trouble::new(Code::RobotsDisallowed, detail).at(url.as_str()))
    }
}

/// The robots.txt of one site.
#[derive(Debug, Default)]
pub(crate) struct Site {
    state: Mutex<State>,
    /// Locked while the file is being fetched, so that it is fetched once however many ask.
    probe: tokio::sync::Mutex<()>,
}

/// What is known of a robots.txt.
#[derive(Debug, Default)]
enum State {
    /// It is to be fetched.
    #[default]
    Unknown,
    /// Its rules.
    Rules { robots: Arc<Robots>, until: Timestamp },
    /// Why it cannot be fetched, which another attempt would not change.
    Failed { error: FetchError, until: Timestamp },
    /// It cannot be reached for now.
    Unreachable(Outage),
}

impl Site {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The answer from memory; `None` when the file has to be fetched.
    fn known(&self, url: &NormalUrl, request: &Request, now: Timestamp) -> Option<Answer> {
        match &mut *self.state() {
            State::Rules { robots, until } if is_kept(*until, now, KEPT) => Some(Ok(robots.clone())),
            State::Failed { error, until } if is_kept(*until, now, FAILURE_KEPT) => {
                Some(Err(FetchError { url: url.as_str().to_owned(), ..error.clone() }))
            }
            State::Unreachable(outage) if !outage.is_due(now) => {
                Some(Err(outage.answer(request.ticket, request.robots_max_wait, now, url.as_str())))
            }
            _ => None,
        }
    }

    fn is_unreachable(&self) -> bool {
        matches!(&*self.state(), State::Unreachable(_))
    }
}

type Answer = Result<Arc<Robots>, FetchError>;

/// Whether what is kept until then still holds; a clock that was set back makes nothing last longer.
fn is_kept(until: Timestamp, now: Timestamp, longest: Duration) -> bool {
    until > now && until.since(now) <= longest
}

/// The robots.txt of each site.
#[derive(Debug, Default)]
pub(crate) struct RobotsCache {
    sites: Mutex<Kept<Site>>,
}

impl RobotsCache {
    /// The rules for this URL. Fails while they are not known: then everything is forbidden.
    ///
    /// One probe per site is under way at a time. While a site cannot be reached, its rate limiter says when the next
    /// one is due, and all who ask before are answered from memory.
    pub(crate) async fn rules(
        &self,
        fetcher: &Fetcher,
        url: &NormalUrl,
        request: &Request,
        budget: &mut Budget,
    ) -> Result<Rules, FetchError> {
        let clock = fetcher.clock();
        let site = self.sites().get_or_add(url.origin());
        let robots = match site.known(url, request, clock.now()) {
            Some(answer) => answer,
            None => self.probe(&site, fetcher, url, request, budget).await,
        };
        Ok(Rules { robots: robots?, agent: request.identity.robots_token().to_owned() })
    }

    /// Has the robots.txt of a site fetched anew before its next page, since no connection to it could be made.
    pub(crate) fn expire(&self, origin: &str) {
        let site = self.sites().get(origin);
        if let Some(site) = site {
            let mut state = site.state();
            if matches!(&*state, State::Rules { .. }) {
                *state = State::Unknown;
            }
        }
    }

    /// Fetches the robots.txt of a site, or waits for who does.
    async fn probe(
        &self,
        site: &Arc<Site>,
        fetcher: &Fetcher,
        url: &NormalUrl,
        request: &Request,
        budget: &mut Budget,
    ) -> Answer {
        let clock = fetcher.clock();
        let come_back = |detail: &str| FetchError {
            code: Code::RobotsWait,
            url: url.as_str().to_owned(),
            detail: detail.to_owned(),
            not_before: Some(clock.now() + BEING_PROBED),
        };
        let _turn = match site.probe.try_lock() {
            Ok(turn) => turn,
            Err(_) if site.is_unreachable() => {
                return Err(come_back("its robots.txt could not be reached and is being probed"));
            }
            Err(_) => match budget.wait(site.probe.lock()).await {
                Some(turn) => turn,
                None => return Err(come_back("its robots.txt is still being fetched")),
            },
        };
        if let Some(answer) = site.known(url, request, clock.now()) {
            return answer;
        }
        let fetched = fetch(fetcher, url, request, budget).await;
        let memory = fetched.as_ref().map_or(0, Robots::memory);
        self.sites().weigh(url.origin(), site, memory);
        let now = clock.now();
        let mut state = site.state();
        match fetched {
            Ok(robots) => {
                let robots = Arc::new(robots);
                *state = State::Rules { robots: robots.clone(), until: now + KEPT };
                Ok(robots)
            }
            Err(Failure::Wait(error)) => {
                if let (State::Unreachable(outage), Some(at)) = (&mut *state, error.not_before) {
                    outage.put_off(at);
                }
                Err(FetchError { url: url.as_str().to_owned(), ..error })
            }
            Err(Failure::Unreachable { detail, next_probe }) => {
                let before = match &*state {
                    State::Unreachable(outage) => Some(outage),
                    _ => None,
                };
                let policy = fetcher.gate().policy();
                let forgotten_after = policy.grudge;
                let next_probe = next_probe.unwrap_or_else(|| {
                    let lasts = before.map_or(Duration::ZERO, |outage| outage.lasts(now));
                    now + lasts.clamp(policy.back_off.first, policy.back_off.most.max(policy.back_off.first))
                });
                let mut outage = Outage::probed(before, detail, now, next_probe, forgotten_after);
                let answer = outage.answer(request.ticket, request.robots_max_wait, now, url.as_str());
                *state = State::Unreachable(outage);
                Err(answer)
            }
            Err(Failure::Lasting(error)) => {
                *state = State::Failed { error: error.clone(), until: now + FAILURE_KEPT };
                Err(FetchError { url: url.as_str().to_owned(), ..error })
            }
        }
    }

    fn sites(&self) -> MutexGuard<'_, Kept<Site>> {
        self.sites.lock()
    }
}

/// Why a robots.txt was not read.
enum Failure {
    /// It was not its turn, or there was little time left for it, so that nothing is known of it.
    Wait(FetchError),
    /// It cannot be reached for now; the rate limiter of the host that failed lets the next probe pass at this time. None where
    /// another origin of the host answers, so that this one has a back-off of its own.
    Unreachable { detail: String, next_probe: Option<Timestamp> },
    /// Another attempt would not change it.
    Lasting(FetchError),
}

/// Fetches a robots.txt: every hop through the gate, 4xx means that there are no rules.
async fn fetch(
    fetcher: &Fetcher,
    page: &NormalUrl,
    request: &Request,
    budget: &mut Budget,
) -> Result<Robots, Failure> {
    let had_time = budget.is_fair();
    let invalid = |error: String| Failure::Lasting(Trouble::new(Code::UrlInvalid, error).at(page.as_str()));
    let mut url =
        page.join("/robots.txt", &UrlOptions::default()).map_err(|error| invalid(error.to_string()))?;
    let limits = Limits { body_bytes: BYTES, decoded_bytes: BYTES, ..request.limits.clone() };
    for hop in 0..=REDIRECTS {
        let group = match &request.group {
            Some(group) if url.host() == request.url.host() => group.clone(),
            _ => group_of(&url).map_err(Failure::Lasting)?,
        };
        // Whoever wants the file waits for one and the same turn: it is fetched once for all of them.
        let ticket = Ticket::of(url.as_str());
        let answer = loop {
            let (held, _) = turn(
                fetcher.gate(),
                fetcher.clock(),
                &group,
                ticket,
                &request.pace,
                request.waiting,
                hop > 0,
                url.as_str(),
            )
            .await
            .map_err(Failure::Wait)?;
            let is_fair = budget.is_fair();
            let asking = fetcher.ask(&url, request.identity.headers(), &limits, Beyond::Cut);
            let answer = held.during(budget.run(asking)).await;
            held.finish(outcome_of_probe(is_fair, fetcher.siblings().answer_for(&url), &answer)).await;
            // A kept connection that broke is worth another, in a turn of its own.
            if !answer.as_ref().is_err_and(|trouble| trouble.stale) {
                break answer;
            }
        };
        let answer = match answer {
            Err(trouble) if is_lasting(trouble.code) => {
                return Err(Failure::Lasting(trouble.at(url.as_str())));
            }
            Err(trouble) if trouble.code == Code::TimeoutTotal && !had_time => {
                return Err(Failure::Wait(trouble.at(url.as_str())));
            }
            Err(trouble) => {
                let detail = format!("its robots.txt: {}: {}", trouble.code, trouble.detail);
                return Err(unreachable(fetcher, &group, ticket, request, &url, detail).await);
            }
            Ok(answer) if is_refusal(answer.status.as_u16()) => {
                let detail = format!("its robots.txt answered {}", answer.status.as_u16());
                return Err(unreachable(fetcher, &group, ticket, request, &url, detail).await);
            }
            Ok(answer) => answer,
        };
        let status = answer.status.as_u16();
        if matches!(status, 301 | 302 | 303 | 307 | 308)
            && let Some(location) = answer.headers.get(header::LOCATION)
        {
            match url.join(&String::from_utf8_lossy(location.as_bytes()), &UrlOptions::default()) {
                Ok(next) => url = next,
                // A redirect to nowhere is as good as no file.
                Err(_) => return Ok(Robots::parse(b"")),
            }
            continue;
        }
        return Ok(if answer.status.is_success() { Robots::parse(&answer.body) } else { Robots::parse(b"") });
    }
    // RFC 9309: after five redirects it may be treated as unavailable, which means no rules.
    Ok(Robots::parse(b""))
}

async fn unreachable(
    fetcher: &Fetcher,
    group: &Group,
    ticket: Ticket,
    request: &Request,
    url: &NormalUrl,
    detail: String,
) -> Failure {
    if fetcher.siblings().answer_for(url) {
        return Failure::Unreachable { detail, next_probe: None };
    }
    let next_probe = next_turn(fetcher.gate(), fetcher.clock(), group, ticket, &request.pace).await;
    Failure::Unreachable { detail, next_probe: Some(next_probe) }
}

/// What a probe tells the gate: all that leaves the rules unknown is a failure of the host, so that its back-off says
/// when the next one is due. Unless another origin of the host answers: then it is this one's affair.
fn outcome_of_probe(
    is_fair: bool,
    sibling_answers: bool,
    answer: &Result<crate::client::Answer, Trouble>,
) -> Outcome {
    match answer {
        Err(_) if sibling_answers => Outcome::Neutral,
        Ok(answer) if sibling_answers && is_refusal(answer.status.as_u16()) => Outcome::Neutral,
        Err(trouble) if trouble.stale || is_lasting(trouble.code) => outcome(answer),
        Err(trouble) if trouble.code == Code::TimeoutTotal => outcome_within(is_fair, answer),
        Err(_) => Outcome::Failed,
        Ok(answer) if is_refusal(answer.status.as_u16()) => {
            Outcome::Blocked { retry_after: retry_after(&answer.headers, SystemTime::now()) }
        }
        Ok(_) => outcome(answer),
    }
}

fn is_refusal(status: u16) -> bool {
    matches!(status, 429 | 500..=599)
}

/// Whether another attempt would not help: what must not be reached, or does not exist.
fn is_lasting(code: Code) -> bool {
    matches!(
        code,
        Code::GuardPrivateAddress
            | Code::GuardPort
            | Code::DnsNotFound
            | Code::TlsCertificate
            | Code::UrlInvalid
    )
}
