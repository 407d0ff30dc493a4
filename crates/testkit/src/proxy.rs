//! A proxy that stands between a client and a server, and can be told to fail.

use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// What a proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Up,
    /// Everything passes, this much later.
    Slow(Duration),
    /// New connections are closed at once and open ones are cut.
    Down,
    /// Connections stay and nothing passes, as when a cable is pulled. What was sent meanwhile comes once it is up.
    Silent,
    /// The same, and what was open then stays silent for ever, as when a router forgets it. New ones pass once it is up.
    Stuck,
}

/// How the connections that there are come to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Closed,
    Reset,
}

/// Stands between a client and a server, until its runtime ends.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    endings: watch::Sender<(u64, Ending)>,
}

impl Proxy {
    /// Listens on a free port and passes on to the server at this address, such as `127.0.0.1:5455`.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn before(server: String) -> Self {
        let listener =
            TcpListener::bind("127.0.0.1:0").await.unwrap_or_else(|error| panic!("a port: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("its address: {error}"));
        let mode = watch::Sender::new(Mode::Up);
        let endings = watch::Sender::new((0, Ending::Closed));
        let (now, ends) = (mode.clone(), endings.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *now.borrow() != Mode::Down {
                    tokio::spawn(carry(client, server.clone(), now.subscribe(), ends.subscribe()));
                }
            }
        });
        Self { address, mode, endings }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it does from now on.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Closes all connections that there are, as when the process at the other end is gone. New ones pass.
    pub fn cut(&self) {
        self.end(Ending::Closed);
    }

    /// Resets all connections that there are: both ends get an error. New ones pass.
    pub fn reset(&self) {
        self.end(Ending::Reset);
    }

    fn end(&self, how: Ending) {
        self.endings.send_modify(|(number, ending)| (*number, *ending) = (*number + 1, how));
    }
}

/// Carries one connection until it ends by itself or is ended.
async fn carry(
    client: TcpStream,
    server: String,
    mut mode: watch::Receiver<Mode>,
    mut ends: watch::Receiver<(u64, Ending)>,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ended = {
        let forth = pass(&client, &server, mode.clone());
        let back = pass(&server, &client, mode.clone());
        let down = async { drop(mode.wait_for(|mode| *mode == Mode::Down).await) };
        tokio::select! {
            () = forth => Ending::Closed,
            () = back => Ending::Closed,
            () = down => Ending::Closed,
            _ = ends.changed() => ends.borrow().1,
        }
    };
    if ended == Ending::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Carries one direction until it ends.
async fn pass(from: &TcpStream, to: &TcpStream, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = tokio::select! {
            read = read(from, &mut buffer) => Some(read),
            stuck = mode.wait_for(|mode| *mode == Mode::Stuck) => {
                drop(stuck);
                None
            }
        };
        let Some(Ok(many @ 1..)) = read else {
            match read {
                Some(_) => return,
                None => return std::future::pending().await,
            }
        };
        let now = *mode.borrow();
        if let Mode::Slow(delay) = now {
            tokio::time::sleep(delay).await;
        }
        if mode.wait_for(|mode| *mode != Mode::Silent).await.is_err()
            || write(to, &buffer[..many]).await.is_err()
        {
            return;
        }
    }
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A proxy before a server that sends back what it gets.
    async fn echo() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    let _ = tokio::io::copy(&mut read, &mut write).await;
                });
            }
        });
        Proxy::before(address).await
    }

    async fn round_trip(stream: &mut TcpStream) -> io::Result<u8> {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    }

    /// A connection through which something has passed, so that it is whole.
    async fn connected(proxy: &Proxy) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(round_trip(&mut stream).await.unwrap(), b'x');
        stream
    }

    const NOT_LONG: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn what_was_sent_into_silence_comes_afterwards() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Silent);
        let held = tokio::time::timeout(NOT_LONG, round_trip(&mut stream)).await;
        assert!(held.is_err(), "nothing passes: {held:?}");
        proxy.set(Mode::Up);
        assert_eq!(stream.read_u8().await.unwrap(), b'x', "what was held comes");
    }

    #[tokio::test]
    async fn what_was_stuck_stays_so_and_new_connections_pass() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Stuck);
        let stuck = tokio::time::timeout(NOT_LONG, round_trip(&mut stream)).await;
        assert!(stuck.is_err(), "nothing passes: {stuck:?}");
        proxy.set(Mode::Up);
        connected(&proxy).await;
        let stuck = tokio::time::timeout(NOT_LONG, stream.read_u8()).await;
        assert!(stuck.is_err(), "not even afterwards: {stuck:?}");
    }

    #[tokio::test]
    async fn a_slow_network_comes_late() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Slow(NOT_LONG));
        let started = std::time::Instant::now();
        assert_eq!(round_trip(&mut stream).await.unwrap(), b'x');
        assert!(started.elapsed() >= 2 * NOT_LONG, "there and back: {:?}", started.elapsed());
    }

    #[tokio::test]
    async fn connections_are_cut_reset_and_refused() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.cut();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "closed in good order");

        let mut stream = connected(&proxy).await;
        proxy.reset();
        assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Down);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "cut");
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(round_trip(&mut stream).await.is_err(), "nobody is there");
    }
}
