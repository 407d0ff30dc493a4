//! TLS configuration: the Mozilla root certificates and those of the settings.

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::sync::Arc;

/// Root certificate that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read root certificate: {0}; expected PEM with at least one CA certificate")]
pub struct RootError(String);

/// Checks additional root certificates in PEM.
pub fn check_roots(extra_roots: &[Vec<u8>]) -> Result<(), RootError> {
    add_roots(&mut RootCertStore::empty(), extra_roots)
}

fn add_roots(roots: &mut RootCertStore, extra_roots: &[Vec<u8>]) -> Result<(), RootError> {
    for pem in extra_roots {
        let mut any = false;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| RootError(error.to_string()))?;
            roots.add(certificate).map_err(|error| RootError(error.to_string()))?;
            any = true;
        }
        if !any {
            return Err(RootError("no certificate found".into()));
        }
    }
    Ok(())
}

pub(crate) fn config(extra_roots: &[Vec<u8>]) -> Result<ClientConfig, RootError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    add_roots(&mut roots, extra_roots)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| RootError(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
