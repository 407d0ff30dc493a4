//! Keeps pages of other sites from driving the gateway through somebody's browser.
//!
//! A gateway on loopback needs no token, and every page in a browser on that machine can send requests to it. Two checks
//! keep them out: the request must be meant for a name that is ours (a page whose own name was made to point here,
//! DNS rebinding, sends its own name), and what changes something must not come from another origin.

use crate::problem::Problem;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, Uri, header};
use std::{net::IpAddr, sync::Arc};

/// The names under which the gateway may be asked.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    /// In lower case, with a port or without.
    names: Arc<[String]>,
    bound: Option<IpAddr>,
}

impl AllowedHosts {
    /// Those of loopback, the address that is listened on, and these: `crawl.example.org`, or with a port to allow only
    /// that one.
    pub fn new<S: AsRef<str>>(names: &[S], bound: Option<IpAddr>) -> Self {
        Self { names: names.iter().map(|name| name.as_ref().to_ascii_lowercase()).collect(), bound }
    }

    /// Whether this is one of them, as the header `Host` has it.
    fn has(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        if self.is_configured(&host) || name == "localhost" {
            return true;
        }
        let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() else {
            return false;
        };
        // Behind an address there is no name that could have been made to point here. Who listens on all addresses can be
        // asked by any of them.
        address.is_loopback() || self.bound.is_some_and(|bound| bound.is_unspecified() || bound == address)
    }

    /// Whether somebody has written that this is a name of the gateway.
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

/// Refuses what is not meant for us, or comes from another site's page.
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
    // What a client writes in front of the path counts as much as the header.
    let named = [Some(host), uri.authority().map(|authority| authority.as_str())];
    if let Some(foreign) = named.into_iter().flatten().find(|name| !hosts.has(name)) {
        return Some(Problem::foreign_host(format!(
            "`{}` is not a name of this gateway; add it to `gateway.allowed_hosts` if it is one",
            shown(foreign)
        )));
    }
    // A proxy and we could each look at another one.
    if headers.get_all(header::ORIGIN).iter().nth(1).is_some() {
        return Some(Problem::foreign_origin(
            "the request has more than one header `Origin`; send one, or none",
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
            // A proxy may have put in another `Host` than the one the page was opened by.
            let ours =
                |authority: String| authority == host.to_ascii_lowercase() || hosts.is_configured(&authority);
            !authority.is_some_and(ours)
        }
        Some(Err(_)) => true,
    };
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    if foreign || matches!(site, Some("cross-site" | "same-site")) {
        let from = origin.and_then(|origin| origin.to_str().ok()).unwrap_or("another site");
        return Some(Problem::foreign_origin(format!(
            "a page of `{}` asked for this; only pages of the gateway itself, and programs, may change something",
            shown(from)
        )));
    }
    None
}

/// A stranger's text, short and on one line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
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
            assert!(hosts.has(host), "{host}");
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
            assert!(!hosts.has(host), "{host}");
        }
    }

    #[test]
    fn the_address_that_is_listened_on_is_a_name_too() {
        let address = "192.0.2.7".parse().ok();
        assert!(AllowedHosts::new::<&str>(&[], address).has("192.0.2.7:8081"));
        assert!(!AllowedHosts::new::<&str>(&[], address).has("192.0.2.8:8081"));
        let any = AllowedHosts::new::<&str>(&[], "0.0.0.0".parse().ok());
        assert!(any.has("192.0.2.8:8081") && !any.has("evil.test"));
    }
}
