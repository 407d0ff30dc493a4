//! Listening: who may be let near it, how much of a connection is put up with, and how it ends.

mod places;
mod stream;
mod unread;

pub(crate) use places::network;
pub(crate) use unread::KeptAnyway;

use crate::{health, problem::Problem, requests};
use axum::{Router, extract::ConnectInfo, response::Response};
use crawlway_flow::Stop;
use http::{HeaderValue, Request, header};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
};
use places::{Places, Spares};
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
use stream::Taken;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
};
use tower::ServiceExt;
use unread::Unread;

/// How long to wait when no connection can be taken, as when files have run out.
const BREATHER: Duration = Duration::from_millis(100);
/// How many connections wait in the system until they are taken.
const BACKLOG: u32 = 1024;
/// How much of an answer the system keeps for a client that does not read, in bytes; it takes about twice that. With more of it
/// a client that reads slowly would look for a long time like one that does not read at all.
const SEND_BUFFER: u32 = 64 << 10;
/// How long a connection for which there is no place has for its request.
const SPARE_HEAD_WITHIN: Duration = Duration::from_secs(2);

/// What keeps strangers out of a gateway that others than this machine can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The setting that says where to listen, for errors to name.
    pub setting: &'static str,
    /// Whether a token is asked for.
    pub token: bool,
    /// Whether everybody may use it all the same.
    pub open_to_all: bool,
}

impl Access {
    /// Refuses an address where everybody could use it, unless that is meant.
    pub fn check(self, address: SocketAddr) -> Result<(), BindError> {
        if address.ip().to_canonical().is_loopback() || self.token || self.open_to_all {
            return Ok(());
        }
        Err(BindError::Unprotected { setting: self.setting, address })
    }
}

/// Why it cannot be listened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Everybody could use it.
    #[error(
        "`{setting}` is {address}, where others than this machine can reach it, and no token is asked for; set \
         `gateway.token`, or listen on 127.0.0.1 (`gateway.serve_the_whole_network_unprotected = true` lets \
         everybody in who can reach it)"
    )]
    Unprotected {
        /// Which setting says so.
        setting: &'static str,
        /// Where.
        address: SocketAddr,
    },
    /// The system said no.
    #[error("cannot listen on {address}: {error}; choose another address with `{setting}`")]
    Io {
        /// Which setting says where.
        setting: &'static str,
        /// Where.
        address: SocketAddr,
        /// What it said.
        error: io::Error,
    },
}

/// How much of connections is put up with.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many there may be at a time.
    pub connections: usize,
    /// How many of them there may be from one address, or from one network of 64 bits of IPv6.
    pub per_peer: usize,
    /// How many there may be beside those, for health alone. Whoever asks for something else is answered 503 there, and the
    /// newest takes the place of the oldest.
    pub spare: usize,
    /// How long the head of a request may take, and a connection rest between two.
    pub head_within: Duration,
    /// The largest head of a request, in bytes.
    pub max_head: usize,
    /// How long a client may take nothing of its answer.
    pub taken_within: Duration,
    /// How much memory all answers may take that are not read yet, in bytes; one of them may exceed it.
    pub unread: u64,
    /// How long what is in flight may take once the end is asked for.
    pub drain: Duration,
}

impl Default for Limits {
    /// 512 connections, 256 from one address, 128 for health, heads of up to 32 KiB within 15 s, answers that are taken within 10
    /// s, 64 MiB of them, 10 s at the end.
    fn default() -> Self {
        Self {
            connections: 512,
            per_peer: 256,
            spare: 128,
            head_within: Duration::from_secs(15),
            max_head: 32 << 10,
            taken_within: Duration::from_secs(10),
            unread: 64 << 20,
            drain: Duration::from_secs(10),
        }
    }
}

/// An address that is listened on.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

/// Listens there, unless that would let in everybody and nobody has said that this is meant.
pub async fn bind(address: SocketAddr, access: Access) -> Result<Listening, BindError> {
    access.check(address)?;
    if !address.ip().to_canonical().is_loopback() && !access.token {
        tracing::warn!(%address, setting = access.setting, "no token is asked for, and others than this machine can reach it");
    }
    let failed = |error| BindError::Io { setting: access.setting, address, error };
    let listener = listener(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Listening { listener, address })
}

impl Listening {
    /// The address, with the port that was found if any would do.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the stop is requested and what is in flight is done, or has taken too long.
    pub async fn serve(self, router: Router, limits: Limits, stop: Stop) {
        let graceful = GracefulShutdown::new();
        let places = Places::new(limits.connections, limits.per_peer);
        let unread = Unread::new(limits.unread);
        let (mut connections, mut spares) = (JoinSet::new(), Spares::default());
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stop.requested() => break,
            };
            while connections.try_join_next().is_some() {}
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(BREATHER).await;
                    continue;
                }
            };
            let place = places.take(peer.ip());
            let is_spare = place.is_none();
            let client = Client { router: router.clone(), peer, unread: unread.clone(), is_spare };
            let watched = graceful.watch(connection(stream, client, limits));
            let task = connections.spawn(async move {
                if let Err(error) = watched.await {
                    tracing::debug!(%error, "a connection broke");
                }
                drop(place);
            });
            if is_spare {
                spares.push(task, limits.spare);
            }
        }
        drop(self.listener);
        let began = Instant::now();
        if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
            let open = connections.len();
            tracing::warn!(open, waited = ?began.elapsed(), "connections were cut that took too long");
        }
        connections.shutdown().await;
    }
}

/// What is known of who is at the other end of a connection.
#[derive(Debug, Clone)]
struct Client {
    router: Router,
    peer: SocketAddr,
    unread: Unread,
    /// There was no place left for this connection.
    is_spare: bool,
}

impl Client {
    async fn answer(self, mut request: Request<Incoming>) -> Response {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        let for_health = health::is_health(request.uri().path());
        if self.is_spare && !for_health {
            let problem = "there are too many connections; close some, or ask again later";
            return requests::problem_outside(Problem::overloaded(problem));
        }
        let answer = match self.router.oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        self.unread.admit(answer).unwrap_or_else(|| {
            let problem =
                "clients have not read as much of their answers as is kept for them; ask again later";
            requests::problem_outside(Problem::overloaded(problem))
        })
    }
}

/// Serves one connection.
fn connection(
    stream: TcpStream,
    client: Client,
    limits: Limits,
) -> impl GracefulConnection<Error = hyper::Error> + Send {
    // Answers are written whole, so that nothing is gained by waiting for more.
    let _ = stream.set_nodelay(true);
    let head_within =
        if client.is_spare { limits.head_within.min(SPARE_HEAD_WITHIN) } else { limits.head_within };
    let still_sending = Arc::new(AtomicBool::new(false));
    let stream = Taken::new(stream, limits.taken_within, still_sending.clone());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (client, still_sending) = (client.clone(), still_sending.clone());
        async move {
            let (has_body, is_spare) = (!request.body().is_end_stream(), client.is_spare);
            let mut answer = client.answer(request).await;
            // Who is refused may not have been listened to.
            let refused = answer.status().is_client_error() || answer.status().is_server_error();
            still_sending.store(has_body && refused, Ordering::Relaxed);
            if is_spare {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_within)
        .max_buf_size(limits.max_head)
        .serve_connection(TokioIo::new(stream), service)
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Or the port could not be used for a while after a restart.
    socket.set_reuseaddr(true)?;
    // Connections have it from here.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
