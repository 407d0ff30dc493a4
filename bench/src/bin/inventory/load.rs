//! The load: one thread, some kept connections, and requests that are due at fixed moments.
//!
//! With a rate, a request is due whether those before it were answered or not, and its time counts from that moment: a server that
//! stalls is charged for all who would have come meanwhile. Without one, each connection asks again as soon as it is answered.

use crate::{
    answer::{self, Answer},
    outcome::Outcome,
    request::Request,
};
use anyhow::{Context, bail};
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    fd::OwnedFd,
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime},
};
use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// A request that is not answered by then counts as timed out.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for such requests.
const LOOK: Duration = Duration::from_millis(200);
/// The mark of the clock among the connections.
const CLOCK: u64 = u64::MAX;

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// So many in a second, come what may.
    Rate(f64),
    /// As fast as they are answered.
    Closed,
}

/// Sends requests for so long, and waits for the last answers.
pub(crate) fn drive(
    address: SocketAddr,
    connections: usize,
    request: &mut Request,
    pace: Pace,
    time: Duration,
) -> anyhow::Result<Outcome> {
    let mut load = Load::new(address, connections)?;
    load.run(request, pace, time)?;
    Ok(load.outcome)
}

/// Sends one request, and waits for its answer: the status and the body.
pub(crate) fn one(address: SocketAddr, bytes: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let (mut received, mut chunk) = (Vec::new(), [0; 16 << 10]);
    loop {
        if let Some(Answer { status, body, .. }) = answer::whole(&received)? {
            return Ok((status, received[body.0..body.1].to_vec()));
        }
        match stream.read(&mut chunk)? {
            0 => bail!("the connection was closed before an answer was whole"),
            read => received.extend_from_slice(&chunk[..read]),
        }
    }
}

struct Load {
    address: SocketAddr,
    poll: OwnedFd,
    clock: OwnedFd,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    outcome: Outcome,
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// When its request was due, if it has one.
    due: Option<Instant>,
}

impl Load {
    fn new(address: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let clock =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // Told once each time it goes off, so that it need not be read.
        let once = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, &clock, epoll::EventData::new_u64(CLOCK), once)?;
        let outcome = Outcome::default();
        let mut load = Self { address, poll, clock, connections: Vec::new(), idle: VecDeque::new(), outcome };
        for place in 0..connections {
            let connection = load.connect(place)?;
            load.connections.push(connection);
            load.idle.push_back(place);
        }
        Ok(load)
    }

    fn connect(&self, place: usize) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).context("connecting to what is measured")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(&self.poll, &stream, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
        Ok(Connection { stream, received: Vec::with_capacity(16 << 10), due: None })
    }

    fn run(&mut self, request: &mut Request, pace: Pace, time: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let (mut sent, mut looked) = (0u64, began);
        let mut events = Vec::with_capacity(self.connections.len() + 1);
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        loop {
            let now = Instant::now();
            let over = now - began >= time;
            let mut next = None;
            while !over && let Some(place) = self.idle.pop_front() {
                let due = match pace {
                    Pace::Rate(rate) => began + Duration::from_secs_f64(sent as f64 / rate),
                    Pace::Closed => Instant::now(),
                };
                if due > now && pace != Pace::Closed {
                    self.idle.push_front(place);
                    next = Some(due);
                    break;
                }
                self.send(place, request.next(), due)?;
                sent += 1;
            }
            if over && self.idle.len() == self.connections.len() {
                break;
            }
            if let Some(due) = next {
                self.wake_at(due)?;
            }
            events.clear();
            epoll::wait(&self.poll, spare_capacity(&mut events), Some(&look))?;
            for event in &events {
                let place = event.data.u64();
                if place != CLOCK {
                    self.receive(place as usize)?;
                }
            }
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                self.give_up_late()?;
            }
        }
        self.outcome.sent = sent;
        self.outcome.wall = began.elapsed();
        Ok(())
    }

    fn wake_at(&self, due: Instant) -> anyhow::Result<()> {
        // Nothing at all would switch the clock off.
        let rest = due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: i64::from(rest.subsec_nanos()) };
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: interval, it_value: value };
        timerfd_settime(&self.clock, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    fn send(&mut self, place: usize, bytes: &[u8], due: Instant) -> anyhow::Result<()> {
        let connection = &mut self.connections[place];
        connection.due = Some(due);
        // One that was idle has room for a request of some hundred bytes.
        match connection.stream.write(bytes) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(written) => bail!("only {written} bytes of a request could be sent"),
            Err(error) => self.broke(place, &error),
        }
    }

    fn receive(&mut self, place: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[place];
        let mut chunk = [0; 16 << 10];
        match connection.stream.read(&mut chunk) {
            Ok(0) => return self.broke(place, &ErrorKind::UnexpectedEof.into()),
            Ok(read) => connection.received.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return self.broke(place, &error),
        }
        let Some(answer) = answer::whole(&connection.received)? else { return Ok(()) };
        let Some(due) = connection.due.take() else { bail!("an answer that nobody asked for") };
        let Answer { body, .. } = answer;
        self.outcome.add(answer, &connection.received[body.0..body.1], due.elapsed());
        connection.received.clear();
        self.idle.push_back(place);
        Ok(())
    }

    /// Counts a request that got no answer, and opens its connection again.
    fn broke(&mut self, place: usize, error: &std::io::Error) -> anyhow::Result<()> {
        if self.outcome.broken == 0 {
            eprintln!("a connection broke: {error}");
        }
        self.outcome.broken += 1;
        self.connections[place] = self.connect(place)?;
        if !self.idle.contains(&place) {
            self.idle.push_back(place);
        }
        Ok(())
    }

    fn give_up_late(&mut self) -> anyhow::Result<()> {
        for place in 0..self.connections.len() {
            if self.connections[place].due.is_some_and(|due| due.elapsed() > PATIENCE) {
                self.outcome.timed_out += 1;
                self.connections[place] = self.connect(place)?;
                self.idle.push_back(place);
            }
        }
        Ok(())
    }
}
