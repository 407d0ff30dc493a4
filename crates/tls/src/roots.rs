//! Root certificates: Mozilla's list, which is compiled in, and PEM files.

use rustls::{
    ClientConfig, ConfigBuilder, Error, RootCertStore,
    client::WantsClientCert,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::sync::Arc;

/// Root certificate that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read root certificate: {0}; expected PEM with at least one CA certificate")]
pub struct RootError(String);

/// Mozilla's root certificates.
pub(crate) fn public_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

/// Adds the CA certificates of a PEM file.
pub(crate) fn add_roots(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), RootError> {
    let mut any = false;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| RootError(error.to_string()))?;
        roots.add(certificate).map_err(|error| RootError(error.to_string()))?;
        any = true;
    }
    if any { Ok(()) } else { Err(RootError("no certificate found".into())) }
}

/// Configuration with Mozilla's root certificates and those of PEM files.
///
/// # Errors
/// If a file has no CA certificate, or one that cannot be read.
pub fn config_with_roots(extra_roots: &[Vec<u8>]) -> Result<ClientConfig, RootError> {
    let mut roots = public_roots();
    for pem in extra_roots {
        add_roots(&mut roots, pem)?;
    }
    let builder = builder(Arc::new(roots)).map_err(|error| RootError(error.to_string()))?;
    Ok(builder.with_no_client_auth())
}

/// Start of a configuration that verifies servers against these roots.
pub(crate) fn builder(
    roots: Arc<RootCertStore>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots))
}

/// Checks the CA certificates of a PEM file.
///
/// # Errors
/// If there is none, or one of them cannot be read.
pub fn check_roots(pem: &[u8]) -> Result<(), RootError> {
    add_roots(&mut RootCertStore::empty(), pem)
}
