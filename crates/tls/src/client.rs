//! TLS client of one server, and its connections.

use crate::{
    files::{Identity, PemFile, TlsError},
    roots,
};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName, sign::SingleCertAndKey};
use std::{fmt, io, path::Path, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// TLS client with the files of one server's settings. The default has none: Mozilla's roots, and no client certificate.
#[derive(Clone, Default)]
pub struct ClientTls(Arc<Inner>);

#[derive(Default)]
struct Inner {
    table: String,
    ca: Option<PemFile>,
    identity: Option<Identity>,
    /// None for the default, which is built when it is used.
    config: Option<Arc<ClientConfig>>,
}

impl ClientTls {
    pub(crate) fn new(
        table: String,
        ca: Option<PemFile>,
        identity: Option<Identity>,
        roots: Arc<RootCertStore>,
    ) -> Result<Self, TlsError> {
        let config = Some(config(identity.as_ref(), roots)?);
        Ok(Self(Arc::new(Inner { table, ca, identity, config })))
    }

    /// Configuration for rustls, without ALPN.
    ///
    /// # Errors
    /// If the crypto provider has no cipher suite for TLS 1.2 and 1.3.
    pub fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        match &self.0.config {
            Some(config) => Ok(config.clone()),
            None => config(None, Arc::new(roots::public_roots())),
        }
    }

    /// Handshake with the server of this name or address.
    ///
    /// # Errors
    /// If the handshake fails; [`ClientTls::advice`] says what to do.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name =
            ServerName::try_from(host).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let config = self.config().map_err(io::Error::other)?;
        TlsConnector::from(config).connect(name, stream).await
    }

    /// Refuses files that no connection would use; `how` says how TLS is switched on.
    ///
    /// # Errors
    /// If a file is set and TLS is off.
    pub fn check_used(&self, tls_is_on: bool, how: &str) -> Result<(), TlsError> {
        let set = match (&self.0.ca, &self.0.identity) {
            (Some(_), _) => "ca",
            (None, Some(_)) => "certificate",
            (None, None) => return Ok(()),
        };
        if tls_is_on {
            return Ok(());
        }
        Err(TlsError(format!("`{}` is set, but the connection is without TLS; {how}", self.setting(set))))
    }

    /// Full name of a setting.
    pub(crate) fn setting(&self, name: &str) -> String {
        match self.0.table.as_str() {
            "" => name.to_owned(),
            table => format!("{table}.{name}"),
        }
    }

    /// File with CA certificates.
    pub fn ca_path(&self) -> Option<&Path> {
        self.0.ca.as_ref().map(|file| file.path.as_path())
    }

    /// CA certificates in PEM.
    pub fn ca(&self) -> Option<&[u8]> {
        self.0.ca.as_ref().map(|file| file.pem.as_slice())
    }

    /// Client certificate and its key in PEM.
    pub fn identity(&self) -> Option<(&[u8], &[u8])> {
        let identity = self.0.identity.as_ref()?;
        Some((&identity.certificate.pem, &identity.key.pem))
    }

    /// File with the client certificate.
    pub(crate) fn certificate_path(&self) -> Option<&Path> {
        self.0.identity.as_ref().map(|identity| identity.certificate.path.as_path())
    }
}

/// Omits the key.
impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("table", &self.0.table)
            .field("ca", &self.ca_path())
            .field("certificate", &self.certificate_path())
            .finish_non_exhaustive()
    }
}

fn config(identity: Option<&Identity>, roots: Arc<RootCertStore>) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = roots::builder(roots).map_err(|error| TlsError(format!("TLS cannot be used: {error}")))?;
    let config = match identity {
        Some(Identity { certified, .. }) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified.clone())))
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Connection with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to a server, with TLS if a client for it is given. Small writes are sent at once.
///
/// # Errors
/// If the server cannot be reached, or the handshake fails.
pub async fn dial(host: &str, port: u16, tls: Option<&ClientTls>) -> io::Result<Box<dyn Stream>> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, port)).await?;
    stream.set_nodelay(true)?;
    Ok(match tls {
        Some(tls) => Box::new(tls.connect(name, stream).await?),
        None => Box::new(stream),
    })
}
