//! TCP proxy with network faults between a client and a server.

use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Behaviour of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Forwards everything.
    Up,
    /// Forwards everything with this delay.
    Slow(Duration),
    /// Closes all connections, open and new ones.
    Down,
    /// Keeps connections and forwards nothing, as with a pulled cable. Data sent meanwhile arrives once it is up.
    Silent,
    /// Like `Silent`, but open connections never recover, as when a router loses its state. New ones work once it is up.
    Stuck,
}

/// How open connections are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Closed,
    Reset,
}

/// TCP proxy between a client and a server; runs until its runtime ends.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    endings: watch::Sender<(u64, Ending)>,
}

impl Proxy {
    /// Listens on a free port and forwards to this server, such as `127.0.0.1:5455`.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn in_front_of(server: String) -> Self {
        let listener =
            TcpListener::bind("127.0.0.1:0").await.unwrap_or_else(|error| panic!("a port: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("its address: {error}"));
        let mode = watch::Sender::new(Mode::Up);
        let endings = watch::Sender::new((0, Ending::Closed));
        let (now, ends) = (mode.clone(), endings.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *now.borrow() != Mode::Down {
                    tokio::spawn(forward(client, server.clone(), now.subscribe(), ends.subscribe()));
                }
            }
        });
        Self { address, mode, endings }
    }

    /// Listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the behaviour.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Closes all open connections, as at the end of the other process. New ones work.
    pub fn close_all(&self) {
        self.end(Ending::Closed);
    }

    /// Resets all open connections. New ones work.
    pub fn reset_all(&self) {
        self.end(Ending::Reset);
    }

    fn end(&self, how: Ending) {
        self.endings.send_modify(|(number, ending)| (*number, *ending) = (*number + 1, how));
    }
}

/// Forwards one connection until either side or the proxy ends it.
async fn forward(
    client: TcpStream,
    server: String,
    mut mode: watch::Receiver<Mode>,
    mut ends: watch::Receiver<(u64, Ending)>,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ended = {
        let forth = forward_one_way(&client, &server, mode.clone());
        let back = forward_one_way(&server, &client, mode.clone());
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

/// Forwards one direction.
async fn forward_one_way(from: &TcpStream, to: &TcpStream, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = tokio::select! {
            read = read(from, &mut buffer) => Some(read),
            stuck = mode.wait_for(|mode| *mode == Mode::Stuck) => {
                drop(stuck);
                None
            }
        };
        let Some(Ok(count @ 1..)) = read else {
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
            || write(to, &buffer[..count]).await.is_err()
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

    /// Proxy in front of an echo server.
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
        Proxy::in_front_of(address).await
    }

    async fn round_trip(stream: &mut TcpStream) -> io::Result<u8> {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    }

    /// Connection with one round trip done.
    async fn connected(proxy: &Proxy) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(round_trip(&mut stream).await.unwrap(), b'x');
        stream
    }

    const SHORT: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn data_sent_while_silent_arrives_later() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Silent);
        let silent = tokio::time::timeout(SHORT, round_trip(&mut stream)).await;
        assert!(silent.is_err(), "nothing is forwarded: {silent:?}");
        proxy.set(Mode::Up);
        assert_eq!(stream.read_u8().await.unwrap(), b'x', "the held byte");
    }

    #[tokio::test]
    async fn stuck_connections_never_recover_and_new_ones_work() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Stuck);
        let stuck = tokio::time::timeout(SHORT, round_trip(&mut stream)).await;
        assert!(stuck.is_err(), "nothing is forwarded: {stuck:?}");
        proxy.set(Mode::Up);
        connected(&proxy).await;
        let stuck = tokio::time::timeout(SHORT, stream.read_u8()).await;
        assert!(stuck.is_err(), "not even afterwards: {stuck:?}");
    }

    #[tokio::test]
    async fn a_slow_network_delays() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Slow(SHORT));
        let started = std::time::Instant::now();
        assert_eq!(round_trip(&mut stream).await.unwrap(), b'x');
        assert!(started.elapsed() >= 2 * SHORT, "there and back: {:?}", started.elapsed());
    }

    #[tokio::test]
    async fn connections_are_cut_reset_and_refused() {
        let proxy = echo().await;
        let mut stream = connected(&proxy).await;
        proxy.close_all();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "closed");

        let mut stream = connected(&proxy).await;
        proxy.reset_all();
        assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

        let mut stream = connected(&proxy).await;
        proxy.set(Mode::Down);
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "closed");
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(round_trip(&mut stream).await.is_err(), "refused");
    }
}
