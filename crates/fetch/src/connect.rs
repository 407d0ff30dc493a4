//! Connections: DNS look-up, SSRF guard, TCP connect to the checked address, TLS and HTTP handshake.

use crate::{
    error::{FetchCode, HopError},
    flood::{FloodLimit, LimitedStream},
    guard::SsrfGuard,
    limits::Limits,
    resolve::{Resolve, addresses},
};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// Empty body of a request.
pub(crate) type NoBody = Empty<Bytes>;

/// Origin of a connection: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    pub(crate) fn of(url: &url::Url) -> Result<Self, HopError> {
        let invalid = |detail: &str| HopError::new(FetchCode::UrlInvalid, detail);
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(invalid("only http and https can be fetched")),
        };
        let host = url.host_str().ok_or_else(|| invalid("the URL has no host"))?;
        let port = url.port_or_known_default().ok_or_else(|| invalid("the URL has no port"))?;
        Ok(Self { tls, host: host.to_owned(), port })
    }
}

/// Sending half of an open connection.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) protocol: Protocol,
    /// Limit on bytes without content from the server.
    pub(crate) flood_limit: Arc<FloodLimit>,
}

/// Negotiated HTTP version.
#[derive(Debug)]
pub(crate) enum Protocol {
    Http1(http1::SendRequest<NoBody>),
    Http2(http2::SendRequest<NoBody>),
}

impl Sender {
    /// Whether a request can be sent now.
    pub(crate) fn is_usable(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(sender) => sender.is_ready(),
            Protocol::Http2(sender) => sender.is_ready(),
        }
    }
}

/// New connection with the duration of its phases.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) sender: Sender,
    pub(crate) address: SocketAddr,
    pub(crate) lookup: Duration,
    pub(crate) dial: Duration,
    pub(crate) tls: Duration,
}

/// Maximum number of addresses that are dialled for one connection.
const MAX_DIALS: usize = 4;

/// Opens connections. No other code dials, so that no request evades the SSRF guard.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) guard: SsrfGuard,
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

impl Connector {
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        url: &url::Url,
        limits: &Limits,
    ) -> Result<Connected, HopError> {
        let opening = self.open(origin, url, limits);
        match timeout(limits.connect, opening).await {
            Ok(connected) => connected,
            Err(_) => Err(HopError::new(
                FetchCode::TimeoutConnect,
                format!("no connection to `{}` within {:?}", origin.host, limits.connect),
            )),
        }
    }

    async fn open(&self, origin: &Origin, url: &url::Url, limits: &Limits) -> Result<Connected, HopError> {
        let started = Instant::now();
        let host = url.host().ok_or_else(|| HopError::new(FetchCode::UrlInvalid, "the URL has no host"))?;
        let addresses = addresses(&*self.resolver, &host).await?;
        let lookup = started.elapsed();
        let (stream, address) = self.dial(&addresses, origin, limits).await?;
        let dial = started.elapsed() - lookup;
        let _ = stream.set_nodelay(true);
        let sender = if origin.tls {
            let name = server_name(&host)?;
            let stream = TlsConnector::from(self.tls.clone())
                .connect(name, stream)
                .await
                .map_err(|e| tls_error(&e))?;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            handshake(stream, http2, limits).await?
        } else {
            handshake(stream, false, limits).await?
        };
        let tls = started.elapsed() - lookup - dial;
        Ok(Connected { sender, address, lookup, dial, tls })
    }

    /// Dials the addresses that the guard allows, one after the other, until one accepts.
    async fn dial(
        &self,
        addresses: &[IpAddr],
        origin: &Origin,
        limits: &Limits,
    ) -> Result<(TcpStream, SocketAddr), HopError> {
        let mut last_error = None;
        let mut allowed = Vec::new();
        for ip in addresses {
            let address = SocketAddr::new(*ip, origin.port);
            match self.guard.check(address, &origin.host) {
                Ok(()) => allowed.push(address),
                Err(refused) => last_error = Some(refused),
            }
        }
        allowed.truncate(MAX_DIALS);
        let attempts = allowed.len().max(1) as u32;
        for address in allowed {
            // Each address has its part of the timeout, so that a dead one does not use up all of it.
            match timeout(limits.connect / attempts, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => last_error = Some(dial_error(&error, address)),
                Err(_) => {
                    let detail = format!("{address} does not accept the connection");
                    last_error = Some(HopError::new(FetchCode::TimeoutConnect, detail));
                }
            }
        }
        Err(last_error.unwrap_or_else(|| {
            HopError::new(FetchCode::DnsNotFound, format!("`{}` has no address", origin.host))
        }))
    }
}

fn server_name(host: &url::Host<&str>) -> Result<ServerName<'static>, HopError> {
    match host {
        url::Host::Domain(name) => {
            ServerName::try_from(name.trim_end_matches('.').to_owned()).map_err(|_| {
                HopError::new(
                    FetchCode::TlsCertificate,
                    format!("`{name}` is no valid name in a certificate"),
                )
            })
        }
        url::Host::Ipv4(ip) => Ok(ServerName::from(IpAddr::V4(*ip))),
        url::Host::Ipv6(ip) => Ok(ServerName::from(IpAddr::V6(*ip))),
    }
}

async fn handshake<S>(stream: S, http2: bool, limits: &Limits) -> Result<Sender, HopError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // Room for what the connection reads ahead: the largest head, and an HTTP/2 window with its frames.
    let ahead = if http2 { 2 << 20 } else { 64 << 10 };
    let flood_limit = Arc::new(FloodLimit::new(limits.header_bytes.saturating_mul(4).saturating_add(ahead)));
    let io = TokioIo::new(LimitedStream::new(stream, flood_limit.clone()));
    let protocol = |error: hyper::Error| HopError::new(FetchCode::HttpProtocol, error.to_string());
    if http2 {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            // Headers slightly above the limit are read and rejected with their size; far larger ones are cut off here.
            .max_header_list_size(u32::try_from(limits.header_bytes.saturating_mul(4)).unwrap_or(u32::MAX))
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(2 << 20)
            .max_concurrent_reset_streams(64)
            .handshake(io)
            .await
            .map_err(protocol)?;
        tokio::spawn(async move { drop(connection.await) });
        return Ok(Sender { protocol: Protocol::Http2(sender), flood_limit });
    }
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(limits.header_bytes.max(8192))
        .max_headers(limits.max_headers)
        .handshake(io)
        .await
        .map_err(protocol)?;
    // The task ends when the server closes the connection or the sender is dropped.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Sender { protocol: Protocol::Http1(sender), flood_limit })
}

fn dial_error(error: &io::Error, address: SocketAddr) -> HopError {
    let code = match error.kind() {
        io::ErrorKind::ConnectionRefused => FetchCode::Refused,
        io::ErrorKind::TimedOut => FetchCode::TimeoutConnect,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => FetchCode::Reset,
        _ => FetchCode::Unreachable,
    };
    HopError::new(code, format!("{address}: {error}"))
}

fn tls_error(error: &io::Error) -> HopError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let code = match inner {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            FetchCode::TlsCertificate
        }
        _ => FetchCode::TlsHandshake,
    };
    HopError::new(code, error.to_string())
}
