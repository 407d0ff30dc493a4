//! What to do about an error of a TLS connection.
//!
//! Clients of databases pass the error of rustls on as text only, so that the text is what is recognised here. The client of Kafka has
//! OpenSSL and its texts. The tests of the backends show it to be so, each with a real server.

use crate::client::ClientTls;
use std::error::Error;

/// Alerts of a server that asks for a client certificate, or refuses the one it got.
const CLIENT_ALERTS: [&str; 8] = [
    "CertificateRequired",
    "HandshakeFailure",
    "BadCertificate",
    "UnsupportedCertificate",
    "CertificateUnknown",
    "CertificateExpired",
    "CertificateRevoked",
    "UnknownCA",
];
/// The same alerts, as OpenSSL reports them: bad, unsupported, revoked, expired or unknown certificate, unknown CA, certificate required.
const OPENSSL_CLIENT_ALERTS: [u8; 8] = [40, 42, 43, 44, 45, 46, 48, 116];
/// Answer of PostgreSQL, which asks for the certificate after the handshake.
const POSTGRESQL_WANTS_CERTIFICATE: &str = "requires a valid client certificate";

impl ClientTls {
    /// What to do about an error, if it is one of certificates. A retry then fails again, until the certificate or the setting is changed.
    pub fn advice(&self, error: &str) -> Option<String> {
        let has = |part: &str| error.contains(part);
        let is_alert = |alert: &&str| has(&format!("received fatal alert: {alert}"));
        if has("UnknownIssuer") || has("CaUsedAsEndEntity") {
            let ca = self.setting("ca");
            return Some(match self.ca_path() {
                Some(path) => format!(
                    "the server's certificate is not signed by the CA in `{ca}` (`{}`); name the file with the CA that \
                     signed it",
                    path.display()
                ),
                None => format!(
                    "the server's certificate is not signed by a public CA; set `{ca}` to a PEM file with the CA that \
                     signed it"
                ),
            });
        }
        // OpenSSL does not say what is wrong with a certificate.
        if has("certificate verify failed") {
            let ca = self.setting("ca");
            let signed = match self.ca_path() {
                Some(path) => format!("the CA in `{ca}` (`{}`)", path.display()),
                None => format!("a public CA (`{ca}` names others)"),
            };
            return Some(format!(
                "the server's certificate is not signed by {signed}, has expired, or has other names than the host"
            ));
        }
        if has("certificate not valid for name") || has("NotValidForName") {
            return Some(
                "the server's certificate has other names than the host in the URL; use one of these names, or a \
                 certificate with this one"
                    .to_owned(),
            );
        }
        if has("certificate expired") {
            return Some("the server's certificate has expired; renew it on the server".to_owned());
        }
        if has("certificate not valid yet") {
            return Some(
                "the server's certificate is not valid yet; check the clocks of both machines".to_owned(),
            );
        }
        if has("invalid peer certificate") {
            return Some("the server's certificate is not valid; replace it on the server".to_owned());
        }
        let is_openssl_alert = |alert: &u8| has(&format!("SSL alert number {alert} "));
        if has(POSTGRESQL_WANTS_CERTIFICATE)
            || CLIENT_ALERTS.iter().any(is_alert)
            || OPENSSL_CLIENT_ALERTS.iter().any(is_openssl_alert)
        {
            let (certificate, key) = (self.setting("certificate"), self.setting("key"));
            return Some(match self.certificate_path() {
                Some(path) => format!(
                    "the server refuses the client certificate in `{certificate}` (`{}`); use one that a CA of the server \
                     signed",
                    path.display()
                ),
                None => format!("the server asks for a client certificate; set `{certificate}` and `{key}`"),
            });
        }
        let without_tls = [
            "received corrupt message of type InvalidContentType",
            "server does not support TLS",
            "connecting to a PLAINTEXT broker listener",
        ];
        if without_tls.iter().any(|text| has(text)) {
            return Some(
                "the server has no TLS on this port; correct the port, or switch off TLS".to_owned(),
            );
        }
        None
    }

    /// Error with what may be done about it. A server that closes the connection without an alert, as MongoDB does, may want
    /// another client certificate, or be about to end.
    pub fn with_hint(&self, error: &str) -> String {
        if !error.contains("without sending TLS close_notify") {
            return error.to_owned();
        }
        let (certificate, key) = (self.setting("certificate"), self.setting("key"));
        match self.certificate_path() {
            Some(_) => format!("{error}; the server may refuse the client certificate in `{certificate}`"),
            None => format!(
                "{error}; if the server asks for a client certificate, set `{certificate}` and `{key}`"
            ),
        }
    }

    /// As [`ClientTls::advice`], for an error whose causes have the text.
    pub fn advice_for(&self, error: &(dyn Error + 'static)) -> Option<String> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(advice) = self.advice(&error.to_string()) {
                return Some(advice);
            }
            cause = error.source();
        }
        None
    }
}
