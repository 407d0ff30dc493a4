//! TLS: valid, expired, self-signed and foreign certificates, and servers that do not speak TLS.

use crate::{
    server::{Server, endlessly, page, request as read_request, silent},
    setup::{expect, request, setup, within},
};
use crawlway_fetch::{FetchCode, FetchError, FetchResponse, Fetcher};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

/// Certificate authority for tests.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a certificate") }
    }

    fn pem(&self) -> Vec<u8> {
        self.issuer.pem().into_bytes()
    }

    /// Server with a certificate for this name, valid until this year.
    pub(crate) fn sign(&self, name: &str, until: i32, alpn: &[&[u8]]) -> Arc<ServerConfig> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        config(certificate.der().clone(), &key, alpn)
    }
}

fn config(certificate: CertificateDer<'static>, key: &KeyPair, alpn: &[&[u8]]) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .expect("a key that fits");
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// Server over TLS, with HTTP/1.1 or HTTP/2 by ALPN.
async fn serve(config: Arc<ServerConfig>) -> Server {
    let acceptor = TlsAcceptor::from(config);
    Server::start(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                let service =
                    hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                        let body =
                            http_body_util::Full::new(bytes::Bytes::from(request.uri().path().to_owned()));
                        let mut response = http::Response::new(body);
                        if let Some(flood) = request.uri().path().strip_prefix("/flood/") {
                            for number in 0..flood.parse().unwrap_or(0) {
                                let name = http::HeaderName::try_from(format!("x-{number}")).expect("a name");
                                response
                                    .headers_mut()
                                    .insert(name, http::HeaderValue::from_static("value of a flood"));
                            }
                        }
                        Ok::<_, Infallible>(response)
                    });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
                return;
            }
            while let Some(path) = read_request(&mut stream).await {
                let _ = stream.write_all(&page("200 OK", "", path.as_bytes())).await;
                let _ = stream.flush().await;
            }
        }
    })
    .await
}

pub(crate) fn trusting(authority: &Authority) -> Fetcher {
    let mut setup = setup();
    setup.extra_roots = vec![authority.pem()];
    Fetcher::new(setup).expect("a fetcher")
}

async fn get(
    fetcher: &Fetcher,
    host: &str,
    server: &Server,
    path: &str,
) -> Result<FetchResponse, FetchError> {
    within(fetcher, &request(&format!("https://{host}:{}{path}", server.address.port()))).await
}

#[tokio::test]
async fn a_valid_certificate_over_both_versions_of_http() {
    let authority = Authority::new("ours");
    let fetcher = trusting(&authority);
    for (alpn, version) in [
        (&[&b"h2"[..], b"http/1.1"][..], http::Version::HTTP_2),
        (&[&b"http/1.1"[..]][..], http::Version::HTTP_11),
        (&[], http::Version::HTTP_11),
    ] {
        let server = serve(authority.sign("good.test", 4000, alpn)).await;
        for path in ["/one?two=three", "/again"] {
            let fetched = get(&fetcher, "good.test", &server, path).await.expect("a page");
            assert_eq!(fetched.version, version);
            assert!(path.as_bytes().starts_with(&fetched.body) && fetched.body.len() > 3);
        }
        assert_eq!(server.connections.load(std::sync::atomic::Ordering::SeqCst), 1, "{version:?}: kept");
    }
    let server = serve(authority.sign("127.0.0.1", 4000, &[])).await;
    assert_eq!(&*get(&fetcher, "127.0.0.1", &server, "/ip").await.expect("a page").body, b"/ip");
}

#[tokio::test]
async fn invalid_certificates() {
    let authority = Authority::new("ours");
    let fetcher = trusting(&authority);
    let stranger = Authority::new("theirs");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["bad.test".to_owned()]).expect("parameters");
    let own = params.self_signed(&key).expect("a certificate");
    for (what, config, says) in [
        ("expired", authority.sign("bad.test", 2001, &[]), "xpired"),
        ("of another host", authority.sign("other.test", 4000, &[]), "other.test"),
        ("of an unknown authority", stranger.sign("bad.test", 4000, &[]), "UnknownIssuer"),
        ("self-signed", config(own.der().clone(), &key, &[]), ""),
    ] {
        let server = serve(config).await;
        let error = expect(get(&fetcher, "bad.test", &server, "/").await, FetchCode::TlsCertificate);
        assert!(error.detail.contains(says), "{what}: {error}");
        assert!(!error.code.is_transient());
    }
}

#[tokio::test]
async fn servers_without_tls() {
    let authority = Authority::new("ours");
    let fetcher = trusting(&authority);
    let plain = Server::start(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    })
    .await;
    expect(get(&fetcher, "plain.test", &plain, "/").await, FetchCode::TlsHandshake);
    let garbage =
        Server::start(|mut stream| async move { endlessly(&mut stream, &[0x42; 4096]).await }).await;
    expect(get(&fetcher, "garbage.test", &garbage, "/").await, FetchCode::TlsHandshake);
    let closing = Server::start(|mut stream| async move {
        let mut hello = [0; 64];
        let _ = stream.read(&mut hello).await;
    })
    .await;
    expect(get(&fetcher, "closing.test", &closing, "/").await, FetchCode::TlsHandshake);
    // The reverse: a TLS server and a plain HTTP client.
    let tls = serve(authority.sign("good.test", 4000, &[])).await;
    let result = within(&fetcher, &request(&tls.url("/"))).await;
    let error = result.expect_err("a TLS server has no plain answer");
    assert!(matches!(error.code, FetchCode::HttpProtocol | FetchCode::Reset), "{error}");
}

#[tokio::test]
async fn a_handshake_that_hangs() {
    let authority = Authority::new("ours");
    let silent = silent().await;
    let mut request = request(&format!("https://good.test:{}/", silent.address.port()));
    request.limits.connect = Duration::from_millis(300);
    expect(within(&trusting(&authority), &request).await, FetchCode::TimeoutConnect);
}

#[tokio::test]
async fn a_flood_of_headers_over_http2() {
    let authority = Authority::new("ours");
    let server = serve(authority.sign("good.test", 4000, &[b"h2"])).await;
    let fetcher = trusting(&authority);
    expect(get(&fetcher, "good.test", &server, "/flood/1000").await, FetchCode::HeadersTooLarge);
    expect(get(&fetcher, "good.test", &server, "/flood/20000").await, FetchCode::HeadersTooLarge);
    assert_eq!(&*get(&fetcher, "good.test", &server, "/flood/10").await.expect("a page").body, b"/flood/10");
    // Between the two, HTTP/2 itself rejects them with another error.
    expect(get(&fetcher, "good.test", &server, "/flood/5000").await, FetchCode::HttpProtocol);
}

#[test]
fn an_invalid_root_certificate_is_rejected() {
    for pem in [&b""[..], b"nonsense", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let mut setup = setup();
        setup.extra_roots = vec![pem.to_vec()];
        let error = Fetcher::new(setup).expect_err("no root").to_string();
        assert!(error.contains("expected PEM"), "{error}");
    }
}
