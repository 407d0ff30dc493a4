//! The draft of a web while a plan fills it: hosts, pages, and the truth about each page as it is added.

use crate::{
    answer::{Answer, Resource, Trouble},
    html::Html,
    plan::Naming,
    truth::{Duplicate, Indexed, Truth, Why},
};
use hyper::StatusCode;
use std::{collections::HashMap, fmt, net::Ipv4Addr, time::Duration};

/// A page made when it is asked for, by its path and query.
pub(crate) type Maker = Box<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

/// A host and what it has.
pub(crate) struct Host {
    pub(crate) name: String,
    /// By path and query, in the usual spelling.
    pub(crate) pages: HashMap<String, Resource>,
    pub(crate) maker: Option<Maker>,
    pub(crate) delay: Duration,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).field("pages", &self.pages.len()).finish()
    }
}

/// A web that is being made.
#[derive(Debug)]
pub(crate) struct Draft {
    naming: Naming,
    port: u16,
    pub(crate) hosts: Vec<Host>,
    pub(crate) truth: Truth,
}

/// Where a page is: the number of its host, and its path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) path: String,
}

/// The address of a host that has one of its own.
pub(crate) fn address(host: usize) -> Ipv4Addr {
    // Beyond the last byte there are more addresses, though no plan has so many hosts.
    let [_, _, third, last] = (2 + host as u32).to_be_bytes();
    Ipv4Addr::new(127, 0, third, last)
}

impl Place {
    pub(crate) fn new(host: usize, path: impl Into<String>) -> Self {
        Self { host, path: path.into() }
    }
}

impl Draft {
    pub(crate) fn new(naming: Naming, port: u16) -> Self {
        Self { naming, port, hosts: Vec::new(), truth: Truth::default() }
    }

    /// Adds a host; its number. The name counts only where hosts are told apart by names.
    pub(crate) fn host(&mut self, name: &str) -> usize {
        let number = self.hosts.len();
        let name = match self.naming {
            Naming::Names => name.to_owned(),
            Naming::Addresses => address(number).to_string(),
        };
        self.hosts.push(Host { name, pages: HashMap::new(), maker: None, delay: Duration::ZERO });
        number
    }

    /// The absolute URL of a place. The default port is left out, as in every normal form.
    pub(crate) fn url(&self, place: &Place) -> String {
        format!("{}{}", self.origin(place.host), place.path)
    }

    pub(crate) fn origin(&self, host: usize) -> String {
        let name = &self.hosts[host].name;
        match self.port {
            80 => format!("http://{name}"),
            port => format!("http://{name}:{port}"),
        }
    }

    /// Adds what a place answers; the truth about it is the caller's.
    pub(crate) fn put(&mut self, place: &Place, answer: Answer) {
        self.put_with(place, answer, None);
    }

    /// The same with trouble before the answer.
    pub(crate) fn put_with(&mut self, place: &Place, answer: Answer, trouble: Option<(Trouble, u32)>) {
        let before = self.hosts[place.host].pages.insert(place.path.clone(), Resource::new(answer, trouble));
        debug_assert!(before.is_none(), "{} is there twice", self.url(place));
    }

    /// Adds a page that must be indexed.
    pub(crate) fn page(&mut self, place: &Place, html: &Html, word: Option<String>) {
        let which = self.hosts[place.host].pages.len();
        self.put(place, Answer::html(html.render()).conditional(which));
        self.expect(place, &html.title, word, None);
    }

    /// Notes that a place must be indexed.
    pub(crate) fn expect(
        &mut self,
        place: &Place,
        title: &str,
        word: Option<String>,
        duplicate: Option<Duplicate>,
    ) {
        let indexed = Indexed { title: title.to_owned(), word, duplicate };
        self.truth.indexed.insert(self.url(place), indexed);
    }

    /// Notes that a place must not be indexed.
    pub(crate) fn deny(&mut self, place: &Place, why: Why) {
        self.truth.not_indexed.insert(self.url(place), why);
    }

    /// Adds a page that names another one as canonical.
    pub(crate) fn alias(&mut self, place: &Place, html: Html, canonical: &Place) {
        let to = self.url(canonical);
        self.put(place, Answer::html(html.canonical(&to).render()));
        self.deny(place, Why::Canonical(to));
    }

    /// Adds redirects from each place to the next, the last of which is a page.
    pub(crate) fn redirects(&mut self, status: StatusCode, places: &[Place]) {
        let Some(last) = places.last().map(|last| self.url(last)) else { return };
        for step in places.windows(2) {
            let next = self.url(&step[1]);
            self.put(&step[0], Answer::redirect(status, &next));
            self.deny(&step[0], Why::Redirect(last.clone()));
        }
    }

    /// Adds a place with a status that stays.
    pub(crate) fn status(&mut self, place: &Place, status: StatusCode) {
        self.put(place, Answer::status(status));
        self.deny(place, Why::Status(status.as_u16()));
    }

    /// Adds a place that never works.
    pub(crate) fn failing(&mut self, place: &Place, trouble: Trouble) {
        let status = match trouble {
            Trouble::Status(status) => status,
            Trouble::Later(_) => StatusCode::SERVICE_UNAVAILABLE,
            Trouble::Reset => StatusCode::INTERNAL_SERVER_ERROR,
        };
        self.put_with(place, Answer::status(status), Some((trouble, u32::MAX)));
        self.deny(place, Why::Fails);
        let url = self.url(place);
        self.truth.dead.insert(url);
    }

    pub(crate) fn robots(&mut self, host: usize, rules: &str) {
        self.put(
            &Place::new(host, "/robots.txt"),
            Answer::of_type("text/plain; charset=utf-8", rules.to_owned()),
        );
    }

    /// Adds a page that robots.txt disallows, so that whoever asks for it all the same is answered and found out.
    pub(crate) fn forbidden(&mut self, place: &Place, html: &Html) {
        self.put(place, Answer::html(html.render()));
        let url = self.url(place);
        self.truth.forbidden.insert(url);
    }

    /// Adds a page that only `nofollow` links lead to.
    pub(crate) fn unfollowed(&mut self, place: &Place, html: &Html) {
        self.put(place, Answer::html(html.render()));
        let url = self.url(place);
        self.truth.unfollowed.insert(url);
    }
}
