//! A proxy that stands between a client and a server, and can be told to fail.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What a proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Everything passes.
    Up,
    /// New connections are closed at once and open ones are cut.
    Down,
    /// Connections stay and nothing passes, as when a cable is pulled.
    Silent,
    /// The same, and what was open then stays silent for ever, as when a router forgets it. New ones pass once it is up.
    Stuck,
}

/// Stands between a client and a server, until its runtime ends.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
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
        let mode = Arc::new(AtomicU8::new(Mode::Up as u8));
        let now = mode.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !is(&now, Mode::Down) {
                    tokio::spawn(carry(client, server.clone(), now.clone()));
                }
            }
        });
        Self { address, mode }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it does from now on.
    pub fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }
}

fn is(now: &AtomicU8, mode: Mode) -> bool {
    now.load(Ordering::SeqCst) == mode as u8
}

async fn carry(client: TcpStream, server: String, mode: Arc<AtomicU8>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (client, server) = (client.into_split(), server.into_split());
    let forth = pass(client.0, server.1, mode.clone());
    let back = pass(server.0, client.1, mode);
    tokio::select! { () = forth => {}, () = back => {} }
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mode: Arc<AtomicU8>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        // Looks up now and then, since a mode changes while nothing flows.
        let read = tokio::time::timeout(Duration::from_millis(20), from.read(&mut buffer)).await;
        if is(&mode, Mode::Stuck) {
            std::future::pending::<()>().await;
        }
        while is(&mode, Mode::Silent) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        match read {
            _ if is(&mode, Mode::Down) => return,
            Err(_) => {}
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(many)) => {
                if to.write_all(&buffer[..many]).await.is_err() {
                    return;
                }
            }
        }
    }
}
