//! Certificates for TLS servers and their clients, made anew for a test.

use crawlway_tls::{ClientTls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Host name in the certificates of servers. Their address is in none.
pub const HOST: &str = "localhost";

/// Folder of PEM files: a CA, and what it signed.
///
/// | file | what it is |
/// |---|---|
/// | `ca.pem`, `other-ca.pem` | CA of all other files; one that signed `other.pem` |
/// | `server.pem`, `server.key`, `server-both.pem` | server for [`HOST`], and both in one file |
/// | `expired.pem`, `expired.key` | server whose certificate has expired |
/// | `client.pem`, `client.key` | client |
/// | `other.pem`, `other.key` | client of the other CA |
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// Makes all files.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[expect(clippy::new_without_default, reason = "it writes files")]
    pub fn new() -> Self {
        let this = Self(tempfile::tempdir().expect("a temporary folder"));
        let (ca, other) = (this.authority("ca"), this.authority("other-ca"));
        let (server, client) = (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
        this.sign("server", &ca, server.clone(), 4000);
        this.sign("expired", &ca, server, 2021);
        this.sign("client", &ca, client.clone(), 4000);
        this.sign("other", &other, client, 4000);
        let both =
            ["server.pem", "server.key"].map(|name| fs::read_to_string(this.path(name)).expect("a file"));
        this.write("server-both.pem", &both.concat());
        this
    }

    /// Path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// TLS client with a CA such as `ca.pem`, and the certificate and key of a name such as `client`; "" is none.
    ///
    /// # Panics
    /// If the files do not fit.
    pub fn tls(&self, table: &str, ca: &str, identity: &str) -> ClientTls {
        let path = |name: &str, end: &str| match name {
            "" => PathBuf::new(),
            name => self.path(&format!("{name}{end}")),
        };
        let (ca, certificate, key) = (path(ca, ""), path(identity, ".pem"), path(identity, ".key"));
        let files = TlsFiles { table, ca: &ca, certificate: &certificate, key: &key };
        files.read().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    fn authority(&self, name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
        let issuer = issuer.expect("a certificate");
        self.write(&format!("{name}.pem"), &issuer.pem());
        issuer
    }

    fn sign(
        &self,
        name: &str,
        issuer: &CertifiedIssuer<'static, KeyPair>,
        usage: ExtendedKeyUsagePurpose,
        until: i32,
    ) {
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 1, 1));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, issuer).expect("a certificate");
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.path(name), pem).expect("a file in the temporary folder");
    }
}
