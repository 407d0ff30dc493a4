//! Options of the store.

use crawlway_store::StoreError;
use crawlway_tls::ClientTls;
use mongodb::{
    error::Error,
    options::{ConnectionString, Tls, TlsOptions},
};
use std::{fmt, io::Write as _, time::Duration};
use tempfile::NamedTempFile;

/// Options of [`MongoStore`](crate::MongoStore).
#[derive(Clone)]
pub struct MongoOptions {
    /// URL of the server or the replica set, such as `mongodb://user:password@host:27017/?replicaSet=rs0`; `tls=true` in it
    /// switches TLS on.
    pub url: String,
    /// CA and client certificate of connections with TLS.
    pub tls: ClientTls,
    /// The database, unless the URL names one.
    pub database: String,
    /// The collection.
    pub collection: String,
    /// How long opening waits for an unavailable server.
    pub open_timeout: Duration,
    /// Timeout of a call.
    pub call_timeout: Duration,
}

impl MongoOptions {
    /// Default options for this server.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tls: ClientTls::default(),
            database: "crawlway".to_owned(),
            collection: "urls".to_owned(),
            open_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(15),
        }
    }

    /// Validates the URL, without a connection.
    pub fn check(&self) -> Result<(), StoreError> {
        let tls = ConnectionString::parse(&self.url).map_err(invalid_url)?.tls;
        let invalid = |problem: String| Err(StoreError::Invalid { problem });
        let on = match &tls {
            Some(Tls::Enabled(options)) => Some(options),
            _ => None,
        };
        if on.is_some_and(|tls| tls.allow_invalid_certificates == Some(true)) {
            return invalid(
                "the MongoDB URL has `tlsInsecure` or `tlsAllowInvalidCertificates`, but certificates are always verified; \
                 remove it, and name the CA in the TLS settings"
                    .to_owned(),
            );
        }
        if on.is_some_and(|tls| tls.ca_file_path.is_some() || tls.cert_key_file_path.is_some()) {
            return invalid(
                "the MongoDB URL has `tlsCAFile` or `tlsCertificateKeyFile`; name the files in the TLS settings instead"
                    .to_owned(),
            );
        }
        // TLS is the default of `mongodb+srv`.
        let is_on = on.is_some() || (tls.is_none() && self.url.starts_with("mongodb+srv://"));
        let how = "add `tls=true` to the parameters of the MongoDB URL";
        self.tls.check_used(is_on, how).map_err(|error| StoreError::Invalid { problem: error.to_string() })
    }
}

/// Files of the driver's TLS options; they are read when a client is made.
pub(crate) struct TlsFiles {
    pub(crate) options: TlsOptions,
    /// Client certificate with its key, which the driver reads from one file. It is removed on drop.
    _identity: Option<NamedTempFile>,
}

impl TlsFiles {
    pub(crate) fn new(tls: &ClientTls) -> Result<Self, StoreError> {
        let joined = |(certificate, key): (&[u8], &[u8])| {
            // Only this account can read it.
            let mut file = NamedTempFile::new()?;
            for part in [certificate, b"\n", key] {
                file.write_all(part)?;
            }
            Ok(file)
        };
        let identity = tls.identity().map(joined).transpose().map_err(|error: std::io::Error| {
            let folder = std::env::temp_dir();
            StoreError::Invalid {
                problem: format!(
                    "the client certificate cannot be written to `{}`: {error}",
                    folder.display()
                ),
            }
        })?;
        let mut options = TlsOptions::default();
        options.ca_file_path = tls.ca_path().map(Into::into);
        options.cert_key_file_path = identity.as_ref().map(|file| file.path().to_owned());
        Ok(Self { options, _identity: identity })
    }
}

pub(crate) fn invalid_url(error: Error) -> StoreError {
    let problem = format!(
        "the MongoDB URL is invalid, one such as `mongodb://user:password@host:27017` was expected: {error}"
    );
    StoreError::Invalid { problem }
}

/// Omits the URL, which may contain a password.
impl fmt::Debug for MongoOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoOptions")
            .field("database", &self.database)
            .field("collection", &self.collection)
            .finish_non_exhaustive()
    }
}
