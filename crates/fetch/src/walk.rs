//! The way of a fetch through its redirects: where it is, where it has been, and what it takes along.

use crate::{
    client::{Answer, group_of},
    error::{Code, FetchError, Trouble},
    request::{Fetched, Hop, Request, Timing},
};
use crawlway_content::{NormalUrl, UrlOptions};
use crawlway_store::gate::{Group, Ticket};
use http::{HeaderMap, header};
use std::collections::HashSet;

/// The way from the URL asked for to the one that answers.
pub(crate) struct Walk<'r> {
    request: &'r Request,
    pub(crate) url: NormalUrl,
    headers: HeaderMap,
    seen: HashSet<String>,
    hops: Vec<Hop>,
}

impl<'r> Walk<'r> {
    pub(crate) fn new(request: &'r Request) -> Self {
        let mut headers = request.identity.headers();
        request.validators.add_to(&mut headers);
        let url = request.url.clone();
        let seen = HashSet::from([url.as_str().to_owned()]);
        Self { request, url, headers, seen, hops: Vec::new() }
    }

    pub(crate) fn redirected(&self) -> bool {
        !self.hops.is_empty()
    }

    /// The group of the request holds for its own host only; elsewhere it is that host's.
    pub(crate) fn group(&self) -> Result<Group, FetchError> {
        let same_host = self.url.host() == self.request.url.host();
        match &self.request.group {
            Some(group) if same_host => Ok(group.clone()),
            _ => group_of(&self.url),
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        if !self.redirected() {
            return self.request.ticket;
        }
        Ticket::of(&format!("{:x} {}", self.request.ticket.as_u128(), self.url.as_str()))
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// Follows a redirect; `false` when the answer is none.
    pub(crate) fn step(&mut self, answer: &Answer) -> Result<bool, Trouble> {
        let redirect = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let Some(location) = answer.headers.get(header::LOCATION).filter(|_| redirect) else {
            return Ok(false);
        };
        let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
        let next = self.url.join(&location, &UrlOptions::default()).map_err(|error| {
            Trouble::new(Code::RedirectInvalid, format!("leads to `{location}`: {error}"))
        })?;
        self.hops.push(Hop { url: self.url.clone(), status: answer.status });
        if !self.seen.insert(next.as_str().to_owned()) {
            return Err(Trouble::new(
                Code::RedirectLoop,
                format!("leads back to {next}", next = next.as_str()),
            ));
        }
        if self.hops.len() > self.request.limits.redirects {
            let detail = format!("more than {} redirects", self.request.limits.redirects);
            return Err(Trouble::new(Code::RedirectTooMany, detail));
        }
        if next.host() != self.url.host() {
            // What was known of the first page says nothing about another host's.
            self.headers.remove(header::IF_NONE_MATCH);
            self.headers.remove(header::IF_MODIFIED_SINCE);
        }
        if next.origin() != self.url.origin() {
            // Another port may be somebody else's, and without TLS everybody on the way reads along.
            self.headers.remove(header::AUTHORIZATION);
            self.headers.remove(header::COOKIE);
        }
        self.url = next;
        Ok(true)
    }

    pub(crate) fn arrived(self, answer: Answer, timing: Timing) -> Fetched {
        Fetched {
            url: self.url,
            status: answer.status,
            version: answer.version,
            headers: answer.headers,
            body: answer.body,
            sent_bytes: answer.sent_bytes,
            hops: self.hops,
            address: answer.address,
            timing,
            share: answer.share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_content::url::normalise;
    use http::{HeaderValue, StatusCode, Version};

    /// The headers that are sent after a redirect from one place to another.
    fn sent_along(from: &str, to: &str) -> HeaderMap {
        let request = Request::new(normalise(from, &UrlOptions::default()).unwrap());
        let mut walk = Walk::new(&request);
        for name in [header::AUTHORIZATION, header::COOKIE, header::IF_NONE_MATCH, header::USER_AGENT] {
            walk.headers.insert(name, HeaderValue::from_static("x"));
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, HeaderValue::from_str(to).unwrap());
        let answer = Answer {
            status: StatusCode::FOUND,
            version: Version::HTTP_11,
            headers,
            body: Default::default(),
            sent_bytes: 0,
            address: ([127, 0, 0, 1], 80).into(),
            timing: Timing::default(),
            share: crate::Memory::default().share(),
        };
        assert!(walk.step(&answer).unwrap(), "a redirect");
        walk.headers()
    }

    #[test]
    fn credentials_stay_with_their_scheme_host_and_port_and_validators_with_their_host() {
        for (from, to, credentials, validators) in [
            ("https://a.test/x", "/y", true, true),
            ("https://a.test/x", "https://a.test:443/y", true, true),
            ("https://a.test/x", "https://a.test:8443/y", false, true),
            ("https://a.test/x", "http://a.test/y", false, true),
            ("http://a.test/x", "https://a.test/y", false, true),
            ("https://a.test/x", "https://b.test/y", false, false),
            ("https://a.test/x", "https://www.a.test/y", false, false),
        ] {
            let sent = sent_along(from, to);
            for (name, expected) in [
                (header::AUTHORIZATION, credentials),
                (header::COOKIE, credentials),
                (header::IF_NONE_MATCH, validators),
                (header::USER_AGENT, true),
            ] {
                assert_eq!(sent.contains_key(&name), expected, "{name} from {from} to {to}");
            }
        }
    }
}
