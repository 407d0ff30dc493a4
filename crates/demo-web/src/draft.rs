//! Draft of a web that a plan fills: hosts, pages, and the ground truth.

use crate::{
    ground_truth::{Duplicate, ExpectedPage, GroundTruth, NotIndexed},
    html::Html,
    plan::Naming,
    response::{Fault, PageResponse, Resource},
};
use hyper::StatusCode;
use std::{collections::HashMap, fmt, net::Ipv4Addr, time::Duration};

/// Generator of pages by path and query.
pub(crate) type PageGenerator = Box<dyn Fn(&str) -> Option<PageResponse> + Send + Sync>;

/// Host with its pages.
pub(crate) struct Host {
    pub(crate) name: String,
    /// Pages by normalised path and query.
    pub(crate) pages: HashMap<String, Resource>,
    pub(crate) generator: Option<PageGenerator>,
    pub(crate) delay: Duration,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).field("pages", &self.pages.len()).finish()
    }
}

/// Draft of a web.
#[derive(Debug)]
pub(crate) struct Draft {
    naming: Naming,
    port: u16,
    pub(crate) hosts: Vec<Host>,
    pub(crate) truth: GroundTruth,
}

/// Place of a page: the number of its host, and its path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) path: String,
}

/// Loopback address of a host.
pub(crate) fn address(host: usize) -> Ipv4Addr {
    let [_, _, third, last] = (2 + host as u32).to_be_bytes();
    Ipv4Addr::new(127, 0, third, last)
}

/// Origin of a host, without the default port.
pub(crate) fn origin(name: &str, port: u16) -> String {
    if port == 80 { format!("http://{name}") } else { format!("http://{name}:{port}") }
}

impl Place {
    pub(crate) fn new(host: usize, path: impl Into<String>) -> Self {
        Self { host, path: path.into() }
    }
}

impl Draft {
    pub(crate) fn new(naming: Naming, port: u16) -> Self {
        Self { naming, port, hosts: Vec::new(), truth: GroundTruth::default() }
    }

    /// Adds a host, and returns its number. The name counts with [`Naming::Names`] only.
    pub(crate) fn host(&mut self, name: &str) -> usize {
        let number = self.hosts.len();
        let name = match self.naming {
            Naming::Names => name.to_owned(),
            Naming::Addresses => address(number).to_string(),
        };
        self.hosts.push(Host { name, pages: HashMap::new(), generator: None, delay: Duration::ZERO });
        number
    }

    /// Absolute URL of a place, without the default port.
    pub(crate) fn url(&self, place: &Place) -> String {
        format!("{}{}", self.origin(place.host), place.path)
    }

    pub(crate) fn origin(&self, host: usize) -> String {
        origin(&self.hosts[host].name, self.port)
    }

    /// Adds a response without a ground truth.
    pub(crate) fn put(&mut self, place: &Place, response: PageResponse) {
        self.put_with(place, response, None);
    }

    /// Adds a response with a fault before it.
    pub(crate) fn put_with(&mut self, place: &Place, response: PageResponse, fault: Option<(Fault, u32)>) {
        let previous =
            self.hosts[place.host].pages.insert(place.path.clone(), Resource::new(response, fault));
        debug_assert!(previous.is_none(), "{} exists twice", self.url(place));
    }

    /// Adds a page that must be indexed.
    pub(crate) fn page(&mut self, place: &Place, html: &Html, word: Option<String>) {
        let which = self.hosts[place.host].pages.len();
        self.put(place, PageResponse::html(html.render()).conditional(which));
        self.expect(place, &html.title, word, None);
    }

    /// Expects a place to be indexed.
    pub(crate) fn expect(
        &mut self,
        place: &Place,
        title: &str,
        word: Option<String>,
        duplicate: Option<Duplicate>,
    ) {
        let indexed = ExpectedPage { title: title.to_owned(), word, duplicate };
        self.truth.indexed.insert(self.url(place), indexed);
    }

    /// Expects a place not to be indexed.
    pub(crate) fn deny(&mut self, place: &Place, why: NotIndexed) {
        self.truth.not_indexed.insert(self.url(place), why);
    }

    /// Adds a page with another canonical URL.
    pub(crate) fn alias(&mut self, place: &Place, html: Html, canonical: &Place) {
        let to = self.url(canonical);
        self.put(place, PageResponse::html(html.canonical(&to).render()));
        self.deny(place, NotIndexed::Canonical(to));
    }

    /// Adds a redirect chain; the last place is a page.
    pub(crate) fn redirects(&mut self, status: StatusCode, places: &[Place]) {
        let Some(last) = places.last().map(|last| self.url(last)) else { return };
        for step in places.windows(2) {
            let next = self.url(&step[1]);
            self.put(&step[0], PageResponse::redirect(status, &next));
            self.deny(&step[0], NotIndexed::Redirect(last.clone()));
        }
    }

    /// Adds a place with a permanent error status.
    pub(crate) fn status(&mut self, place: &Place, status: StatusCode) {
        self.put(place, PageResponse::status(status));
        self.deny(place, NotIndexed::Status(status.as_u16()));
    }

    /// Adds a place that always fails.
    pub(crate) fn failing(&mut self, place: &Place, fault: Fault) {
        let status = match fault {
            Fault::Status(status) => status,
            Fault::RetryAfter(_) => StatusCode::SERVICE_UNAVAILABLE,
            Fault::Reset => StatusCode::INTERNAL_SERVER_ERROR,
        };
        self.put_with(place, PageResponse::status(status), Some((fault, u32::MAX)));
        self.deny(place, NotIndexed::Fails);
        let url = self.url(place);
        self.truth.dead.insert(url);
    }

    pub(crate) fn robots(&mut self, host: usize, rules: &str) {
        self.put(
            &Place::new(host, "/robots.txt"),
            PageResponse::of_type("text/plain; charset=utf-8", rules.to_owned()),
        );
    }

    /// Adds a page that robots.txt disallows; the access log shows a crawler that requests it.
    pub(crate) fn forbidden(&mut self, place: &Place, html: &Html) {
        self.put(place, PageResponse::html(html.render()));
        let url = self.url(place);
        self.truth.forbidden.insert(url);
    }

    /// Adds a page with `nofollow` links only.
    pub(crate) fn unfollowed(&mut self, place: &Place, html: &Html) {
        self.put(place, PageResponse::html(html.render()));
        let url = self.url(place);
        self.truth.unfollowed.insert(url);
    }
}
