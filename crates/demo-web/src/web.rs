//! Web in memory: its pages, the ground truth, and the builder of its server.

use crate::{
    access_log::AccessLog,
    draft::{Draft, Host, address, origin},
    ground_truth::GroundTruth,
    path,
    plan::{Naming, Plan},
    plans,
    response::{PageResponse, Resource},
    server::Server,
};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};
use tokio::net::TcpListener;

/// Maximum number of attempts to find a port that is free on all addresses.
const MAX_BIND_ATTEMPTS: usize = 50;

/// Web with its hosts, pages and ground truth.
#[derive(Debug)]
pub struct Web {
    pub(crate) hosts: Vec<Host>,
    by_name: HashMap<String, usize>,
    port: u16,
    truth: GroundTruth,
}

/// Builder of a web and its server.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    plan: Plan,
    port: u16,
    latency: Duration,
    logged: bool,
    log_file: Option<PathBuf>,
}

/// Result of a look-up by path.
pub(crate) enum Lookup<'a> {
    Stored(&'a Resource),
    Generated(PageResponse),
}

impl Web {
    /// Builder of the web of a plan.
    pub fn builder(plan: Plan) -> Builder {
        Builder { plan, port: 0, latency: Duration::ZERO, logged: true, log_file: None }
    }

    /// Expected result of a correct crawler.
    #[must_use]
    pub fn ground_truth(&self) -> &GroundTruth {
        &self.truth
    }

    /// Port of its URLs.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host names or addresses, without the port.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(|host| host.name.as_str())
    }

    /// URLs of all stored pages with robots.txt and sitemaps, in no order, without generated pages.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        self.hosts.iter().flat_map(|host| {
            let origin = origin(&host.name, self.port);
            host.pages.keys().map(move |path| format!("{origin}{path}"))
        })
    }

    /// Response of a URL after its faults; `None` if it always fails or does not exist.
    #[must_use]
    pub fn response(&self, url: &str) -> Option<PageResponse> {
        let (host, path) = self.locate(url)?;
        match self.find(host, path)? {
            Lookup::Stored(resource) if resource.fails_always() => None,
            Lookup::Stored(resource) => Some(resource.response.clone()),
            Lookup::Generated(page) => Some(page),
        }
    }

    /// Host number and path of a URL of this web.
    pub(crate) fn locate<'a>(&self, url: &'a str) -> Option<(usize, &'a str)> {
        let rest = url.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = path.split('#').next().unwrap_or_default();
        let host = self.host(authority.split(':').next()?)?;
        let port = authority.split_once(':').map_or(Some(80), |(_, port)| port.parse().ok())?;
        (port == self.port).then_some((host, if path.is_empty() { "/" } else { path }))
    }

    /// Host number by name without the port.
    pub(crate) fn host(&self, name: &str) -> Option<usize> {
        // Most names are in lower case, so that the copy is rare.
        if let Some(number) = self.by_name.get(name) {
            return Some(*number);
        }
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    pub(crate) fn find(&self, host: usize, path: &str) -> Option<Lookup<'_>> {
        let host = &self.hosts[host];
        if let Some(resource) = host.pages.get(path) {
            return Some(Lookup::Stored(resource));
        }
        if let Some(page) = host.generator.as_ref().and_then(|generator| generator(path)) {
            return Some(Lookup::Generated(page));
        }
        host.pages.get(&path::normalise(path)).map(Lookup::Stored)
    }

    fn from_draft(draft: Draft, port: u16) -> Self {
        let by_name = draft.hosts.iter().enumerate().map(|(at, host)| (host.name.clone(), at)).collect();
        Self { hosts: draft.hosts, by_name, port, truth: draft.truth }
    }
}

impl Builder {
    /// Port of all URLs; by default [`serve`](Self::serve) takes a free one.
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Minimum latency of each response, so that concurrent requests overlap.
    pub fn latency(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// Disables the access log.
    pub fn without_log(self) -> Self {
        Self { logged: false, ..self }
    }

    /// Appends the access log to a file too, one JSON object per line.
    pub fn log_file(self, path: impl Into<PathBuf>) -> Self {
        Self { log_file: Some(path.into()), ..self }
    }

    /// Web in memory with the URLs of its port, by default 80.
    #[must_use]
    pub fn build(&self) -> Web {
        self.build_at(if self.port == 0 { 80 } else { self.port })
    }

    /// Serves the web on the loopback addresses of its hosts until the server is dropped.
    ///
    /// # Errors
    ///
    /// If no port is free, the given one is taken, or the log file cannot be opened.
    pub async fn serve(self) -> io::Result<Server> {
        let log = match (self.logged, &self.log_file) {
            (false, _) => None,
            (true, None) => Some(AccessLog::in_memory()),
            (true, Some(path)) => Some(AccessLog::with_file(path)?),
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

/// Listens on the same port of all addresses.
async fn bind(addresses: &[IpAddr], port: u16) -> io::Result<Vec<TcpListener>> {
    let mut last = io::Error::other("a web without hosts cannot be served");
    for _ in 0..MAX_BIND_ATTEMPTS {
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
