//! HTTP/1.1 server of a web with keep-alive, on all addresses of the web.

use crate::{
    access_log::{AccessLog, AccessLogEntry},
    overrides::{Failure, Overrides, PageChange},
    response::{Fault, PageResponse},
    socket::{ResetFlag, Socket},
    web::{Lookup, Web},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{HOST, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{
    error::Error,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Delay after a failed accept, such as with too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Running server of a web; stops on drop.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    web: Web,
    overrides: Overrides,
    log: Option<AccessLog>,
    latency: Duration,
    began: Instant,
    open: Vec<AtomicU32>,
}

impl Server {
    pub(crate) fn start(
        web: Web,
        listeners: Vec<TcpListener>,
        log: Option<AccessLog>,
        latency: Duration,
    ) -> Self {
        let open = web.hosts.iter().map(|_| AtomicU32::new(0)).collect();
        let overrides = Overrides::new(web.hosts.len());
        let shared = Arc::new(Shared { web, overrides, log, latency, began: Instant::now(), open });
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let tasks =
            listeners.into_iter().map(|listener| tokio::spawn(accept(listener, shared.clone()))).collect();
        Self { shared, addresses, tasks }
    }

    /// Served web.
    #[must_use]
    pub fn web(&self) -> &Web {
        &self.shared.web
    }

    /// Listening addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Access log; `None` if it is disabled.
    #[must_use]
    pub fn log(&self) -> Option<&AccessLog> {
        self.shared.log.as_ref()
    }

    /// Number of open requests of a host; `None` for an unknown host.
    #[must_use]
    pub fn open(&self, host: &str) -> Option<u32> {
        let host = self.shared.web.host(host)?;
        Some(self.shared.open[host].load(Ordering::Acquire))
    }

    /// Changes a page: another text, ETag and date. `None` if there is no such page.
    #[must_use = "`None` means that there is no such page"]
    pub fn change(&self, url: &str) -> Option<PageChange> {
        self.shared.overrides.rewrite(&self.shared.web, url)
    }

    /// Replaces the page at a URL. False if the URL is not of this web.
    #[must_use = "false means that the URL is not of this web"]
    pub fn put(&self, url: &str, html: &str) -> bool {
        self.replace(url, PageResponse::html(html.to_owned()).conditional(0))
    }

    /// Replaces the page at a URL by status 410. False if the URL is not of this web.
    #[must_use = "false means that the URL is not of this web"]
    pub fn remove(&self, url: &str) -> bool {
        self.replace(url, PageResponse::status(StatusCode::GONE))
    }

    /// Starts a failure of a host. False for an unknown host.
    #[must_use = "false means that the host is unknown"]
    pub fn fail(&self, host: &str, failure: Failure) -> bool {
        self.set_failure(host, Some(failure))
    }

    /// Ends the failure of a host. False for an unknown host.
    #[must_use = "false means that the host is unknown"]
    pub fn recover(&self, host: &str) -> bool {
        self.set_failure(host, None)
    }

    fn replace(&self, url: &str, response: PageResponse) -> bool {
        let Some((host, path)) = self.shared.web.locate(url) else { return false };
        self.shared.overrides.put(host, path, response);
        true
    }

    fn set_failure(&self, host: &str, failure: Option<Failure>) -> bool {
        let Some(host) = self.shared.web.host(host) else { return false };
        self.shared.overrides.fail(host, failure);
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Accepts connections; they end with this task, which owns them.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(serve_connection(stream, shared.clone())); }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            },
            // Finished connections are removed.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    // Otherwise small responses wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let reset = ResetFlag::default();
    let socket = TokioIo::new(Socket::new(stream, reset.clone()));
    let service = service_fn(move |request| {
        let (shared, reset) = (shared.clone(), reset.clone());
        async move { respond(&shared, local.ip(), &request, &reset).await }
    });
    // Clients that disconnect early and connections that are reset are expected.
    let _ = http1::Builder::new().header_read_timeout(None).serve_connection(socket, service).await;
}

async fn respond(
    shared: &Shared,
    local: IpAddr,
    request: &Request<Incoming>,
    reset: &ResetFlag,
) -> Result<Response<Full<Bytes>>, ResetOnPurpose> {
    let named = request.uri().host().or_else(|| {
        let host = request.headers().get(HOST)?.to_str().ok()?;
        Some(host.rsplit_once(':').map_or(host, |(name, _)| name))
    });
    let host = match named {
        Some(name) => shared.web.host(name),
        None => shared.web.host(&local.to_string()),
    };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut open = OpenRequest::begin(shared, host, named.unwrap_or_default(), path);
    let page = match host {
        Some(host) => response(shared, host, path, request).await,
        None => Some(PageResponse::status(StatusCode::MISDIRECTED_REQUEST)),
    };
    let Some(page) = page else {
        reset.set();
        return Err(ResetOnPurpose);
    };
    open.status = page.status.as_u16();
    let mut response = Response::new(Full::new(page.body));
    *response.status_mut() = page.status;
    *response.headers_mut() = page.headers;
    Ok(response)
}

/// Response to a request; `None` if the connection is to be reset.
async fn response(
    shared: &Shared,
    host: usize,
    path: &str,
    request: &Request<Incoming>,
) -> Option<PageResponse> {
    let web = &shared.web;
    let latency = shared.latency.max(web.hosts[host].delay);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    if let Some(failure) = shared.overrides.failure(host) {
        return fail(shared, host, failure).await;
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Some(PageResponse::status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let conditional = |page: &PageResponse| {
        if page.matches_validators(request.headers()) { page.not_modified() } else { page.clone() }
    };
    if let Some(changed) = shared.overrides.changed(host, path) {
        return Some(conditional(&changed));
    }
    match web.find(host, path) {
        None => Some(PageResponse::status(StatusCode::NOT_FOUND)),
        Some(Lookup::Generated(page)) => Some(conditional(&page)),
        Some(Lookup::Stored(resource)) => match resource.next_fault() {
            None => Some(conditional(&resource.response)),
            Some(Fault::Status(status)) => Some(PageResponse::status(status)),
            Some(Fault::RetryAfter(seconds)) => Some(unavailable(Some(seconds))),
            Some(Fault::Reset) => None,
        },
    }
}

async fn fail(shared: &Shared, host: usize, failure: Failure) -> Option<PageResponse> {
    match failure {
        Failure::Unavailable { retry_after } => Some(unavailable(retry_after)),
        Failure::TooManyRequests { retry_after } => {
            Some(with_retry_after(PageResponse::status(StatusCode::TOO_MANY_REQUESTS), retry_after))
        }
        Failure::Hang => {
            shared.overrides.while_hanging(host).await;
            None
        }
        Failure::Reset => None,
    }
}

fn unavailable(retry_after: Option<u32>) -> PageResponse {
    with_retry_after(PageResponse::status(StatusCode::SERVICE_UNAVAILABLE), retry_after)
}

fn with_retry_after(response: PageResponse, retry_after: Option<u32>) -> PageResponse {
    match retry_after {
        Some(seconds) => response.with(RETRY_AFTER, &seconds.to_string()),
        None => response,
    }
}

/// Open request, logged at its end, also when the client disconnects.
struct OpenRequest<'a> {
    shared: &'a Shared,
    host: Option<usize>,
    status: u16,
    /// Start of the log entry; `None` without a log.
    log_start: Option<LogStart>,
}

struct LogStart {
    host: String,
    path: String,
    began: Instant,
    wall: SystemTime,
    open: u32,
}

impl<'a> OpenRequest<'a> {
    fn begin(shared: &'a Shared, host: Option<usize>, named: &str, path: &str) -> Self {
        let open = host.map_or(1, |host| 1 + shared.open[host].fetch_add(1, Ordering::AcqRel));
        let log_start = shared.log.is_some().then(|| LogStart {
            host: host.map_or(named, |host| shared.web.hosts[host].name.as_str()).to_owned(),
            path: path.to_owned(),
            began: Instant::now(),
            wall: SystemTime::now(),
            open,
        });
        Self { shared, host, status: 0, log_start }
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if let Some(host) = self.host {
            self.shared.open[host].fetch_sub(1, Ordering::AcqRel);
        }
        let (Some(log), Some(log_start)) = (&self.shared.log, self.log_start.take()) else { return };
        let since = |moment: Instant| moment.duration_since(self.shared.began).as_micros() as u64;
        log.push(AccessLogEntry {
            host: log_start.host,
            path: log_start.path,
            status: self.status,
            started_ms: epoch_ms(log_start.wall),
            ended_ms: epoch_ms(SystemTime::now()),
            started_us: since(log_start.began),
            ended_us: since(Instant::now()),
            open: log_start.open,
        });
    }
}

fn epoch_ms(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Error that ends a connection without a response.
#[derive(Debug)]
struct ResetOnPurpose;

impl fmt::Display for ResetOnPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is reset on purpose")
    }
}

impl Error for ResetOnPurpose {}
