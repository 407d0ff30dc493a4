//! Reverse proxy with TLS, in front of a server without it.

use crate::certificates::Certificates;
use std::{net::SocketAddr, path::Path, sync::Arc};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};

/// Reverse proxy with TLS; runs until its runtime ends.
#[derive(Debug)]
pub struct TlsProxy(SocketAddr);

impl TlsProxy {
    /// Listens on a free port with this certificate, such as `server`, and forwards to a server such as `127.0.0.1:8081`. With
    /// `asks` it accepts only clients with a certificate of the CA.
    ///
    /// # Panics
    /// If there is no free port, or a file does not fit.
    pub async fn in_front_of(server: String, certificates: &Certificates, name: &str, asks: bool) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config(certificates, name, asks)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, server) = (acceptor.clone(), server.clone());
                tokio::spawn(async move {
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let Ok(mut server) = TcpStream::connect(server).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self(address)
    }

    /// Port on loopback.
    pub fn port(&self) -> u16 {
        self.0.port()
    }
}

fn config(certificates: &Certificates, name: &str, asks: bool) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let read = |path: &Path| CertificateDer::from_pem_file(path).expect("a certificate");
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().expect("versions of TLS");
    let builder = if asks {
        let mut roots = RootCertStore::empty();
        roots.add(read(&certificates.path("ca.pem"))).expect("a CA");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.expect("a verifier"))
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(certificates.path(&format!("{name}.key"))).expect("a key");
    let chain = vec![read(&certificates.path(&format!("{name}.pem")))];
    builder.with_single_cert(chain, key).expect("a key that fits")
}
