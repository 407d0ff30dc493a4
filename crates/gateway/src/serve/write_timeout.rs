//! Write timeout of a connection, for clients that do not read or read too slowly.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// Minimum rate of a slow client, which could otherwise hold a connection forever.
const MIN_BYTES_PER_SECOND: u32 = 1 << 10;
/// Maximum time of a lingering close.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes discarded during a lingering close.
const MAX_LINGER_BYTES: usize = 64 << 20;

/// Stream whose writes time out.
#[derive(Debug)]
pub(super) struct WriteTimeoutStream<S> {
    stream: S,
    timeout: Duration,
    /// Deadline of pending writes, from the first write that blocks to the next flush.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the client may still send a body that is not read.
    client_is_sending: Arc<AtomicBool>,
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> WriteTimeoutStream<S> {
    /// Stream with this write timeout. With `client_is_sending` the close lingers: a reset because of unread data would discard
    /// the response.
    pub(super) fn new(stream: S, timeout: Duration, client_is_sending: Arc<AtomicBool>) -> Self {
        Self { stream, timeout, deadline: None, client_is_sending, linger: None }
    }

    /// Applies the timeout to the result of a write.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match write {
            Poll::Pending => {
                let timeout = self.timeout;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                match deadline.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("the client reads nothing, or too slowly, for {timeout:?}"),
                    ))),
                    Poll::Pending => Poll::Pending,
                }
            }
            Poll::Ready(Ok(bytes)) => {
                if let Some(deadline) = &mut self.deadline {
                    let earned = Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX)
                        / MIN_BYTES_PER_SECOND;
                    let until = (deadline.deadline() + earned).min(Instant::now() + self.timeout);
                    deadline.as_mut().reset(until);
                }
                Poll::Ready(Ok(bytes))
            }
            failed => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.written(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.written(context, write)
    }

    /// Vectored writes avoid a copy of the response.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Ends the deadline: hyper flushes after everything is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.deadline = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            std::task::ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            if !this.client_is_sending.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let (end, left) = this
            .linger
            .get_or_insert_with(|| (Box::pin(tokio::time::sleep(LINGER_TIMEOUT)), MAX_LINGER_BYTES));
        let mut scratch = [0; 4096];
        loop {
            if end.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = std::task::ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            let bytes = buffer.filled().len();
            if read.is_err() || bytes == 0 || bytes > *left {
                return Poll::Ready(Ok(()));
            }
            *left -= bytes;
        }
    }
}
