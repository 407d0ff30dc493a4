//! A PostgreSQL server that goes away and comes back: calls fail soon while it is away and work again after.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{Frontier, StoreError};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use harness::{Ground, crawl, url};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io,
    net::{TcpListener, TcpStream},
};

const UP: u8 = 0;
/// New connections are closed at once and open ones are cut.
const DOWN: u8 = 1;
/// Connections stay and nothing passes, as when a cable is pulled.
const SILENT: u8 = 2;

/// Stands between the store and the server.
struct Proxy {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    async fn before(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let mode = Arc::new(AtomicU8::new(UP));
        let now = mode.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if now.load(Ordering::SeqCst) != DOWN {
                    tokio::spawn(carry(client, server.clone(), now.clone()));
                }
            }
        });
        Self { address, mode }
    }

    fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

async fn carry(client: TcpStream, server: String, mode: Arc<AtomicU8>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (client, server) = (client.into_split(), server.into_split());
    let forth = pass(client.0, server.1, mode.clone());
    let back = pass(server.0, client.1, mode);
    tokio::select! { () = forth => {}, () = back => {} }
}

async fn pass(
    mut from: impl io::AsyncRead + Unpin,
    mut to: impl io::AsyncWrite + Unpin,
    mode: Arc<AtomicU8>,
) {
    use io::{AsyncReadExt, AsyncWriteExt};
    let mut buffer = vec![0; 64 << 10];
    loop {
        // Looks up now and then, since a mode changes while nothing flows.
        let read = tokio::time::timeout(Duration::from_millis(20), from.read(&mut buffer)).await;
        while mode.load(Ordering::SeqCst) == SILENT {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        match read {
            _ if mode.load(Ordering::SeqCst) == DOWN => return,
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

async fn store_behind_a_proxy(ground: &Ground) -> (SqlStore, Proxy) {
    let Place::Postgres(address) = &ground.place else { panic!("this is about PostgreSQL") };
    let (before, after) = address.split_once("@").expect("postgres://user@host:port/database");
    let (server, rest) = after.split_once('/').expect("a database");
    let proxy = Proxy::before(server.to_owned()).await;
    let place = Place::Postgres(format!("{before}@{}/{rest}", proxy.address));
    let options = SqlOptions { place, answer_within: Duration::from_millis(500), ..ground.options() };
    (
        SqlStore::open(SqlOptions { open_within: Duration::from_secs(20), ..options })
            .await
            .expect("it opens"),
        proxy,
    )
}

async fn works_again(store: &SqlStore) {
    let begun = Instant::now();
    while store.next(1, 1).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is back and the store does not notice");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn survives(mode: u8) {
    let ground = Ground::postgres().await;
    let (store, proxy) = store_behind_a_proxy(&ground).await;
    let c = crawl(&store, "c", None).await;
    // Several connections are open, and all of them die.
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, c) = (store.clone(), c.clone());
            tokio::spawn(async move { store.add(&c, &[url("a", &n.to_string())]).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    for _ in 0..2 {
        proxy.set(mode);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let begun = Instant::now();
            let answer = store.next(1, 1).await;
            assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
            slowest = slowest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(slowest < Duration::from_secs(10), "one call took {slowest:?}");
        proxy.set(UP);
        works_again(&store).await;
    }
    store.add(&c, &[url("b", "new")]).await.unwrap();
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_is_noticed_and_found_again() {
    survives(DOWN).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_noticed_and_found_again() {
    survives(SILENT).await;
}
