//! Redirect chain of a fetch: loop detection, the limit of hops, and which headers go along.

use crate::{
    client::{HopResponse, group_of},
    error::{FetchCode, FetchError, HopError},
    request::{FetchResponse, Hop, Request, Timing},
};
use crawlway_content::{NormalUrl, UrlOptions};
use crawlway_store::rate_limiter::{Group, Ticket};
use http::{HeaderMap, header};
use std::{borrow::Cow, collections::HashSet};

/// `Location` of a redirect; `None` for other responses.
pub(crate) fn redirect_location(response: &HopResponse) -> Option<Cow<'_, str>> {
    let is_redirect = matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers.get(header::LOCATION).filter(|_| is_redirect)?;
    Some(String::from_utf8_lossy(location.as_bytes()))
}

/// Redirect chain from the requested URL to the current one.
pub(crate) struct RedirectChain<'r> {
    request: &'r Request,
    pub(crate) url: NormalUrl,
    headers: HeaderMap,
    seen: HashSet<String>,
    hops: Vec<Hop>,
}

impl<'r> RedirectChain<'r> {
    pub(crate) fn new(request: &'r Request) -> Self {
        let mut headers = request.identity.headers();
        request.validators.add_to(&mut headers);
        let url = request.url.clone();
        let seen = HashSet::from([url.as_str().to_owned()]);
        Self { request, url, headers, seen, hops: Vec::new() }
    }

    pub(crate) fn is_redirected(&self) -> bool {
        !self.hops.is_empty()
    }

    /// Group of the current URL: the one of the request on its own host, otherwise the host.
    pub(crate) fn group(&self) -> Result<Group, FetchError> {
        let same_host = self.url.host() == self.request.url.host();
        match &self.request.group {
            Some(group) if same_host => Ok(group.clone()),
            _ => group_of(&self.url),
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        if !self.is_redirected() {
            return self.request.ticket;
        }
        Ticket::of(&format!("{:x} {}", self.request.ticket.as_u128(), self.url.as_str()))
    }

    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// Moves to the target of a redirect; `false` if the response is no redirect.
    pub(crate) fn follow(&mut self, response: &HopResponse) -> Result<bool, HopError> {
        let Some(location) = redirect_location(response) else { return Ok(false) };
        let next = self.url.join(&location, &UrlOptions::default()).map_err(|error| {
            HopError::new(FetchCode::RedirectInvalid, format!("redirect to `{location}`: {error}"))
        })?;
        self.hops.push(Hop { url: self.url.clone(), status: response.status });
        if !self.seen.insert(next.as_str().to_owned()) {
            return Err(HopError::new(
                FetchCode::RedirectLoop,
                format!("redirect back to {}", next.as_str()),
            ));
        }
        if self.hops.len() > self.request.limits.redirects {
            let detail = format!("more than {} redirects", self.request.limits.redirects);
            return Err(HopError::new(FetchCode::RedirectTooMany, detail));
        }
        if next.host() != self.url.host() {
            // Validators belong to the page of the first host.
            self.headers.remove(header::IF_NONE_MATCH);
            self.headers.remove(header::IF_MODIFIED_SINCE);
        }
        if next.origin() != self.url.origin() {
            // Credentials stay within their origin: another port may be another service, and plain HTTP can be read on the way.
            self.headers.remove(header::AUTHORIZATION);
            self.headers.remove(header::COOKIE);
        }
        self.url = next;
        Ok(true)
    }

    pub(crate) fn into_fetched(self, response: HopResponse, timing: Timing) -> FetchResponse {
        FetchResponse {
            url: self.url,
            status: response.status,
            version: response.version,
            headers: response.headers,
            body: response.body,
            wire_bytes: response.wire_bytes,
            hops: self.hops,
            address: response.address,
            timing,
            memory_reservation: response.share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_content::url::normalise;
    use http::{HeaderValue, StatusCode, Version};

    /// Headers of the request after a redirect.
    fn headers_after(from: &str, to: &str) -> HeaderMap {
        let request = Request::new(normalise(from, &UrlOptions::default()).unwrap());
        let mut chain = RedirectChain::new(&request);
        for name in [header::AUTHORIZATION, header::COOKIE, header::IF_NONE_MATCH, header::USER_AGENT] {
            chain.headers.insert(name, HeaderValue::from_static("x"));
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, HeaderValue::from_str(to).unwrap());
        let response = HopResponse {
            status: StatusCode::FOUND,
            version: Version::HTTP_11,
            headers,
            body: Default::default(),
            wire_bytes: 0,
            address: ([127, 0, 0, 1], 80).into(),
            timing: Timing::default(),
            share: crate::MemoryBudget::default().reserve(),
        };
        assert!(chain.follow(&response).unwrap(), "a redirect");
        chain.headers()
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
            let sent = headers_after(from, to);
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
