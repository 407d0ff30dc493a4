//! Hostile bodies: endless, decompression bombs, wrong lengths and chunks, slow drips, wrong encodings.

use crate::{
    server::{Server, dripping_body, encoded, endless_body, endlessly, gzip, page, request as read_request},
    setup::{expect, fetch, limits},
};
use crawlway_fetch::FetchCode;
use std::io::Write;
use tokio::io::AsyncWriteExt;

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test]
async fn every_encoding_is_decoded() {
    let text = "polite ".repeat(1000).into_bytes();
    let brotli = {
        let mut out = Vec::new();
        brotli::BrotliCompress(&mut &text[..], &mut out, &brotli::enc::BrotliEncoderParams::default())
            .unwrap();
        out
    };
    let zstd = zstd::stream::encode_all(&text[..], 3).unwrap();
    for (encoding, body) in [
        ("gzip", gzip(&text)),
        ("x-gzip", gzip(&text)),
        ("deflate", zlib(&text)),
        ("deflate", deflate(&text)),
        ("br", brotli),
        ("zstd", zstd.clone()),
        ("gzip, zstd", zstd::stream::encode_all(&gzip(&text)[..], 3).unwrap()),
        ("identity", text.clone()),
        ("GZIP", gzip(&text)),
    ] {
        let server = encoded(encoding, &body).await;
        let fetched = fetch(&server.url("/")).await.unwrap_or_else(|error| panic!("{encoding}: {error}"));
        assert!(*fetched.body == *text, "{encoding}");
        assert_eq!(fetched.wire_bytes, body.len(), "{encoding}");
    }
}

#[tokio::test]
async fn wrong_and_unknown_encodings() {
    for (encoding, body) in [
        ("gzip", &b"not gzip at all"[..]),
        ("br", b"\xff\xff\xff\xff not brotli"),
        ("zstd", b"not zstd"),
        ("deflate", b"\xff\xff\xff"),
        ("compress", b"old"),
        ("gzip, gzip, gzip, gzip", b"four"),
    ] {
        let server = encoded(encoding, body).await;
        expect(fetch(&server.url("/")).await, FetchCode::BodyEncoding);
    }
    let cut = gzip(&b"a text that is cut off".repeat(100));
    expect(fetch(&encoded("gzip", &cut[..cut.len() / 2]).await.url("/")).await, FetchCode::BodyEncoding);
}

#[tokio::test]
async fn decompression_bombs_also_nested() {
    let zeros = vec![0; 16 << 20];
    let bomb = gzip(&zeros);
    assert!(bomb.len() < limits().body_bytes, "it is small on the wire");
    expect(fetch(&encoded("gzip", &bomb).await.url("/")).await, FetchCode::BodyBomb);
    expect(fetch(&encoded("gzip, gzip", &gzip(&bomb)).await.url("/")).await, FetchCode::BodyBomb);
    expect(
        fetch(&encoded("zstd", &zstd::stream::encode_all(&zeros[..], 3).unwrap()).await.url("/")).await,
        FetchCode::BodyBomb,
    );
    let mut brotli = Vec::new();
    brotli::BrotliCompress(&mut &zeros[..], &mut brotli, &brotli::enc::BrotliEncoderParams::default())
        .unwrap();
    expect(fetch(&encoded("br", &brotli).await.url("/")).await, FetchCode::BodyBomb);
}

#[tokio::test]
async fn endless_and_too_large_bodies() {
    expect(fetch(&endless_body().await.url("/")).await, FetchCode::BodyTooLarge);
    let chunked = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        endlessly(&mut stream, &format!("28\r\n{}\r\n", "hello".repeat(8)).repeat(1000).into_bytes()).await;
    })
    .await;
    expect(fetch(&chunked.url("/")).await, FetchCode::BodyTooLarge);
    let announced = Server::replying("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await;
    expect(fetch(&announced.url("/")).await, FetchCode::BodyTooLarge);
}

#[tokio::test]
async fn a_body_that_drips() {
    expect(fetch(&dripping_body().await.url("/")).await, FetchCode::TimeoutTotal);
}

#[tokio::test]
async fn wrong_lengths_and_chunks() {
    let short = Server::replying("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this").await;
    expect(fetch(&short.url("/")).await, FetchCode::HttpLength);
    let unfinished =
        Server::replying("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nonly this").await;
    expect(fetch(&unfinished.url("/")).await, FetchCode::HttpLength);
    for chunks in
        ["zz\r\nhello\r\n0\r\n\r\n", "5\r\nhello!!\r\n0\r\n\r\n", "ffffffffffffffffff\r\nx\r\n0\r\n\r\n"]
    {
        let server =
            Server::replying(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")).await;
        let error = fetch(&server.url("/")).await.expect_err("malformed chunks");
        assert_eq!(error.code, FetchCode::HttpProtocol, "{error}");
    }
    // Two different lengths allow response smuggling.
    let two =
        Server::replying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello").await;
    expect(fetch(&two.url("/")).await, FetchCode::HttpProtocol);
    // A body beyond its length is truncated, and the connection is not pooled.
    let long = Server::replying("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more").await;
    assert_eq!(&*fetch(&long.url("/")).await.expect("the part that was announced").body, b"hello");
}

#[tokio::test]
async fn wrong_charsets_do_not_break_the_page() {
    let html = "<title>Größe</title><p>naïve café</p>";
    let (latin1, _, _) = encoding_rs::WINDOWS_1252.encode(html);
    for (charset, bytes) in [
        ("utf-8", &*latin1),
        ("iso-8859-1", html.as_bytes()),
        ("klingon", html.as_bytes()),
        ("utf-16", html.as_bytes()),
    ] {
        let server = Server::replying(page(
            "200 OK",
            &format!("content-type: text/html; charset={charset}\r\n"),
            bytes,
        ))
        .await;
        let fetched = fetch(&server.url("/")).await.expect("any bytes are a body");
        let page = crawlway_content::parse_bytes(
            &fetched.body,
            fetched.content_type(),
            &fetched.url,
            &Default::default(),
        );
        assert_eq!(&*fetched.body, bytes, "{charset}: the body is not changed");
        match charset {
            // Unknown label: the charset is detected.
            "klingon" => assert_eq!((page.title.as_str(), page.text.contains("naïve café")), ("Größe", true)),
            // Wrong label: decoded with it.
            "utf-8" | "iso-8859-1" => assert!(page.text.contains("caf"), "{charset}: {}", page.text),
            _ => {}
        }
    }
}
