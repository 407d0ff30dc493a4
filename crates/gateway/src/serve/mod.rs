//! HTTP server: listener, connection limits and graceful shutdown.

mod connection_slots;
mod response_budget;
mod write_timeout;

pub(crate) use connection_slots::network;
pub(crate) use response_budget::StaticBody;

use crate::{health, middleware, problem::Problem};
use axum::{Router, extract::ConnectInfo, response::Response};
use connection_slots::{ConnectionSlots, HealthConnections};
use crawlway_flow::Shutdown;
use http::{HeaderValue, Request, header};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
};
use response_budget::ResponseBudget;
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
};
use tower::ServiceExt;
use write_timeout::WriteTimeoutStream;

/// Delay after a failed accept, for example without free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Backlog of the listening socket.
const BACKLOG: u32 = 1024;
/// Send buffer of a connection in bytes; the kernel doubles it. With a larger one the write timeout could not tell a slow
/// client from one that does not read.
const SEND_BUFFER: u32 = 64 << 10;
/// Header timeout of a connection without a slot.
const HEALTH_HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Access control of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessControl {
    /// Setting of the address, for error messages.
    pub setting: &'static str,
    /// Whether a token is required.
    pub token: bool,
    /// Whether unauthenticated access from the network is allowed.
    pub allow_unauthenticated: bool,
}

impl AccessControl {
    /// Refuses an address other than loopback without a token, unless that is allowed.
    pub fn check(self, address: SocketAddr) -> Result<(), BindError> {
        if address.ip().to_canonical().is_loopback() || self.token || self.allow_unauthenticated {
            return Ok(());
        }
        Err(BindError::Unauthenticated { setting: self.setting, address })
    }
}

/// Error of [`bind`].
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Unauthenticated access from the network is not allowed.
    #[error(
        "`{setting}` is {address}, which is reachable from the network, and no token is set; set `gateway.token`, or \
         listen on 127.0.0.1 (`gateway.allow_unauthenticated = true` allows unauthenticated access)"
    )]
    Unauthenticated {
        /// Setting of the address.
        setting: &'static str,
        /// Address.
        address: SocketAddr,
    },
    /// The operating system refused the address.
    #[error("cannot listen on {address}: {error}; choose another address with `{setting}`")]
    Io {
        /// Setting of the address.
        setting: &'static str,
        /// Address.
        address: SocketAddr,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections per IPv4 address or IPv6 /64 network.
    pub per_peer: usize,
    /// Maximum number of further connections, for health checks alone; other requests get a 503. The newest connection
    /// replaces the oldest.
    pub health_connections: usize,
    /// Timeout of the request header, and of an idle connection.
    pub header_timeout: Duration,
    /// Maximum size of the request header.
    pub max_header_bytes: usize,
    /// Timeout of a write to a client that does not read.
    pub write_timeout: Duration,
    /// Maximum memory of unread responses in total; a single response may exceed it.
    pub max_unread_bytes: u64,
    /// Timeout of the graceful shutdown.
    pub drain: Duration,
}

impl Default for ConnectionLimits {
    /// 512 connections, 256 per address, 128 for health checks, headers of 32 KiB within 15 s, 10 s per write, 64 MiB of unread
    /// responses, 10 s to shut down.
    fn default() -> Self {
        Self {
            connections: 512,
            per_peer: 256,
            health_connections: 128,
            header_timeout: Duration::from_secs(15),
            max_header_bytes: 32 << 10,
            write_timeout: Duration::from_secs(10),
            max_unread_bytes: 64 << 20,
            drain: Duration::from_secs(10),
        }
    }
}

/// Bound listener.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds a listener, if the access control allows the address.
pub async fn bind(address: SocketAddr, access: AccessControl) -> Result<Listener, BindError> {
    access.check(address)?;
    if !address.ip().to_canonical().is_loopback() && !access.token {
        tracing::warn!(%address, setting = access.setting, "gateway is reachable from the network without authentication");
    }
    let failed = |error| BindError::Io { setting: access.setting, address, error };
    let listener = listener(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Listener { listener, address })
}

impl Listener {
    /// Local address, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the stop is requested, then drains requests in flight up to a timeout.
    pub async fn serve(self, router: Router, limits: ConnectionLimits, stop: Shutdown) {
        let graceful = GracefulShutdown::new();
        let slots = ConnectionSlots::new(limits.connections, limits.per_peer);
        let response_budget = ResponseBudget::new(limits.max_unread_bytes);
        let (mut connections, mut health_connections) = (JoinSet::new(), HealthConnections::default());
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stop.requested() => break,
            };
            while connections.try_join_next().is_some() {}
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let slot = slots.acquire(peer.ip());
            let is_health_only = slot.is_none();
            let client = Client {
                router: router.clone(),
                peer,
                response_budget: response_budget.clone(),
                is_health_only,
            };
            let watched = graceful.watch(connection(stream, client, limits));
            let task = connections.spawn(async move {
                if let Err(error) = watched.await {
                    tracing::debug!(%error, "connection failed");
                }
                drop(slot);
            });
            if is_health_only {
                health_connections.push(task, limits.health_connections);
            }
        }
        drop(self.listener);
        let began = Instant::now();
        if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
            let open = connections.len();
            tracing::warn!(open, waited = ?began.elapsed(), "closing connections that did not drain in time");
        }
        connections.shutdown().await;
    }
}

/// Client of a connection.
#[derive(Debug, Clone)]
struct Client {
    router: Router,
    peer: SocketAddr,
    response_budget: ResponseBudget,
    /// Whether the connection has no slot, and so serves health checks only.
    is_health_only: bool,
}

impl Client {
    async fn respond(self, mut request: Request<Incoming>) -> Response {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        if self.is_health_only && !health::is_health(request.uri().path()) {
            let problem = "too many connections; close some, or retry later";
            return middleware::reject(Problem::overloaded(problem));
        }
        let response = match self.router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        self.response_budget.admit(response).unwrap_or_else(|| {
            let problem = "too many responses are waiting to be read by their clients; retry later";
            middleware::reject(Problem::overloaded(problem))
        })
    }
}

/// HTTP/1.1 connection of a client.
fn connection(
    stream: TcpStream,
    client: Client,
    limits: ConnectionLimits,
) -> impl GracefulConnection<Error = hyper::Error> + Send {
    // Responses are written in one piece, so Nagle's algorithm gains nothing.
    let _ = stream.set_nodelay(true);
    let header_timeout = if client.is_health_only {
        limits.header_timeout.min(HEALTH_HEADER_TIMEOUT)
    } else {
        limits.header_timeout
    };
    let client_is_sending = Arc::new(AtomicBool::new(false));
    let stream = WriteTimeoutStream::new(stream, limits.write_timeout, client_is_sending.clone());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (client, client_is_sending) = (client.clone(), client_is_sending.clone());
        async move {
            let (has_body, is_health_only) = (!request.body().is_end_stream(), client.is_health_only);
            let mut response = client.respond(request).await;
            // The body of a rejected request may be unread.
            let rejected = response.status().is_client_error() || response.status().is_server_error();
            client_is_sending.store(has_body && rejected, Ordering::Relaxed);
            if is_health_only {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(limits.max_header_bytes)
        .serve_connection(TokioIo::new(stream), service)
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows a restart on the same port.
    socket.set_reuseaddr(true)?;
    // Inherited by accepted connections.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
