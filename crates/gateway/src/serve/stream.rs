//! A connection whose other side must take what it is sent: one that takes nothing, or too little, is given up.

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

/// Who is slow must take so many bytes a second, or would hold a connection for ever a few bytes at a time.
const SLOWEST: u32 = 1 << 10;
/// How long, and for how many bytes, is listened to a client that is still sending when its answer is out.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 64 << 20);

/// A stream that fails when nothing of what is written is taken for a while.
#[derive(Debug)]
pub(super) struct Taken<S> {
    stream: S,
    within: Duration,
    /// Runs from when a write had to wait, until everything is out.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Whether the client may still be sending what nobody reads.
    still_sending: Arc<AtomicBool>,
    lingering: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> Taken<S> {
    /// Fails when nothing is taken within this time. If `still_sending` is set when the connection is closed, it stays half
    /// open for a moment: the answer would otherwise be lost together with what the client has sent in vain.
    pub(super) fn new(stream: S, within: Duration, still_sending: Arc<AtomicBool>) -> Self {
        Self { stream, within, deadline: None, still_sending, lingering: None }
    }

    /// Looks at how a write went.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match write {
            Poll::Pending => {
                let within = self.within;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(within)));
                match deadline.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("the client takes nothing, or too slowly, for {within:?}"),
                    ))),
                    Poll::Pending => Poll::Pending,
                }
            }
            Poll::Ready(Ok(bytes)) => {
                if let Some(deadline) = &mut self.deadline {
                    let earned = Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX) / SLOWEST;
                    let until = (deadline.deadline() + earned).min(Instant::now() + self.within);
                    deadline.as_mut().reset(until);
                }
                Poll::Ready(Ok(bytes))
            }
            failed => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Taken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Taken<S> {
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

    /// Answers are then not copied before they are written.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when all that there was is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.deadline = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            std::task::ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            if !this.still_sending.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let (time, most) = LINGER;
        let (end, left) = this.lingering.get_or_insert_with(|| (Box::pin(tokio::time::sleep(time)), most));
        let mut scratch = [0; 4096];
        loop {
            if end.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = std::task::ready!(Pin::new(&mut this.stream).poll_read(context, &mut buffer));
            let bytes = buffer.filled().len();
            // What it is still sending is of no use to anybody, and neither is why it stopped.
            if read.is_err() || bytes == 0 || bytes > *left {
                return Poll::Ready(Ok(()));
            }
            *left -= bytes;
        }
    }
}
