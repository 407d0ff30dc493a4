//! The way from the server to the client, on which names that the client could not read are made legible.
//!
//! Ids, names of headers and routing keys are short strings on the wire. RabbitMQ passes on whatever bytes another program
//! has put there; the client takes bytes that are not UTF-8 for a broken connection, and the message would come first on
//! each new one. So what is not UTF-8 becomes `?`, byte by byte, and properties that make no sense at all are left out.

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures::{
    Stream,
    io::{AsyncRead, AsyncWrite},
};
use lapin::{Connection, ConnectionProperties, uri::AMQPUri};
use std::{
    future::Future,
    io::{self, IoSlice, Read, Write},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

/// Connects as the client does by itself, with a legible stream.
pub(crate) async fn connect(uri: AMQPUri, properties: ConnectionProperties) -> lapin::Result<Connection> {
    let runtime = Runtime::new(RuntimeParts::new(Tokio::current(), Legibly(Tokio::current())));
    Connection::connect_uri_with_runtime(uri, properties, runtime).await
}

/// Tokio, with streams that are legible.
#[derive(Debug, Clone)]
struct Legibly(Tokio);

impl Reactor for Legibly {
    type TcpStream = Legible<<Tokio as Reactor>::TcpStream>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Self::TcpStream, _>(io::Error::other("only connections that are dialled here are legible"))
    }

    fn sleep(&self, time: Duration) -> Self::Sleep {
        self.0.sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(time)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async move { Ok(Legible::new(connecting.await?)) }
    }
}

/// How much is read at once.
const STEP: usize = 64 << 10;

/// A stream that is legible to who reads from it. What is written passes as it is.
#[derive(Debug)]
struct Legible<S> {
    stream: S,
    step: Box<[u8]>,
    frames: Frames,
}

impl<S> Legible<S> {
    fn new(stream: S) -> Self {
        Self { stream, step: vec![0; STEP].into(), frames: Frames::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Legible<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        loop {
            let given = this.frames.give(buf);
            if given > 0 || buf.is_empty() {
                return Poll::Ready(Ok(given));
            }
            // What is long and needs no look is read straight to where it is wanted.
            if this.frames.unseen > 0 {
                let most = buf.len().min(this.frames.unseen);
                let read = ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buf[..most]))?;
                this.frames.unseen -= read;
                return Poll::Ready(Ok(read));
            }
            match ready!(Pin::new(&mut this.stream).poll_read(cx, &mut this.step))? {
                0 if this.frames.is_done() => return Poll::Ready(Ok(0)),
                0 => this.frames.end(),
                read => this.frames.take(&this.step[..read]),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Legible<S> {
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
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

/// Kind, channel and length, before what a frame carries.
const HEAD: usize = 7;
/// The byte that ends a frame.
const END: usize = 1;
/// No frame with names in it is longer, as servers and this client agree on at most.
const LONGEST: usize = 4 << 20;
const METHOD: u8 = 1;
const PROPERTIES: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// Frames on their way.
#[derive(Debug, Default)]
struct Frames {
    /// Of a frame that has to be looked at whole, and whose end has not come.
    begun: Vec<u8>,
    /// To be given out, from the mark on.
    legible: Vec<u8>,
    given: usize,
    /// How much comes that needs no look.
    unseen: usize,
}

impl Frames {
    fn give(&mut self, buf: &mut [u8]) -> usize {
        let rest = &self.legible[self.given..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        if self.given == self.legible.len() {
            self.legible.clear();
            self.given = 0;
        }
        count
    }

    fn is_done(&self) -> bool {
        self.begun.is_empty() && self.legible.is_empty()
    }

    /// Nothing more comes: what has begun is given out as it is.
    fn end(&mut self) {
        self.legible.append(&mut self.begun);
    }

    fn take(&mut self, bytes: &[u8]) {
        let begun;
        let mut rest = if self.begun.is_empty() {
            bytes
        } else {
            self.begun.extend_from_slice(bytes);
            begun = std::mem::take(&mut self.begun);
            &begun[..]
        };
        while let [kind, _, _, a, b, c, d, ..] = *rest {
            let length = HEAD + u32::from_be_bytes([a, b, c, d]) as usize + END;
            let looked_at = matches!(kind, METHOD | PROPERTIES) && length <= LONGEST;
            if looked_at && rest.len() < length {
                break;
            }
            // What is no frame is not for us to understand, nor what follows it.
            let length =
                if matches!(kind, METHOD | PROPERTIES | BODY | HEARTBEAT) { length } else { usize::MAX };
            let (frame, after) = rest.split_at(length.min(rest.len()));
            let start = self.legible.len();
            self.legible.extend_from_slice(frame);
            if looked_at {
                mend(&mut self.legible, start);
            }
            self.unseen = length - frame.len();
            rest = after;
        }
        self.begun = rest.to_vec();
    }
}

/// Makes the names in the last frame legible, which begins here.
fn mend(bytes: &mut Vec<u8>, start: usize) {
    let kind = bytes[start];
    let end = bytes.len() - END;
    let mut walk = Walk { bytes: &mut bytes[start + HEAD..end], at: 0, changed: false };
    let legible = if kind == METHOD { walk.method() } else { walk.properties() };
    let changed = walk.changed;
    if legible.is_none() && kind == PROPERTIES {
        without_properties(bytes, start);
    }
    if changed || legible.is_none() {
        tracing::debug!("a message of another program has names that are not UTF-8, which are read with `?`");
    }
}

/// Class, weight and the length of the body: what is before the properties.
const BEFORE_PROPERTIES: usize = 12;

/// The same frame about a body of the same length, and nothing else.
fn without_properties(bytes: &mut Vec<u8>, start: usize) {
    let Some(ending) = bytes.pop() else { return };
    bytes.resize(start + HEAD + BEFORE_PROPERTIES, 0);
    bytes.extend([0, 0]);
    let length = u32::try_from(BEFORE_PROPERTIES + 2).unwrap_or(0);
    bytes[start + 3..start + HEAD].copy_from_slice(&length.to_be_bytes());
    bytes.push(ending);
}

/// Goes through what a frame carries. None where it ends before it should, or makes no sense.
struct Walk<'a> {
    bytes: &'a mut [u8],
    at: usize,
    changed: bool,
}

/// How deep tables and lists may be in one another before it is nonsense.
const DEEPEST: usize = 100;

impl Walk<'_> {
    fn pass(&mut self, count: usize) -> Option<&mut [u8]> {
        let start = self.at;
        self.at = start.checked_add(count).filter(|end| *end <= self.bytes.len())?;
        Some(&mut self.bytes[start..self.at])
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.pass(N)?.first_chunk().copied()
    }

    fn length(&mut self) -> Option<usize> {
        self.number().map(|bytes| u32::from_be_bytes(bytes) as usize)
    }

    fn name(&mut self) -> Option<()> {
        let [length] = self.number()?;
        let mut name = self.pass(length.into())?;
        let mut changed = false;
        while let Err(error) = std::str::from_utf8(name) {
            let bad = error.valid_up_to();
            name[bad] = b'?';
            name = &mut name[bad..];
            changed = true;
        }
        self.changed |= changed;
        Some(())
    }

    /// The methods that carry what others have named, or that the server may cut in the middle of a character.
    fn method(&mut self) -> Option<()> {
        let class: [u8; 2] = self.number()?;
        let method: [u8; 2] = self.number()?;
        match (u16::from_be_bytes(class), u16::from_be_bytes(method)) {
            // A delivery: consumer, tag and whether it comes again, exchange, routing key.
            (60, 60) => {
                self.name()?;
                self.pass(9)?;
                self.name()?;
                self.name()
            }
            // What was asked for: tag and whether it comes again, exchange, routing key.
            (60, 71) => {
                self.pass(9)?;
                self.name()?;
                self.name()
            }
            // A connection or a channel is closed: number and text.
            (10, 50) | (20, 40) => {
                self.pass(2)?;
                self.name()
            }
            _ => Some(()),
        }
    }

    fn properties(&mut self) -> Option<()> {
        self.pass(BEFORE_PROPERTIES)?;
        let flags = u16::from_be_bytes(self.number()?);
        let has = |property: u32| flags & (1 << (15 - property)) != 0;
        for property in 0..14 {
            if !has(property) {
                continue;
            }
            match property {
                2 => self.table(0)?,
                // How persistent, and how urgent.
                3 | 4 => drop(self.pass(1)?),
                // When.
                9 => drop(self.pass(8)?),
                _ => self.name()?,
            }
        }
        // More flags would follow, of properties that nobody knows.
        (flags & 1 == 0 && self.at == self.bytes.len()).then_some(())
    }

    fn table(&mut self, depth: usize) -> Option<()> {
        let end = self.end(depth)?;
        while self.at < end {
            self.name()?;
            self.value(depth)?;
        }
        (self.at == end).then_some(())
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        let end = self.end(depth)?;
        while self.at < end {
            self.value(depth)?;
        }
        (self.at == end).then_some(())
    }

    fn end(&mut self, depth: usize) -> Option<usize> {
        let length = self.length()?;
        let end = self.at.checked_add(length)?;
        (depth < DEEPEST && end <= self.bytes.len()).then_some(end)
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        let [kind] = self.number()?;
        match kind {
            b'V' => Some(()),
            b't' | b'b' | b'B' => self.pass(1).map(drop),
            b's' | b'U' | b'u' => self.pass(2).map(drop),
            b'I' | b'i' | b'f' => self.pass(4).map(drop),
            b'D' => self.pass(5).map(drop),
            b'L' | b'l' | b'd' | b'T' => self.pass(8).map(drop),
            b'S' | b'x' => {
                let length = self.length()?;
                self.pass(length).map(drop)
            }
            b'A' => self.list(depth + 1),
            b'F' => self.table(depth + 1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind, 0, 1][..], &length, payload, &[0xCE]].concat()
    }

    /// Properties of a body of three bytes: these flags, and what they announce.
    fn properties(flags: u16, rest: &[u8]) -> Vec<u8> {
        let before = [&[0, 60, 0, 0][..], &3_u64.to_be_bytes()].concat();
        frame(PROPERTIES, &[&before[..], &flags.to_be_bytes(), rest].concat())
    }

    const HEADERS: u16 = 1 << 13;
    const PRIORITY: u16 = 1 << 11;
    const MESSAGE_ID: u16 = 1 << 7;

    /// What is read of these bytes when they come in steps of this length, into a buffer of this length.
    fn read(bytes: &[u8], step: usize, buffer: usize) -> Vec<u8> {
        let mut frames = Frames::default();
        let mut buffer = vec![0; buffer];
        let mut all = Vec::new();
        let mut rest = bytes;
        let mut give = |frames: &mut Frames, all: &mut Vec<u8>| loop {
            match frames.give(&mut buffer) {
                0 => break,
                given => all.extend_from_slice(&buffer[..given]),
            }
        };
        while !rest.is_empty() {
            let (now, later) = rest.split_at(step.min(rest.len()));
            let (straight, now) = now.split_at(frames.unseen.min(now.len()));
            frames.unseen -= straight.len();
            all.extend_from_slice(straight);
            frames.take(now);
            give(&mut frames, &mut all);
            rest = later;
        }
        frames.end();
        give(&mut frames, &mut all);
        assert!(frames.is_done());
        all
    }

    #[test]
    fn what_is_not_utf8_becomes_question_marks_however_it_comes() {
        let table = |name: &[u8]| {
            let inner = [&[u8::try_from(name.len()).unwrap()][..], name, b"S\0\0\0\x02\xFF\xFE"].concat();
            let entry = [&b"\x01tF"[..], &u32::try_from(inner.len()).unwrap().to_be_bytes(), &inner].concat();
            [&u32::try_from(entry.len()).unwrap().to_be_bytes()[..], &entry].concat()
        };
        let message = |name: &[u8], id: &[u8]| {
            let id = [&[u8::try_from(id.len()).unwrap()][..], id].concat();
            properties(HEADERS | PRIORITY | MESSAGE_ID, &[&table(name)[..], &[9], &id].concat())
        };
        let delivery = |key: &[u8]| {
            let rest =
                [&b"\0\x3C\0\x3C\x01c12345678\0\0"[..], &[u8::try_from(key.len()).unwrap()], key].concat();
            frame(METHOD, &rest)
        };
        let body = frame(BODY, b"\xFF\xFF\xFF");
        let came = [delivery(b"caf\xE9"), message(b"gr\xFC\xDFe", b"\xE6\x97"), body.clone()].concat();
        let legible = [delivery(b"caf?"), message(b"gr??e", b"??"), body].concat();
        for step in 1..came.len() + 1 {
            assert_eq!(read(&came, step, 5), legible, "in steps of {step}");
        }
        assert_eq!(read(&legible, 7, 64), legible, "and what is legible stays as it is");
    }

    #[test]
    fn properties_that_make_no_sense_are_left_out() {
        let unknown_kind = properties(HEADERS, b"\0\0\0\x03\x01aZ");
        let too_short = properties(MESSAGE_ID, b"\x09abc");
        let too_long = properties(MESSAGE_ID, b"\x01abc");
        for frame in [unknown_kind, too_short, too_long] {
            assert_eq!(read(&frame, 100, 100), properties(0, b""), "{frame:?}");
        }
    }

    #[test]
    fn what_is_no_frame_passes() {
        let refusal = b"AMQP\0\0\x09\x01 and \xFF whatever";
        assert_eq!(read(refusal, 3, 4), refusal);
        assert_eq!(read(&frame(METHOD, b"half")[..9], 3, 4), &frame(METHOD, b"half")[..9]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_bodies_pass(
            frames in prop::collection::vec((prop::sample::select(vec![METHOD, PROPERTIES, BODY]), prop::collection::vec(any::<u8>(), 0..80)), 0..20),
            step in 1..200_usize,
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|(kind, payload)| frame(*kind, payload)).collect();
            let whole = read(&bytes, bytes.len().max(1), 1000);
            prop_assert_eq!(&read(&bytes, step, 1000), &whole);
            let bodies = |bytes: &[u8]| -> Vec<Vec<u8>> {
                let mut rest = bytes;
                let mut bodies = Vec::new();
                while let [kind, _, _, a, b, c, d, ..] = *rest {
                    let length = HEAD + u32::from_be_bytes([a, b, c, d]) as usize + END;
                    let (frame, after) = rest.split_at(length);
                    if kind == BODY {
                        bodies.push(frame.to_vec());
                    }
                    rest = after;
                }
                bodies
            };
            prop_assert_eq!(bodies(&whole), bodies(&bytes));
        }
    }
}
