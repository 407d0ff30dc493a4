//! How much a server may send in relation to what it says: informational answers, pings and empty frames without end would keep us
//! busy with nothing, at next to no cost for the server.

use crate::error::{Code, Trouble};
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

/// For each byte of content so many bytes may be sent.
const PER_BYTE: usize = 4;
/// A body may come in so many pieces, whatever their size: 64 KiB of them byte by byte are a site that is slow, or simple.
const FREE_PIECES: usize = 64 << 10;
/// Beyond that the pieces have so many bytes on average. Each costs about as much as a kilobyte in one piece.
const PIECE_BYTES: usize = 32;

/// How much a server may still send on one connection.
#[derive(Debug)]
pub(crate) struct Meter {
    allowance: usize,
    left: AtomicUsize,
    is_over: AtomicBool,
}

impl Meter {
    /// A meter that lets this much pass before the head of an answer, and again before the first byte of its body.
    pub(crate) fn new(allowance: usize) -> Self {
        Self { allowance, left: AtomicUsize::new(allowance), is_over: AtomicBool::new(false) }
    }

    /// Something was asked or said that sets the allowance back.
    pub(crate) fn reset(&self) {
        self.left.store(self.allowance, Ordering::Relaxed);
    }

    /// A piece of the body came.
    pub(crate) fn content(&self, bytes: usize) {
        let add = |left: usize| Some(left.saturating_add(bytes.saturating_mul(PER_BYTE)));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// What is wrong with a connection on which more was sent than may be.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let over = self.is_over.load(Ordering::Relaxed);
        over.then(|| Trouble::new(Code::HttpFlood, "what it sends has next to no content"))
    }

    fn sent(&self, bytes: usize) -> io::Result<()> {
        let take = |left: usize| left.checked_sub(bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(());
        }
        self.is_over.store(true, Ordering::Relaxed);
        Err(io::Error::other("more was sent than the answer warrants"))
    }
}

/// The pieces of one body.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    count: usize,
    bytes: usize,
}

impl Pieces {
    /// One more, unless there are far more than their content warrants.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Trouble> {
        self.count += 1;
        self.bytes += bytes;
        if self.count <= FREE_PIECES + self.bytes / PIECE_BYTES {
            return Ok(());
        }
        let detail = format!("its first {} bytes came in {} pieces", self.bytes, self.count);
        Err(Trouble::new(Code::HttpFlood, detail))
    }
}

/// A connection whose bytes are counted as they are read.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.meter.sent(buffer.filled().len().saturating_sub(before)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
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
