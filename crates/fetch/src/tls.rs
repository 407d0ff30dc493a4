//! TLS configuration: the Mozilla root certificates and those of the settings, with HTTP/2 and HTTP/1.1.

use crawlway_tls::RootError;
use rustls::ClientConfig;

pub(crate) fn config(extra_roots: &[Vec<u8>]) -> Result<ClientConfig, RootError> {
    let mut config = crawlway_tls::config_with_roots(extra_roots)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
