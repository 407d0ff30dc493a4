//! A proxy that knows where AMQP's frames begin and end, and changes or swallows some of them.

use crawlway_testkit::servers::RabbitMq;
use std::sync::Arc;
use tokio::{
    io::{self, AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// What a client sends before its first frame.
const GREETING: usize = 8;
/// Kind, channel and length, before what a frame carries.
const HEAD: usize = 7;
/// The byte that ends it.
const END: usize = 1;

/// Class and method of a channel's answer to `channel.flow`.
pub(crate) const FLOW_OK: (u16, u16) = (20, 21);
/// And of `basic.ack`, with which the server confirms.
pub(crate) const ACK: (u16, u16) = (60, 80);

/// Sees each frame on its way, may change it, and says whether it passes.
pub(crate) type Meddle = dyn Fn(&mut [u8]) -> bool + Send + Sync;

/// Which method a frame is about, if it is about one.
pub(crate) fn method(frame: &[u8]) -> Option<(u16, u16)> {
    const METHOD: u8 = 1;
    match *frame {
        [METHOD, _, _, _, _, _, _, a, b, c, d, ..] => {
            Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
        }
        _ => None,
    }
}

/// Listens on a free port, which is returned, until the runtime ends. The two see what comes from clients and from the server.
pub(crate) async fn before(server: &RabbitMq, forth: Arc<Meddle>, back: Arc<Meddle>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let address = format!("{}:{}", server.host, server.port);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (address, forth, back) = (address.clone(), forth.clone(), back.clone());
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(address).await else { return };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::select! {
                    ended = pass(from_client, to_server, GREETING, &*forth) => drop(ended),
                    ended = pass(from_server, to_client, 0, &*back) => drop(ended),
                }
            });
        }
    });
    port
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    greeting: usize,
    meddle: &Meddle,
) -> io::Result<()> {
    let mut frame = vec![0; greeting];
    from.read_exact(&mut frame).await?;
    to.write_all(&frame).await?;
    loop {
        frame.resize(HEAD, 0);
        from.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([frame[3], frame[4], frame[5], frame[6]]) as usize;
        frame.resize(HEAD + length + END, 0);
        from.read_exact(&mut frame[HEAD..]).await?;
        if meddle(&mut frame) {
            to.write_all(&frame).await?;
        }
    }
}
