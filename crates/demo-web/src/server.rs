//! The server of a web: HTTP/1.1 with kept connections, on as many addresses as the web has.

use crate::{
    answer::{Answer, Trouble},
    live::{Changed, Failure, Live},
    log::{Log, Visit},
    socket::{Cut, Socket},
    web::{Found, Web},
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

/// How long to wait when no connection can be taken, as when there are no more file handles.
const BREATH: Duration = Duration::from_millis(20);

/// A web that is being served. It stops when this is dropped.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    web: Web,
    live: Live,
    log: Option<Log>,
    latency: Duration,
    began: Instant,
    open: Vec<AtomicU32>,
}

impl Server {
    pub(crate) fn start(web: Web, listeners: Vec<TcpListener>, log: Option<Log>, latency: Duration) -> Self {
        let open = web.hosts.iter().map(|_| AtomicU32::new(0)).collect();
        let live = Live::new(web.hosts.len());
        let shared = Arc::new(Shared { web, live, log, latency, began: Instant::now(), open });
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let tasks =
            listeners.into_iter().map(|listener| tokio::spawn(accept(listener, shared.clone()))).collect();
        Self { shared, addresses, tasks }
    }

    /// The web that is served.
    #[must_use]
    pub fn web(&self) -> &Web {
        &self.shared.web
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Who was there; nothing if it was told to write nothing down.
    #[must_use]
    pub fn log(&self) -> Option<&Log> {
        self.shared.log.as_ref()
    }

    /// How many requests of a host are open now; nothing if there is no such host.
    #[must_use]
    pub fn open(&self, host: &str) -> Option<u32> {
        let host = self.shared.web.host(host)?;
        Some(self.shared.open[host].load(Ordering::Acquire))
    }

    /// Changes a page: other text, another ETag, a later date. Nothing if there is no page to change.
    #[must_use = "nothing means that nothing was changed"]
    pub fn change(&self, url: &str) -> Option<Changed> {
        self.shared.live.rewrite(&self.shared.web, url)
    }

    /// Puts this page at a URL from now on, whatever was there. False if the URL is not of this web.
    #[must_use = "false means that nothing was put"]
    pub fn put(&self, url: &str, html: &str) -> bool {
        self.replace(url, Answer::html(html.to_owned()).conditional(0))
    }

    /// Has a URL answer 410 from now on. False if the URL is not of this web.
    #[must_use = "false means that nothing was removed"]
    pub fn remove(&self, url: &str) -> bool {
        self.replace(url, Answer::status(StatusCode::GONE))
    }

    /// Has a host fail from now on. False if there is no such host.
    #[must_use = "false means that there is no such host"]
    pub fn fail(&self, host: &str, failure: Failure) -> bool {
        self.set_failure(host, Some(failure))
    }

    /// Has a host answer again. False if there is no such host.
    #[must_use = "false means that there is no such host"]
    pub fn recover(&self, host: &str) -> bool {
        self.set_failure(host, None)
    }

    fn replace(&self, url: &str, answer: Answer) -> bool {
        let Some((host, path)) = self.shared.web.locate(url) else { return false };
        self.shared.live.put(host, path, answer);
        true
    }

    fn set_failure(&self, host: &str, failure: Option<Failure>) -> bool {
        let Some(host) = self.shared.web.host(host) else { return false };
        self.shared.live.fail(host, failure);
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

/// Takes connections; they end with the task, since it owns them.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(converse(stream, shared.clone())); }
                Err(_) => tokio::time::sleep(BREATH).await,
            },
            // Ended ones are taken away, or they would pile up.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    // Without this, small answers on kept connections wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let Ok(here) = stream.local_addr() else { return };
    let cut = Cut::default();
    let socket = TokioIo::new(Socket::new(stream, cut.clone()));
    let service = service_fn(move |request| {
        let (shared, cut) = (shared.clone(), cut.clone());
        async move { respond(&shared, here.ip(), &request, &cut).await }
    });
    // A client that leaves early, or is cut off, is no news to anyone.
    let _ = http1::Builder::new().header_read_timeout(None).serve_connection(socket, service).await;
}

async fn respond(
    shared: &Shared,
    here: IpAddr,
    request: &Request<Incoming>,
    cut: &Cut,
) -> Result<Response<Full<Bytes>>, CutOff> {
    let named = request.uri().host().or_else(|| {
        let host = request.headers().get(HOST)?.to_str().ok()?;
        Some(host.rsplit_once(':').map_or(host, |(name, _)| name))
    });
    let host = match named {
        Some(name) => shared.web.host(name),
        None => shared.web.host(&here.to_string()),
    };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut visit = OpenVisit::begin(shared, host, named.unwrap_or_default(), path);
    let answer = match host {
        Some(host) => decide(shared, host, path, request).await,
        None => Some(Answer::status(StatusCode::MISDIRECTED_REQUEST)),
    };
    let Some(answer) = answer else {
        cut.cut();
        return Err(CutOff);
    };
    visit.status = answer.status.as_u16();
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

/// The answer to a request; nothing if the connection is to be reset.
async fn decide(shared: &Shared, host: usize, path: &str, request: &Request<Incoming>) -> Option<Answer> {
    let web = &shared.web;
    let takes = shared.latency.max(web.hosts[host].delay);
    if !takes.is_zero() {
        tokio::time::sleep(takes).await;
    }
    if let Some(failure) = shared.live.failure(host) {
        return fail(shared, host, failure).await;
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Some(Answer::status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let unless_known = |answer: &Answer| {
        if answer.is_known(request.headers()) { answer.not_modified() } else { answer.clone() }
    };
    if let Some(changed) = shared.live.changed(host, path) {
        return Some(unless_known(&changed));
    }
    match web.find(host, path) {
        None => Some(Answer::status(StatusCode::NOT_FOUND)),
        Some(Found::Made(answer)) => Some(unless_known(&answer)),
        Some(Found::Kept(resource)) => match resource.meet() {
            None => Some(unless_known(&resource.answer)),
            Some(Trouble::Status(status)) => Some(Answer::status(status)),
            Some(Trouble::Later(seconds)) => Some(unavailable(Some(seconds))),
            Some(Trouble::Reset) => None,
        },
    }
}

async fn fail(shared: &Shared, host: usize, failure: Failure) -> Option<Answer> {
    match failure {
        Failure::Unavailable { retry_after } => Some(unavailable(retry_after)),
        Failure::TooManyRequests { retry_after } => {
            Some(later(Answer::status(StatusCode::TOO_MANY_REQUESTS), retry_after))
        }
        Failure::Hang => {
            shared.live.while_hanging(host).await;
            None
        }
        Failure::Reset => None,
    }
}

fn unavailable(retry_after: Option<u32>) -> Answer {
    later(Answer::status(StatusCode::SERVICE_UNAVAILABLE), retry_after)
}

fn later(answer: Answer, retry_after: Option<u32>) -> Answer {
    match retry_after {
        Some(seconds) => answer.with(RETRY_AFTER, &seconds.to_string()),
        None => answer,
    }
}

/// A visit that is written down when it ends, whichever way that is: also when the client leaves.
struct OpenVisit<'a> {
    shared: &'a Shared,
    host: Option<usize>,
    status: u16,
    /// What the log needs to know; nothing without a log.
    noted: Option<Noted>,
}

struct Noted {
    host: String,
    path: String,
    began: Instant,
    wall: SystemTime,
    open: u32,
}

impl<'a> OpenVisit<'a> {
    fn begin(shared: &'a Shared, host: Option<usize>, named: &str, path: &str) -> Self {
        let open = host.map_or(1, |host| 1 + shared.open[host].fetch_add(1, Ordering::AcqRel));
        let noted = shared.log.is_some().then(|| Noted {
            host: host.map_or(named, |host| shared.web.hosts[host].name.as_str()).to_owned(),
            path: path.to_owned(),
            began: Instant::now(),
            wall: SystemTime::now(),
            open,
        });
        Self { shared, host, status: 0, noted }
    }
}

impl Drop for OpenVisit<'_> {
    fn drop(&mut self) {
        if let Some(host) = self.host {
            self.shared.open[host].fetch_sub(1, Ordering::AcqRel);
        }
        let (Some(log), Some(noted)) = (&self.shared.log, self.noted.take()) else { return };
        let since = |moment: Instant| moment.duration_since(self.shared.began).as_micros() as u64;
        log.push(Visit {
            host: noted.host,
            path: noted.path,
            status: self.status,
            started_ms: epoch_ms(noted.wall),
            ended_ms: epoch_ms(SystemTime::now()),
            started_us: since(noted.began),
            ended_us: since(Instant::now()),
            open: noted.open,
        });
    }
}

fn epoch_ms(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Says to the connection that it is to end without an answer.
#[derive(Debug)]
struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut off on purpose")
    }
}

impl Error for CutOff {}
