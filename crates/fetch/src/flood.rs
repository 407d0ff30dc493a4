//! Flood protection: bounds on what a server sends without content. Endless informational responses, pings and empty frames cost
//! the client CPU time and the server next to nothing.

use crate::error::{FetchCode, HopError};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes on the wire allowed for each byte of content.
const BYTES_PER_CONTENT_BYTE: usize = 4;
/// Frames of a body allowed whatever their size: up to 64 KiB may arrive byte by byte.
const FREE_FRAMES: usize = 64 << 10;
/// Minimum average size of the frames beyond that. A frame costs about as much CPU time as a kilobyte of content.
const MIN_FRAME_BYTES: usize = 32;

/// Limit on the bytes that a server sends on one connection without content.
#[derive(Debug)]
pub(crate) struct FloodLimit {
    allowance: usize,
    left: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl FloodLimit {
    /// Limit that allows this many bytes before the head of a response, and again before the first byte of its body.
    pub(crate) fn new(allowance: usize) -> Self {
        Self { allowance, left: AtomicUsize::new(allowance), is_exceeded: AtomicBool::new(false) }
    }

    /// Restores the allowance, for a new request or after the head of a response.
    pub(crate) fn reset(&self) {
        self.left.store(self.allowance, Ordering::Relaxed);
    }

    /// Raises the allowance for received content.
    pub(crate) fn add_content(&self, bytes: usize) {
        let add = |left: usize| Some(left.saturating_add(bytes.saturating_mul(BYTES_PER_CONTENT_BYTE)));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Error of a connection that exceeded the limit.
    pub(crate) fn error(&self) -> Option<HopError> {
        let is_exceeded = self.is_exceeded.load(Ordering::Relaxed);
        is_exceeded.then(|| HopError::new(FetchCode::HttpFlood, "the response has next to no content"))
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        let take = |left: usize| left.checked_sub(bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(());
        }
        self.is_exceeded.store(true, Ordering::Relaxed);
        Err(io::Error::other("too many bytes without content"))
    }
}

/// Counter of the frames of one body.
#[derive(Debug, Default)]
pub(crate) struct FrameCounter {
    count: usize,
    bytes: usize,
}

impl FrameCounter {
    /// Counts a frame; fails if there are too many for their content.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), HopError> {
        self.count += 1;
        self.bytes += bytes;
        if self.count <= FREE_FRAMES + self.bytes / MIN_FRAME_BYTES {
            return Ok(());
        }
        let detail = format!("the first {} bytes of the body came in {} frames", self.bytes, self.count);
        Err(HopError::new(FetchCode::HttpFlood, detail))
    }
}

/// Stream that counts the bytes read against a [`FloodLimit`].
#[derive(Debug)]
pub(crate) struct LimitedStream<S> {
    stream: S,
    limit: Arc<FloodLimit>,
}

impl<S> LimitedStream<S> {
    pub(crate) fn new(stream: S, limit: Arc<FloodLimit>) -> Self {
        Self { stream, limit }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.limit.count(buffer.filled().len().saturating_sub(before)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
