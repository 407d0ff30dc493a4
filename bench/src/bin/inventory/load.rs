//! Load generator: one thread, persistent connections, and requests on a schedule.
//!
//! With a rate (open loop), the latency of a request counts from its scheduled time, so that a stall of the server counts for all
//! requests in that time (no coordinated omission). Without a rate (closed loop), each connection sends its next request after a
//! response.

use crate::{
    request::Request,
    response::{self, Response},
    results::Results,
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

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checks for timed-out requests.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Epoll data of the timer.
const TIMER: u64 = u64::MAX;

/// Schedule of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Schedule {
    /// Open loop: requests per second.
    Rate(f64),
    /// Closed loop.
    Closed,
}

/// Sends requests for this time, and waits for the last responses.
pub(crate) fn run(
    address: SocketAddr,
    connections: usize,
    request: &mut Request,
    schedule: Schedule,
    time: Duration,
) -> anyhow::Result<Results> {
    let mut load = Load::new(address, connections)?;
    load.run(request, schedule, time)?;
    Ok(load.results)
}

/// Sends one request, and returns the status and body of the response.
pub(crate) fn send(address: SocketAddr, bytes: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(bytes)?;
    let (mut received, mut chunk) = (Vec::new(), [0; 16 << 10]);
    loop {
        if let Some(Response { status, body, .. }) = response::parse(&received)? {
            return Ok((status, received[body.0..body.1].to_vec()));
        }
        match stream.read(&mut chunk)? {
            0 => bail!("the connection was closed before the response was complete"),
            read => received.extend_from_slice(&chunk[..read]),
        }
    }
}

struct Load {
    address: SocketAddr,
    poll: OwnedFd,
    timer: OwnedFd,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    results: Results,
}

struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// Scheduled time of its request, if it has one.
    due: Option<Instant>,
}

impl Load {
    fn new(address: SocketAddr, connections: usize) -> anyhow::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // Edge-triggered, so that the timer need not be read.
        let once = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, &timer, epoll::EventData::new_u64(TIMER), once)?;
        let results = Results::default();
        let mut load = Self { address, poll, timer, connections: Vec::new(), idle: VecDeque::new(), results };
        for index in 0..connections {
            let connection = load.connect(index)?;
            load.connections.push(connection);
            load.idle.push_back(index);
        }
        Ok(load)
    }

    fn connect(&self, index: usize) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).context("connecting to the server")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(&self.poll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        Ok(Connection { stream, received: Vec::with_capacity(16 << 10), due: None })
    }

    fn run(&mut self, request: &mut Request, schedule: Schedule, time: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let (mut sent, mut checked) = (0u64, began);
        let mut events = Vec::with_capacity(self.connections.len() + 1);
        let interval = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.as_nanos() as i64 };
        loop {
            let now = Instant::now();
            let over = now - began >= time;
            let mut next = None;
            while !over && let Some(index) = self.idle.pop_front() {
                let due = match schedule {
                    Schedule::Rate(rate) => began + Duration::from_secs_f64(sent as f64 / rate),
                    Schedule::Closed => Instant::now(),
                };
                if due > now && schedule != Schedule::Closed {
                    self.idle.push_front(index);
                    next = Some(due);
                    break;
                }
                self.send(index, request.next(), due)?;
                sent += 1;
            }
            if over && self.idle.len() == self.connections.len() {
                break;
            }
            if let Some(due) = next {
                self.wake_at(due)?;
            }
            events.clear();
            epoll::wait(&self.poll, spare_capacity(&mut events), Some(&interval))?;
            for event in &events {
                let index = event.data.u64();
                if index != TIMER {
                    self.receive(index as usize)?;
                }
            }
            if checked.elapsed() > POLL_INTERVAL {
                checked = Instant::now();
                self.time_out()?;
            }
        }
        self.results.sent = sent;
        self.results.wall = began.elapsed();
        Ok(())
    }

    fn wake_at(&self, due: Instant) -> anyhow::Result<()> {
        // 0 would disarm the timer.
        let rest = due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: i64::from(rest.subsec_nanos()) };
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: interval, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    fn send(&mut self, index: usize, bytes: &[u8], due: Instant) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        connection.due = Some(due);
        // The send buffer of an idle connection has room for a small request.
        match connection.stream.write(bytes) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(written) => bail!("only {written} bytes of a request were sent"),
            Err(error) => self.fail(index, &error),
        }
    }

    fn receive(&mut self, index: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let mut chunk = [0; 16 << 10];
        match connection.stream.read(&mut chunk) {
            Ok(0) => return self.fail(index, &ErrorKind::UnexpectedEof.into()),
            Ok(read) => connection.received.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return self.fail(index, &error),
        }
        let Some(response) = response::parse(&connection.received)? else { return Ok(()) };
        let Some(due) = connection.due.take() else { bail!("a response without a request") };
        let Response { body, .. } = response;
        self.results.add(response, &connection.received[body.0..body.1], due.elapsed());
        connection.received.clear();
        self.idle.push_back(index);
        Ok(())
    }

    /// Counts a failed request, and reconnects.
    fn fail(&mut self, index: usize, error: &std::io::Error) -> anyhow::Result<()> {
        if self.results.failed == 0 {
            eprintln!("a connection failed: {error}");
        }
        self.results.failed += 1;
        self.connections[index] = self.connect(index)?;
        if !self.idle.contains(&index) {
            self.idle.push_back(index);
        }
        Ok(())
    }

    fn time_out(&mut self) -> anyhow::Result<()> {
        for index in 0..self.connections.len() {
            if self.connections[index].due.is_some_and(|due| due.elapsed() > TIMEOUT) {
                self.results.timed_out += 1;
                self.connections[index] = self.connect(index)?;
                self.idle.push_back(index);
            }
        }
        Ok(())
    }
}
