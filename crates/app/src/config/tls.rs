//! `tls` tables: PEM files of the TLS connection to one server.

use crawlway_tls::{ClientTls, TlsFiles};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// PEM files of the TLS connection to one server; an empty path is none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSettings {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl TlsSettings {
    /// TLS client with these files, which are read and checked; `table` is their place in the settings.
    pub(crate) fn client(&self, table: &str) -> Result<ClientTls, String> {
        let TlsSettings { ca, certificate, key } = self;
        TlsFiles { table, ca, certificate, key }.read().map_err(|error| error.to_string())
    }

    /// Refuses the content of a file in place of its path, before an error could print it.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_content = |path: &Path| path.to_string_lossy().contains("-----BEGIN");
        if [&self.ca, &self.certificate, &self.key].into_iter().any(|path| is_content(path)) {
            return Err("expected the path of a PEM file, not its content".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::given;

    #[test]
    fn a_key_in_place_of_its_path_is_refused_and_not_printed() {
        let key = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----";
        for variable in [
            "CRAWLWAY_BROKER__RABBITMQ__TLS__KEY",
            "CRAWLWAY_BROKER__KAFKA__TLS__KEY",
            "CRAWLWAY_REDIS__TLS__CA",
            "CRAWLWAY_RECORDS__POSTGRESQL__TLS__CERTIFICATE",
            "CRAWLWAY_INVENTORY__MONGODB__TLS__KEY",
            "CRAWLWAY_BLOBS__S3__TLS__KEY",
            "CRAWLWAY_GATEWAY__TLS__KEY",
        ] {
            let refused = given(&[(variable, key)]).unwrap_err().to_string();
            assert!(refused.contains(variable) && refused.contains("path of a PEM file"), "{refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
