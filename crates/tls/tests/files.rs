//! Files that fit, and each way in which they do not.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

use crawlway_tls::{ClientTls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use std::{fs, path::Path};
use tempfile::TempDir;

const NONE: &str = "";

/// Folder with a CA, a client certificate and other files.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    write("ca.pem", &issuer.pem());
    let certificate = |name: &str, from: i32, until: i32, usage: Vec<ExtendedKeyUsagePurpose>| {
        let mut params = CertificateParams::new(vec!["client.test".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        params.extended_key_usages = usage;
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        write(&format!("{name}.pem"), &signed.pem());
        write(&format!("{name}.key"), &key.serialize_pem());
    };
    certificate("client", 2020, 4000, vec![ExtendedKeyUsagePurpose::ClientAuth]);
    certificate("any", 2020, 4000, vec![]);
    certificate("expired", 2020, 2021, vec![]);
    certificate("early", 3999, 4000, vec![]);
    certificate("server", 2020, 4000, vec![ExtendedKeyUsagePurpose::ServerAuth]);
    write("nonsense", "nonsense");
    write("locked.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n");
    folder
}

fn read(folder: &Path, ca: &str, certificate: &str, key: &str) -> Result<ClientTls, String> {
    let path = |name: &str| if name.is_empty() { "".into() } else { folder.join(name) };
    let (ca, certificate, key) = (path(ca), path(certificate), path(key));
    let files = TlsFiles { table: "redis.tls", ca: &ca, certificate: &certificate, key: &key };
    files.read().map_err(|error| error.to_string())
}

#[test]
fn files_that_fit() {
    let folder = folder();
    for (ca, name) in [("ca.pem", "client"), (NONE, "client"), ("ca.pem", "any")] {
        let tls = read(folder.path(), ca, &format!("{name}.pem"), &format!("{name}.key")).unwrap();
        assert!(tls.identity().is_some() && tls.ca().is_some() != ca.is_empty());
        assert!(!format!("{tls:?}").contains("PRIVATE"));
    }
    let public = read(folder.path(), NONE, NONE, NONE).unwrap();
    assert!(public.identity().is_none() && public.check_used(false, "").is_ok());
}

#[test]
fn files_that_do_not_fit_name_the_setting_and_what_to_do() {
    let folder = folder();
    for (ca, certificate, key, setting, says) in [
        ("missing", NONE, NONE, "redis.tls.ca", "cannot be read"),
        ("nonsense", NONE, NONE, "redis.tls.ca", "expected PEM with at least one CA certificate"),
        (NONE, "client.pem", NONE, "redis.tls.key", "needs both"),
        (NONE, NONE, "client.key", "redis.tls.certificate", "needs both"),
        (NONE, "missing", "client.key", "redis.tls.certificate", "cannot be read"),
        (NONE, "nonsense", "client.key", "redis.tls.certificate", "BEGIN CERTIFICATE"),
        (NONE, "client.pem", "missing", "redis.tls.key", "cannot be read"),
        (NONE, "client.pem", "nonsense", "redis.tls.key", "PKCS#8"),
        (NONE, "client.pem", "locked.key", "redis.tls.key", "openssl pkey"),
        (NONE, "client.pem", "any.key", "redis.tls.key", "is not the key of the certificate"),
        (NONE, "expired.pem", "expired.key", "redis.tls.certificate", "renew it"),
        ("ca.pem", "expired.pem", "expired.key", "redis.tls.certificate", "renew it"),
        (NONE, "early.pem", "early.key", "redis.tls.certificate", "not valid yet"),
        (NONE, "server.pem", "server.key", "redis.tls.certificate", "clientAuth"),
    ] {
        let error = read(folder.path(), ca, certificate, key).expect_err(says);
        assert!(error.contains(&format!("`{setting}`")) && error.contains(says), "{error}");
    }
}

#[test]
fn files_without_tls_are_refused() {
    let folder = folder();
    let tls = read(folder.path(), "ca.pem", NONE, NONE).unwrap();
    assert!(tls.check_used(true, "").is_ok());
    let refused = tls.check_used(false, "begin the URL with rediss://").unwrap_err().to_string();
    assert!(refused.contains("`redis.tls.ca`") && refused.contains("rediss://"), "{refused}");
}
