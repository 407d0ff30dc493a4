//! AMQP proxy that can change or drop single frames.

use crawlway_testkit::servers::RabbitMq;
use std::sync::Arc;
use tokio::{
    io::{self, AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// Size of the protocol header that a client sends before its first frame.
const PROTOCOL_HEADER: usize = 8;
/// Size of a frame's header: type, channel and length.
const HEADER: usize = 7;
/// Size of the byte that ends a frame.
const END: usize = 1;

/// Class and method of `channel.flow-ok`.
pub(crate) const FLOW_OK: (u16, u16) = (20, 21);
/// Class and method of `basic.ack`, which is also the server's confirm.
pub(crate) const ACK: (u16, u16) = (60, 80);

/// Hook that may change a frame, and returns whether it is forwarded.
pub(crate) type FrameHook = dyn Fn(&mut [u8]) -> bool + Send + Sync;

/// Hook that forwards every frame unchanged.
pub(crate) fn forward() -> Arc<FrameHook> {
    Arc::new(|_: &mut [u8]| true)
}

/// Class and method of a method frame.
pub(crate) fn method(frame: &[u8]) -> Option<(u16, u16)> {
    const METHOD: u8 = 1;
    match *frame {
        [METHOD, _, _, _, _, _, _, a, b, c, d, ..] => {
            Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
        }
        _ => None,
    }
}

/// Starts a proxy and returns its port. The hooks see frames from clients and from the server.
pub(crate) async fn start(
    server: &RabbitMq,
    from_clients: Arc<FrameHook>,
    from_server: Arc<FrameHook>,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let address = format!("{}:{}", server.host, server.port);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (address, from_clients, from_server) =
                (address.clone(), from_clients.clone(), from_server.clone());
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(address).await else { return };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = server.into_split();
                tokio::select! {
                    ended = copy(client_read, server_write, PROTOCOL_HEADER, &*from_clients) => drop(ended),
                    ended = copy(server_read, client_write, 0, &*from_server) => drop(ended),
                }
            });
        }
    });
    port
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    protocol_header: usize,
    hook: &FrameHook,
) -> io::Result<()> {
    let mut frame = vec![0; protocol_header];
    from.read_exact(&mut frame).await?;
    to.write_all(&frame).await?;
    loop {
        frame.resize(HEADER, 0);
        from.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([frame[3], frame[4], frame[5], frame[6]]) as usize;
        frame.resize(HEADER + length + END, 0);
        from.read_exact(&mut frame[HEADER..]).await?;
        if hook(&mut frame) {
            to.write_all(&frame).await?;
        }
    }
}
