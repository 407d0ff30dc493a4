//! The robots.txt of each site: fetched once, through the gate, kept for a day at most.

use crate::{
    client::{Beyond, Fetcher, group_of, outcome},
    error::{Code, FetchError, Trouble},
    limits::Limits,
    request::Request,
    robots::{self, Robots},
    turn::turn,
};
use crawlway_content::{NormalUrl, UrlOptions};
use crawlway_store::gate::{self, Ticket};
use http::header;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// Rules are kept this long (RFC 9309 allows a day).
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// What could not be read is tried again after this time.
const RETRIED: Duration = Duration::from_secs(5 * 60);
/// Rules of this many sites are kept; the one that was fetched first gives way.
const SITES: usize = 20_000;
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

#[derive(Debug)]
struct Site {
    /// Locked while the file is being fetched, so that it is fetched once however many ask.
    known: tokio::sync::Mutex<Option<Known>>,
    since: Instant,
}

#[derive(Debug, Clone)]
struct Known {
    rules: Result<Arc<Robots>, FetchError>,
    until: Instant,
}

/// The robots.txt of each site.
#[derive(Debug, Default)]
pub(crate) struct RobotsCache {
    sites: Mutex<HashMap<String, Arc<Site>>>,
}

impl RobotsCache {
    /// The rules for this URL. Fails while they are not known: then everything is forbidden.
    pub(crate) async fn rules(
        &self,
        fetcher: &Fetcher,
        url: &NormalUrl,
        request: &Request,
    ) -> Result<Rules, FetchError> {
        let site = self.site(url.origin());
        let mut known = site.known.lock().await;
        let rules = match &*known {
            Some(known) if known.until > Instant::now() => known.rules.clone(),
            _ => {
                let (rules, keep) = match fetch(fetcher, url, request).await {
                    Ok(robots) => (Ok(Arc::new(robots)), KEPT),
                    // Nothing was asked yet: the item waits, and the next one asks.
                    Err(error)
                        if matches!(error.code, Code::GateWait | Code::GateOpen | Code::GateUnavailable) =>
                    {
                        return Err(FetchError { url: url.as_str().to_owned(), ..error });
                    }
                    Err(error) => (Err(error), RETRIED),
                };
                *known = Some(Known { rules: rules.clone(), until: Instant::now() + keep });
                rules
            }
        };
        let robots = rules.map_err(|error| FetchError { url: url.as_str().to_owned(), ..error })?;
        Ok(Rules { robots, agent: request.identity.robots_token().to_owned() })
    }

    fn site(&self, origin: &str) -> Arc<Site> {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = sites.get(origin) {
            return site.clone();
        }
        if sites.len() >= SITES {
            // Rare, and cheaper than keeping them in order: a tenth of them go at once, the oldest.
            let mut ages: Vec<Instant> = sites.values().map(|site| site.since).collect();
            ages.sort_unstable();
            let oldest = ages[SITES / 10];
            sites.retain(|_, site| site.since > oldest);
        }
        let site = Arc::new(Site { known: tokio::sync::Mutex::new(None), since: Instant::now() });
        sites.insert(origin.to_owned(), site.clone());
        site
    }
}

/// Fetches a robots.txt: every hop through the gate, 4xx means that there are no rules.
async fn fetch(fetcher: &Fetcher, page: &NormalUrl, request: &Request) -> Result<Robots, FetchError> {
    let invalid = |error: String| Trouble::new(Code::UrlInvalid, error).at(page.as_str());
    let mut url =
        page.join("/robots.txt", &UrlOptions::default()).map_err(|error| invalid(error.to_string()))?;
    let limits = Limits { body_bytes: BYTES, decoded_bytes: BYTES, ..request.limits.clone() };
    for hop in 0..=REDIRECTS {
        let group = match &request.group {
            Some(group) if url.host() == request.url.host() => group.clone(),
            _ => group_of(&url)?,
        };
        // Whoever wants the file waits for one and the same turn: it is fetched once for all of them.
        let ticket = Ticket::of(url.as_str());
        let answer = loop {
            let (held, _) =
                turn(fetcher.gate(), &group, ticket, &request.pace, request.waiting, hop > 0, url.as_str())
                    .await?;
            let asking =
                timeout(limits.total, fetcher.ask(&url, request.identity.next(), &limits, Beyond::Cut));
            let answer = held.during(asking).await.unwrap_or_else(|_| {
                Err(Trouble::new(Code::TimeoutTotal, format!("not done within {:?}", limits.total)))
            });
            held.finish(outcome(&answer)).await;
            // A kept connection that broke is worth another, in a turn of its own.
            if !answer.as_ref().is_err_and(|trouble| trouble.stale) {
                break answer;
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(trouble) => return Err(unreadable(trouble, &url)),
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
        return match status {
            200..=299 => Ok(Robots::parse(&answer.body)),
            429 | 500..=599 => {
                let trouble =
                    Trouble::new(Code::RobotsUnreachable, format!("its robots.txt answered {status}"));
                Err(trouble.at(url.as_str()))
            }
            _ => Ok(Robots::parse(b"")),
        };
    }
    // RFC 9309: after five redirects it may be treated as unavailable, which means no rules.
    Ok(Robots::parse(b""))
}

/// What must not be reached, or does not exist, is said as it is; anything else leaves the site shut for now.
fn unreadable(trouble: Trouble, url: &NormalUrl) -> FetchError {
    let keep = matches!(
        trouble.code,
        Code::GuardPrivateAddress
            | Code::GuardPort
            | Code::DnsNotFound
            | Code::TlsCertificate
            | Code::UrlInvalid
    );
    if keep {
        return trouble.at(url.as_str());
    }
    let detail = format!("its robots.txt: {}: {}", trouble.code, trouble.detail);
    Trouble::new(Code::RobotsUnreachable, detail).at(url.as_str())
}
