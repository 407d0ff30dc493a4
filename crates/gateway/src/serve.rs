//! Listening: who may be let near it, how much of a connection is put up with, and how it ends.

use axum::{Router, extract::ConnectInfo};
use crawlway_flow::Stop;
use hyper::{server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

/// How long to wait when no connection can be taken, as when files have run out.
const BREATHER: Duration = Duration::from_millis(100);

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
    /// How many there may be at a time; more wait to be taken.
    pub connections: usize,
    /// How long the head of a request may take, and a connection rest between two.
    pub head_within: Duration,
    /// The largest head of a request, in bytes.
    pub max_head: usize,
    /// How long what is in flight may take once the end is asked for.
    pub drain: Duration,
}

impl Default for Limits {
    /// 512 connections, heads of up to 32 KiB within 15 s, 10 s at the end.
    fn default() -> Self {
        Self {
            connections: 512,
            head_within: Duration::from_secs(15),
            max_head: 32 << 10,
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
    let listener = TcpListener::bind(address).await.map_err(failed)?;
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
        let places = Arc::new(Semaphore::new(limits.connections));
        let mut connections = JoinSet::new();
        loop {
            let place = tokio::select! {
                place = places.clone().acquire_owned() => place,
                _ = stop.requested() => break,
            };
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
            // Answers are written whole, so that nothing is gained by waiting for more.
            let _ = stream.set_nodelay(true);
            let answers = TowerToHyperService::new(router.clone());
            let service =
                hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
                    request.extensions_mut().insert(ConnectInfo(peer));
                    answers.call(request)
                });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_within)
                .max_buf_size(limits.max_head)
                .serve_connection(TokioIo::new(stream), service);
            let watched = graceful.watch(connection);
            connections.spawn(async move {
                if let Err(error) = watched.await {
                    tracing::debug!(%error, "a connection broke");
                }
                drop(place);
            });
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
