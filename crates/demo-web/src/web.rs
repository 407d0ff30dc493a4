//! A web in memory: every page, the truth about them, and how to have it served.

use crate::{
    answer::{Answer, Resource},
    draft::{Draft, Host, address},
    log::Log,
    plan::{Naming, Plan},
    plans,
    server::Server,
    spelling,
    truth::Truth,
};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};
use tokio::net::TcpListener;

/// How many ports are tried before it is given up that one is free on all addresses.
const TRIES: usize = 50;

/// A web: its hosts, its pages, and the truth about them.
#[derive(Debug)]
pub struct Web {
    pub(crate) hosts: Vec<Host>,
    by_name: HashMap<String, usize>,
    port: u16,
    truth: Truth,
}

/// Says how a web is made and served.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    plan: Plan,
    port: u16,
    latency: Duration,
    logged: bool,
    log_file: Option<PathBuf>,
}

/// What is at a path.
pub(crate) enum Found<'a> {
    Kept(&'a Resource),
    Made(Answer),
}

impl Web {
    /// Begins with what the web is to contain.
    pub fn builder(plan: Plan) -> Builder {
        Builder { plan, port: 0, latency: Duration::ZERO, logged: true, log_file: None }
    }

    /// What a correct crawler ends up with.
    #[must_use]
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// The port in its URLs.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The names of its hosts, or their addresses, as URLs have them, without the port.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|host| host.name.as_str())
    }

    /// The URLs of all that is kept, robots.txt and sitemaps included, in no order. Pages that are made when they are
    /// asked for are not among them.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().flat_map(|host| {
            let origin = origin(&host.name, self.port);
            host.pages.keys().map(move |path| format!("{origin}{path}"))
        })
    }

    /// What a URL answers in the end, once trouble is over; nothing if it always fails or there is no such URL.
    #[must_use]
    pub fn answer(&self, url: &str) -> Option<Answer> {
        let (host, path) = self.locate(url)?;
        match self.find(host, path)? {
            Found::Kept(resource) if resource.fails_always() => None,
            Found::Kept(resource) => Some(resource.answer.clone()),
            Found::Made(answer) => Some(answer),
        }
    }

    /// The number of the host and the path of a URL of this web.
    pub(crate) fn locate<'a>(&self, url: &'a str) -> Option<(usize, &'a str)> {
        let rest = url.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        let host = self.host(authority.split(':').next()?)?;
        let port = authority.split_once(':').map_or(Some(80), |(_, port)| port.parse().ok())?;
        (port == self.port).then_some((host, if path.is_empty() { "/" } else { path }))
    }

    /// The number of a host by its name without port.
    pub(crate) fn host(&self, name: &str) -> Option<usize> {
        // Names come in lower case from everybody but people, so the copy is rarely made.
        if let Some(number) = self.by_name.get(name) {
            return Some(*number);
        }
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    pub(crate) fn find(&self, host: usize, path: &str) -> Option<Found<'_>> {
        let host = &self.hosts[host];
        if let Some(resource) = host.pages.get(path) {
            return Some(Found::Kept(resource));
        }
        if let Some(made) = host.maker.as_ref().and_then(|maker| maker(path)) {
            return Some(Found::Made(made));
        }
        host.pages.get(&spelling::usual(path)).map(Found::Kept)
    }

    fn from_draft(draft: Draft, port: u16) -> Self {
        let by_name = draft.hosts.iter().enumerate().map(|(at, host)| (host.name.clone(), at)).collect();
        Self { hosts: draft.hosts, by_name, port, truth: draft.truth }
    }
}

impl Builder {
    /// The port of all URLs. Without it, [`serve`](Self::serve) takes a free one.
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Every answer takes at least this long, so that requests that are made at once are seen to be.
    pub fn latency(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// Writes nothing down, for who is in a hurry.
    pub fn without_log(self) -> Self {
        Self { logged: false, ..self }
    }

    /// Appends every visit to a file too, one JSON object a line.
    pub fn log_file(self, path: impl Into<PathBuf>) -> Self {
        Self { log_file: Some(path.into()), ..self }
    }

    /// The web in memory, with the URLs that it has at its port; port 80 if none was said.
    #[must_use]
    pub fn build(&self) -> Web {
        self.build_at(if self.port == 0 { 80 } else { self.port })
    }

    /// Serves the web on the loopback addresses of its hosts until the server is dropped.
    ///
    /// # Errors
    ///
    /// If no port is free, the one that was said is taken, or the log's file cannot be opened.
    pub async fn serve(self) -> io::Result<Server> {
        let log = match (self.logged, &self.log_file) {
            (false, _) => None,
            (true, None) => Some(Log::in_memory()),
            (true, Some(path)) => Some(Log::with_file(path)?),
        };
        let addresses: Vec<IpAddr> = match self.plan.naming {
            Naming::Names => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            Naming::Addresses => {
                (0..plans::host_count(&self.plan)).map(|host| IpAddr::V4(address(host))).collect()
            }
        };
        let listeners = bind(&addresses, self.port).await?;
        let port = match listeners.first() {
            Some(listener) => listener.local_addr()?.port(),
            None => self.port,
        };
        Ok(Server::start(self.build_at(port), listeners, log, self.latency))
    }

    fn build_at(&self, port: u16) -> Web {
        let mut draft = Draft::new(self.plan.naming, port);
        plans::fill(&mut draft, &self.plan);
        Web::from_draft(draft, port)
    }
}

fn origin(name: &str, port: u16) -> String {
    if port == 80 { format!("http://{name}") } else { format!("http://{name}:{port}") }
}

/// Listens on all addresses at one port.
async fn bind(addresses: &[IpAddr], port: u16) -> io::Result<Vec<TcpListener>> {
    let mut last = io::Error::other("a web without hosts cannot be served");
    for _ in 0..TRIES {
        match bind_once(addresses, port).await {
            Ok(listeners) => return Ok(listeners),
            Err(error) if port != 0 => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn bind_once(addresses: &[IpAddr], mut port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for address in addresses {
        let listener = TcpListener::bind(SocketAddr::new(*address, port)).await.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on {address} port {port}: {error}"))
        })?;
        port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(listeners)
}
