//! Opening connections: look up, guard, dial exactly the address that was checked, agree on TLS and HTTP.

use crate::{
    error::{Code, Trouble},
    guard::Guard,
    limits::Limits,
    meter::{Meter, Metered},
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

/// What is asked of a server never has a body.
pub(crate) type NoBody = Empty<Bytes>;

/// Whom a connection is with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    pub(crate) fn of(url: &url::Url) -> Result<Self, Trouble> {
        let invalid = |what: &str| Trouble::new(Code::UrlInvalid, what);
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

/// A connection that can take a request.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) protocol: Protocol,
    /// How much may be sent to us on it.
    pub(crate) meter: Arc<Meter>,
}

/// The version of HTTP that was agreed on.
#[derive(Debug)]
pub(crate) enum Protocol {
    Http1(http1::SendRequest<NoBody>),
    Http2(http2::SendRequest<NoBody>),
}

impl Sender {
    /// Whether a request could be sent right now.
    pub(crate) fn is_usable(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(sender) => sender.is_ready(),
            Protocol::Http2(sender) => sender.is_ready(),
        }
    }
}

/// A connection and how it came about.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) sender: Sender,
    pub(crate) address: SocketAddr,
    pub(crate) lookup: Duration,
    pub(crate) dial: Duration,
    pub(crate) tls: Duration,
}

/// Opens connections. This is the only code that dials.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) guard: Guard,
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

impl Connector {
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        url: &url::Url,
        limits: &Limits,
    ) -> Result<Connected, Trouble> {
        let opening = self.open(origin, url, limits);
        match timeout(limits.connect, opening).await {
            Ok(connected) => connected,
            Err(_) => Err(Trouble::new(
                Code::TimeoutConnect,
                format!("no connection to `{}` within {:?}", origin.host, limits.connect),
            )),
        }
    }

    async fn open(&self, origin: &Origin, url: &url::Url, limits: &Limits) -> Result<Connected, Trouble> {
        let started = Instant::now();
        let host = url.host().ok_or_else(|| Trouble::new(Code::UrlInvalid, "the URL has no host"))?;
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
                .map_err(|e| tls_trouble(&e))?;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            handshake(stream, http2, limits).await?
        } else {
            handshake(stream, false, limits).await?
        };
        let tls = started.elapsed() - lookup - dial;
        Ok(Connected { sender, address, lookup, dial, tls })
    }

    /// Dials the addresses that the guard allows, one after the other, until one answers.
    async fn dial(
        &self,
        addresses: &[IpAddr],
        origin: &Origin,
        limits: &Limits,
    ) -> Result<(TcpStream, SocketAddr), Trouble> {
        let mut trouble = None;
        let mut allowed = Vec::new();
        for ip in addresses {
            let address = SocketAddr::new(*ip, origin.port);
            match self.guard.check(address, &origin.host) {
                Ok(()) => allowed.push(address),
                Err(refused) => trouble = Some(refused),
            }
        }
        let attempts = allowed.len().clamp(1, 4) as u32;
        for address in allowed.into_iter().take(4) {
            // Each address gets its share of the time, so that a dead one does not use it up.
            match timeout(limits.connect / attempts, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => trouble = Some(dial_trouble(&error, address)),
                Err(_) => {
                    trouble = Some(Trouble::new(Code::TimeoutConnect, format!("{address} does not answer")));
                }
            }
        }
        Err(trouble
            .unwrap_or_else(|| Trouble::new(Code::DnsNotFound, format!("`{}` has no address", origin.host))))
    }
}

fn server_name(host: &url::Host<&str>) -> Result<ServerName<'static>, Trouble> {
    match host {
        url::Host::Domain(name) => {
            ServerName::try_from(name.trim_end_matches('.').to_owned()).map_err(|_| {
                Trouble::new(Code::TlsCertificate, format!("`{name}` cannot be a certificate's name"))
            })
        }
        url::Host::Ipv4(ip) => Ok(ServerName::from(IpAddr::V4(*ip))),
        url::Host::Ipv6(ip) => Ok(ServerName::from(IpAddr::V6(*ip))),
    }
}

async fn handshake<S>(stream: S, http2: bool, limits: &Limits) -> Result<Sender, Trouble>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // What is read ahead of us must fit in: the largest head, and a window of HTTP/2 with its frames.
    let ahead = if http2 { 2 << 20 } else { 64 << 10 };
    let meter = Arc::new(Meter::new(limits.header_bytes.saturating_mul(4).saturating_add(ahead)));
    let io = TokioIo::new(Metered::new(stream, meter.clone()));
    let protocol = |error: hyper::Error| Trouble::new(Code::HttpProtocol, error.to_string());
    if http2 {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            // What is somewhat too much is told as what it is, by the limits; what is far too much is cut off here.
            .max_header_list_size(u32::try_from(limits.header_bytes.saturating_mul(4)).unwrap_or(u32::MAX))
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(2 << 20)
            .max_concurrent_reset_streams(64)
            .handshake(io)
            .await
            .map_err(protocol)?;
        tokio::spawn(async move { drop(connection.await) });
        return Ok(Sender { protocol: Protocol::Http2(sender), meter });
    }
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(limits.header_bytes.max(8192))
        .max_headers(limits.header_count)
        .handshake(io)
        .await
        .map_err(protocol)?;
    // Ends when the server closes, or when the sender is dropped.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Sender { protocol: Protocol::Http1(sender), meter })
}

fn dial_trouble(error: &io::Error, address: SocketAddr) -> Trouble {
    let code = match error.kind() {
        io::ErrorKind::ConnectionRefused => Code::Refused,
        io::ErrorKind::TimedOut => Code::TimeoutConnect,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Code::Reset,
        _ => Code::Unreachable,
    };
    Trouble::new(code, format!("{address}: {error}"))
}

fn tls_trouble(error: &io::Error) -> Trouble {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let code = match inner {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Code::TlsCertificate
        }
        _ => Code::TlsHandshake,
    };
    Trouble::new(code, error.to_string())
}
