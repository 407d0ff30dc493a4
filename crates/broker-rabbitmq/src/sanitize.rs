//! Sanitizing stream between socket and AMQP client: replaces invalid UTF-8 in short strings.
//!
//! Message ids, header names and routing keys are short strings. RabbitMQ forwards whatever bytes another program wrote; the
//! client fails on invalid UTF-8 and drops the connection, and would get the same message first on the next one. So each
//! invalid byte becomes `?`, and malformed properties are removed.

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use crawlway_tls::ClientTls;
use futures::{
    Stream,
    io::{AsyncRead, AsyncWrite},
};
use lapin::{Connection, ConnectionProperties, uri::AMQPUri};
use parking_lot::Mutex;
use std::{
    future::Future,
    io::{self, IoSlice, Read, Write},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::net::TcpStream;

/// Error of an attempt to connect.
#[derive(Debug)]
pub(crate) struct DialError {
    pub(crate) error: lapin::Error,
    /// Error of the TLS handshake. The client returns that of the last address of a host alone.
    pub(crate) handshake: Option<String>,
}

/// Connects like the client does, through a sanitizing stream, with TLS if a client for it is given.
pub(crate) async fn connect(
    uri: AMQPUri,
    properties: ConnectionProperties,
    tls: Option<ClientTls>,
) -> Result<Connection, DialError> {
    let host = uri.authority.host.clone();
    let handshake = Arc::new(Mutex::new(None));
    let tls = tls.map(|tls| Handshake { tls, host, error: handshake.clone() });
    let reactor = SanitizingReactor { tokio: Tokio::current(), tls };
    let runtime = Runtime::new(RuntimeParts::new(Tokio::current(), reactor));
    let connected = Connection::connect_uri_with_runtime(uri, properties, runtime).await;
    connected.map_err(|error| DialError { error, handshake: handshake.lock().take() })
}

/// Tokio reactor with sanitizing streams.
#[derive(Debug, Clone)]
struct SanitizingReactor {
    tokio: Tokio,
    tls: Option<Handshake>,
}

/// TLS handshakes of one attempt to connect.
#[derive(Debug, Clone)]
struct Handshake {
    tls: ClientTls,
    /// Name that the server's certificate must have.
    host: String,
    error: Arc<Mutex<Option<String>>>,
}

impl Reactor for SanitizingReactor {
    type TcpStream = SanitizingStream<Box<dyn crawlway_tls::Stream>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Self::TcpStream, _>(io::Error::other("only TCP connections are supported"))
    }

    fn sleep(&self, time: Duration) -> Self::Sleep {
        self.tokio.sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.tokio.interval(time)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let tls = self.tls.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn crawlway_tls::Stream> = match tls {
                Some(Handshake { tls, host, error }) => {
                    let connected = tls.connect(&host, stream).await;
                    Box::new(connected.inspect_err(|failed| *error.lock() = Some(failed.to_string()))?)
                }
                None => Box::new(stream),
            };
            Ok(SanitizingStream::new(stream))
        }
    }
}

const READ_BUFFER_BYTES: usize = 64 << 10;

/// Stream that sanitizes what is read. Writes pass unchanged. The client has the traits of `futures`, streams those of tokio.
struct SanitizingStream<S> {
    stream: S,
    read_buffer: Box<[u8]>,
    frames: FrameFilter,
}

impl<S> SanitizingStream<S> {
    fn new(stream: S) -> Self {
        Self { stream, read_buffer: vec![0; READ_BUFFER_BYTES].into(), frames: FrameFilter::default() }
    }
}

impl<S: tokio::io::AsyncRead + Unpin> SanitizingStream<S> {
    fn poll_stream(stream: &mut S, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = tokio::io::ReadBuf::new(buf);
        ready!(Pin::new(stream).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl<S: tokio::io::AsyncRead + Unpin> AsyncRead for SanitizingStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        loop {
            let read = this.frames.read(buf);
            if read > 0 || buf.is_empty() {
                return Poll::Ready(Ok(read));
            }
            // Bodies go straight to the caller's buffer.
            if this.frames.pass_through > 0 {
                let max = buf.len().min(this.frames.pass_through);
                let read = ready!(Self::poll_stream(&mut this.stream, cx, &mut buf[..max]))?;
                this.frames.pass_through -= read;
                return Poll::Ready(Ok(read));
            }
            match ready!(Self::poll_stream(&mut this.stream, cx, &mut this.read_buffer))? {
                0 if this.frames.is_empty() => return Poll::Ready(Ok(0)),
                0 => this.frames.finish(),
                read => this.frames.write(&this.read_buffer[..read]),
            }
        }
    }
}

impl<S: tokio::io::AsyncWrite + Unpin> AsyncWrite for SanitizingStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Size of a frame's header: type, channel and length.
const HEADER: usize = 7;
/// Size of the byte that ends a frame.
const END: usize = 1;
/// Maximum size of a frame that is inspected; above what servers and this client negotiate.
const MAX_FRAME: usize = 4 << 20;
const METHOD: u8 = 1;
const PROPERTIES: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// Splits a byte stream into frames and sanitizes method and property frames.
#[derive(Debug, Default)]
struct FrameFilter {
    /// Start of a frame that has to be inspected as a whole.
    incomplete: Vec<u8>,
    /// Sanitized bytes, of which the first `consumed` have been read.
    sanitized: Vec<u8>,
    consumed: usize,
    /// Number of bytes to come that need no inspection.
    pass_through: usize,
}

impl FrameFilter {
    /// Copies sanitized bytes into the buffer.
    fn read(&mut self, buf: &mut [u8]) -> usize {
        let rest = &self.sanitized[self.consumed..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.consumed += count;
        if self.consumed == self.sanitized.len() {
            self.sanitized.clear();
            self.consumed = 0;
        }
        count
    }

    fn is_empty(&self) -> bool {
        self.incomplete.is_empty() && self.sanitized.is_empty()
    }

    /// End of the stream: an incomplete frame passes unchanged.
    fn finish(&mut self) {
        self.sanitized.append(&mut self.incomplete);
    }

    /// Adds bytes from the server.
    fn write(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = if self.incomplete.is_empty() {
            bytes
        } else {
            self.incomplete.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.incomplete);
            &joined[..]
        };
        while let [kind, _, _, a, b, c, d, ..] = *rest {
            let length = HEADER + u32::from_be_bytes([a, b, c, d]) as usize + END;
            let inspected = matches!(kind, METHOD | PROPERTIES) && length <= MAX_FRAME;
            if inspected && rest.len() < length {
                break;
            }
            // An unknown frame type is no AMQP: everything after it passes unchanged.
            let length =
                if matches!(kind, METHOD | PROPERTIES | BODY | HEARTBEAT) { length } else { usize::MAX };
            let (frame, after) = rest.split_at(length.min(rest.len()));
            let start = self.sanitized.len();
            self.sanitized.extend_from_slice(frame);
            if inspected {
                sanitize(&mut self.sanitized, start);
            }
            self.pass_through = length - frame.len();
            rest = after;
        }
        self.incomplete = rest.to_vec();
    }
}

/// Sanitizes the last frame, which begins at `start`.
fn sanitize(bytes: &mut Vec<u8>, start: usize) {
    let kind = bytes[start];
    let end = bytes.len() - END;
    let mut parser = FrameParser { bytes: &mut bytes[start + HEADER..end], at: 0, changed: false };
    let parsed = if kind == METHOD { parser.method() } else { parser.properties() };
    let changed = parser.changed;
    if parsed.is_none() && kind == PROPERTIES {
        remove_properties(bytes, start);
    }
    if changed || parsed.is_none() {
        tracing::debug!(
            "message of another program with invalid UTF-8 or malformed properties was sanitized"
        );
    }
}

/// Size of class, weight and body length, before the properties.
const BEFORE_PROPERTIES: usize = 12;

/// Replaces the properties by none and keeps the body length.
fn remove_properties(bytes: &mut Vec<u8>, start: usize) {
    let Some(end) = bytes.pop() else { return };
    bytes.resize(start + HEADER + BEFORE_PROPERTIES, 0);
    bytes.extend([0, 0]);
    let length = u32::try_from(BEFORE_PROPERTIES + 2).unwrap_or(0);
    bytes[start + 3..start + HEADER].copy_from_slice(&length.to_be_bytes());
    bytes.push(end);
}

/// Parser of a frame's payload, which sanitizes in place. Its methods return none for a truncated or malformed payload.
struct FrameParser<'a> {
    bytes: &'a mut [u8],
    at: usize,
    changed: bool,
}

/// Maximum nesting of tables and arrays.
const MAX_DEPTH: usize = 100;

impl FrameParser<'_> {
    fn skip(&mut self, count: usize) -> Option<&mut [u8]> {
        let start = self.at;
        self.at = start.checked_add(count).filter(|end| *end <= self.bytes.len())?;
        Some(&mut self.bytes[start..self.at])
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.skip(N)?.first_chunk().copied()
    }

    fn length(&mut self) -> Option<usize> {
        self.number().map(|bytes| u32::from_be_bytes(bytes) as usize)
    }

    fn short_string(&mut self) -> Option<()> {
        let [length] = self.number()?;
        let mut text = self.skip(length.into())?;
        let mut changed = false;
        while let Err(error) = std::str::from_utf8(text) {
            let invalid = error.valid_up_to();
            text[invalid] = b'?';
            text = &mut text[invalid..];
            changed = true;
        }
        self.changed |= changed;
        Some(())
    }

    /// Sanitizes methods with short strings of other programs, or with texts that the server may truncate inside a character.
    fn method(&mut self) -> Option<()> {
        let class: [u8; 2] = self.number()?;
        let method: [u8; 2] = self.number()?;
        match (u16::from_be_bytes(class), u16::from_be_bytes(method)) {
            // basic.deliver: consumer tag, delivery tag and redelivered, exchange, routing key.
            (60, 60) => {
                self.short_string()?;
                self.skip(9)?;
                self.short_string()?;
                self.short_string()
            }
            // basic.get-ok: delivery tag and redelivered, exchange, routing key.
            (60, 71) => {
                self.skip(9)?;
                self.short_string()?;
                self.short_string()
            }
            // connection.close, channel.close: reply code and text.
            (10, 50) | (20, 40) => {
                self.skip(2)?;
                self.short_string()
            }
            _ => Some(()),
        }
    }

    fn properties(&mut self) -> Option<()> {
        self.skip(BEFORE_PROPERTIES)?;
        let flags = u16::from_be_bytes(self.number()?);
        let has = |property: u32| flags & (1 << (15 - property)) != 0;
        for property in 0..14 {
            if !has(property) {
                continue;
            }
            match property {
                2 => self.table(0)?,
                // Delivery mode, priority.
                3 | 4 => drop(self.skip(1)?),
                // Timestamp.
                9 => drop(self.skip(8)?),
                _ => self.short_string()?,
            }
        }
        // The last bit announces further flags, of unknown properties.
        (flags & 1 == 0 && self.at == self.bytes.len()).then_some(())
    }

    fn table(&mut self, depth: usize) -> Option<()> {
        let end = self.end_of_container(depth)?;
        while self.at < end {
            self.short_string()?;
            self.value(depth)?;
        }
        (self.at == end).then_some(())
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        let end = self.end_of_container(depth)?;
        while self.at < end {
            self.value(depth)?;
        }
        (self.at == end).then_some(())
    }

    fn end_of_container(&mut self, depth: usize) -> Option<usize> {
        let length = self.length()?;
        let end = self.at.checked_add(length)?;
        (depth < MAX_DEPTH && end <= self.bytes.len()).then_some(end)
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        let [kind] = self.number()?;
        match kind {
            b'V' => Some(()),
            b't' | b'b' | b'B' => self.skip(1).map(drop),
            b's' | b'U' | b'u' => self.skip(2).map(drop),
            b'I' | b'i' | b'f' => self.skip(4).map(drop),
            b'D' => self.skip(5).map(drop),
            b'L' | b'l' | b'd' | b'T' => self.skip(8).map(drop),
            b'S' | b'x' => {
                let length = self.length()?;
                self.skip(length).map(drop)
            }
            b'A' => self.array(depth + 1),
            b'F' => self.table(depth + 1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
