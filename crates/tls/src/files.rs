//! PEM files of one server's TLS settings, read and checked without a connection.

use crate::{client::ClientTls, roots};
use rustls::{
    CertificateError, Error, InconsistentKeys, RootCertStore,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::WebPkiClientVerifier,
    sign::CertifiedKey,
};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// File or setting with which no TLS connection can be made. Its text names the setting and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub(crate) String);

/// Files of one server's TLS settings. An empty path is a file that is not set.
#[derive(Debug, Clone, Copy)]
pub struct TlsFiles<'a> {
    /// Table of the settings, such as `redis.tls`.
    pub table: &'a str,
    /// CA certificates, instead of Mozilla's.
    pub ca: &'a Path,
    /// Client certificate, with its intermediates.
    pub certificate: &'a Path,
    /// Key of the client certificate.
    pub key: &'a Path,
}

/// Content of a PEM file.
#[derive(Clone)]
pub(crate) struct PemFile {
    pub(crate) path: PathBuf,
    pub(crate) pem: Vec<u8>,
}

/// Omits the content, which may be a key.
impl fmt::Debug for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// Client certificate with its key.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: PemFile,
    pub(crate) key: PemFile,
    pub(crate) certified: Arc<CertifiedKey>,
}

impl TlsFiles<'_> {
    /// Reads and checks the files: each can be read and parsed, the key is that of the certificate, and the certificate is
    /// valid today.
    ///
    /// # Errors
    /// On the first file that does not fit.
    pub fn read(&self) -> Result<ClientTls, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        let ca = self.file("ca", self.ca)?;
        match &ca {
            Some(file) => roots::add_roots(&mut roots, &file.pem)
                .map_err(|error| TlsError(format!("{}: {error}", self.named("ca", &file.path))))?,
            None => roots = roots::public_roots(),
        }
        let roots = Arc::new(roots);
        let pair = (self.file("certificate", self.certificate)?, self.file("key", self.key)?);
        let identity = match pair {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(self.identity(certificate, key, roots.clone(), &provider)?)
            }
            (Some(_), None) => return Err(self.lacks("certificate", "key")),
            (None, Some(_)) => return Err(self.lacks("key", "certificate")),
        };
        ClientTls::new(self.table.to_owned(), ca, identity, roots)
    }

    fn file(&self, name: &str, path: &Path) -> Result<Option<PemFile>, TlsError> {
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        let pem = fs::read(path).map_err(|error| {
            TlsError(format!(
                "{} cannot be read: {error}; correct the path, or let this account read the file",
                self.named(name, path)
            ))
        })?;
        Ok(Some(PemFile { path: path.to_owned(), pem }))
    }

    fn identity(
        &self,
        certificate: PemFile,
        key: PemFile,
        roots: Arc<RootCertStore>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Identity, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate.pem).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| {
            TlsError(format!(
                "{} has no certificate in it; expected PEM with `BEGIN CERTIFICATE`",
                self.named("certificate", &certificate.path)
            ))
        })?;
        let key_der = PrivateKeyDer::from_pem_slice(&key.pem).map_err(|_| self.no_key(&key))?;
        let certified = CertifiedKey::from_der(chain, key_der, provider).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError(format!(
                "{} is not the key of the certificate in `{}.certificate` (`{}`); name the two files that belong together",
                self.named("key", &key.path),
                self.table,
                certificate.path.display()
            )),
            Error::InvalidCertificate(error) => TlsError(format!(
                "{} cannot be parsed: {error}; expected an X.509 certificate in PEM",
                self.named("certificate", &certificate.path)
            )),
            _ => self.no_key(&key),
        })?;
        let unfit = unfit_as_client(&certified, roots, provider);
        if let Some(unfit) = unfit {
            return Err(TlsError(format!("{} {unfit}", self.named("certificate", &certificate.path))));
        }
        Ok(Identity { certificate, key, certified: Arc::new(certified) })
    }

    fn no_key(&self, key: &PemFile) -> TlsError {
        let file = self.named("key", &key.path);
        let is_encrypted = String::from_utf8_lossy(&key.pem).contains("ENCRYPTED");
        TlsError(if is_encrypted {
            format!("{file} is encrypted; decrypt it with `openssl pkey`, and restrict its mode instead")
        } else {
            format!("{file} has no usable private key in it; expected PEM with PKCS#8, PKCS#1 or SEC1")
        })
    }

    fn lacks(&self, set: &str, missing: &str) -> TlsError {
        let table = self.table;
        TlsError(format!(
            "`{table}.{set}` is set, but `{table}.{missing}` is empty; a client certificate needs both"
        ))
    }

    fn named(&self, name: &str, path: &Path) -> String {
        format!("`{}.{name}` is `{}`, which", self.table, path.display())
    }
}

/// Why no server can accept this client certificate. Whether a server trusts its issuer, only that server knows.
fn unfit_as_client(
    certified: &CertifiedKey,
    roots: Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Option<String> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build().ok()?;
    let (first, rest) = certified.cert.split_first()?;
    let Err(Error::InvalidCertificate(error)) = verifier.verify_client_cert(first, rest, UnixTime::now())
    else {
        return None;
    };
    Some(match error {
        CertificateError::ExpiredContext { time, not_after } => {
            let days = time.as_secs().saturating_sub(not_after.as_secs()) / 86_400;
            format!("expired {days} days ago; renew it")
        }
        CertificateError::NotValidYetContext { .. } => {
            format!("is not valid yet ({error}); check the clock of this machine")
        }
        CertificateError::InvalidPurposeContext { .. } => {
            format!("is not a client certificate ({error}); use one with the extended key usage clientAuth")
        }
        CertificateError::BadEncoding => "cannot be parsed; expected an X.509 certificate in PEM".to_owned(),
        _ => return None,
    })
}
