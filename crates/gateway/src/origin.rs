//! Protection against DNS rebinding and cross-site request forgery (CSRF).
//!
//! A gateway on loopback needs no token, and every page in a browser on that machine can send requests to it. The `Host` of a
//! request must be an allowed name, which a page that uses DNS rebinding cannot send. A request that changes something must
//! not come from another origin.

use crate::{problem::Problem, service::excerpt};
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, Uri, header};
use std::{net::IpAddr, sync::Arc};

/// Host names of the gateway that are accepted in the header `Host`.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    /// Names in lower case, with or without a port.
    names: Arc<[String]>,
    bound: Option<IpAddr>,
}

impl AllowedHosts {
    /// Loopback names, the address of the listener, and these names, such as `crawl.example.org`. A name with a port allows
    /// only that port.
    pub fn new<S: AsRef<str>>(names: &[S], bound: Option<IpAddr>) -> Self {
        Self { names: names.iter().map(|name| name.as_ref().to_ascii_lowercase()).collect(), bound }
    }

    /// Whether this value of the header `Host` is allowed.
    fn allows(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        if self.is_configured(&host) || name == "localhost" {
            return true;
        }
        let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() else {
            return false;
        };
        // An IP address cannot be rebound. A listener on all addresses accepts each of them.
        address.is_loopback() || self.bound.is_some_and(|bound| bound.is_unspecified() || bound == address)
    }

    /// Whether the settings contain this name.
    fn is_configured(&self, host: &str) -> bool {
        let name = without_port(host);
        self.names.iter().any(|allowed| allowed == host || allowed == name)
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|octet| octet.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Rejects requests for another host, or from a page of another origin.
pub(crate) async fn check(State(hosts): State<AllowedHosts>, request: Request, next: Next) -> Response {
    match refusal(&hosts, request.method(), request.uri(), request.headers()) {
        None => next.run(request).await,
        Some(problem) => problem.into_response(),
    }
}

fn refusal(hosts: &AllowedHosts, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Problem> {
    let mut given = headers.get_all(header::HOST).iter();
    let host = given.next().and_then(|host| host.to_str().ok());
    let (Some(host), None) = (host, given.next()) else {
        return Some(Problem::foreign_host("the request needs one header `Host`"));
    };
    // An absolute request target overrides the header.
    let named = [Some(host), uri.authority().map(|authority| authority.as_str())];
    if let Some(foreign) = named.into_iter().flatten().find(|name| !hosts.allows(name)) {
        return Some(Problem::foreign_host(format!(
            "host `{}` is not allowed; add it to `gateway.allowed_hosts` if it is a name of this gateway",
            excerpt(foreign)
        )));
    }
    // A proxy might check one of them and the gateway another.
    if headers.get_all(header::ORIGIN).iter().nth(1).is_some() {
        return Some(Problem::foreign_origin(
            "the request has more than one header `Origin`; send at most one",
        ));
    }
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let origin = headers.get(header::ORIGIN);
    let foreign = match origin.map(|origin| origin.to_str()) {
        None => false,
        Some(Ok(origin)) => {
            let authority = origin.split_once("://").map(|(_, authority)| authority.to_ascii_lowercase());
            // A proxy may have replaced the `Host` by which the page was opened.
            let allowed =
                |authority: String| authority == host.to_ascii_lowercase() || hosts.is_configured(&authority);
            !authority.is_some_and(allowed)
        }
        Some(Err(_)) => true,
    };
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    if foreign || matches!(site, Some("cross-site" | "same-site")) {
        let from = origin.and_then(|origin| origin.to_str().ok()).unwrap_or("another site");
        return Some(Problem::foreign_origin(format!(
            "cross-site request from `{}`; only pages of the gateway itself and programs may make changes",
            excerpt(from)
        )));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_configured_names_are_allowed_and_no_others() {
        let hosts = AllowedHosts::new(&["Crawl.Example.org", "other.test:8081"], None);
        for host in [
            "localhost",
            "LOCALHOST:8081",
            "127.0.0.1:8081",
            "127.9.9.9",
            "[::1]:8081",
            "[::1]",
            "crawl.example.org",
            "crawl.example.org:443",
            "other.test:8081",
        ] {
            assert!(hosts.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.test",
            "localhost.evil.test",
            "other.test",
            "other.test:80",
            "10.0.0.1",
            "[::2]:1",
            "127.0.0.1.evil.test",
        ] {
            assert!(!hosts.allows(host), "{host}");
        }
    }

    #[test]
    fn the_address_of_the_listener_is_allowed() {
        let address = "192.0.2.7".parse().ok();
        assert!(AllowedHosts::new::<&str>(&[], address).allows("192.0.2.7:8081"));
        assert!(!AllowedHosts::new::<&str>(&[], address).allows("192.0.2.8:8081"));
        let any = AllowedHosts::new::<&str>(&[], "0.0.0.0".parse().ok());
        assert!(any.allows("192.0.2.8:8081") && !any.allows("evil.test"));
    }
}
