//! Commands that use a gateway behind a reverse proxy with TLS.

use crate::lab::Lab;
use crawlway_testkit::{
    certificates::{Certificates, HOST},
    tls_proxy::TlsProxy,
};
use tokio::runtime::Runtime;

const TOKEN: &str = "a-token-of-sixteen-characters";

#[test]
fn a_gateway_behind_tls_is_used_when_its_certificate_fits() {
    let runtime = Runtime::new().unwrap();
    let certificates = Certificates::new();
    let mut lab = Lab::new("");
    lab.variables.push(("CRAWLWAY_GATEWAY__TOKEN", TOKEN.to_owned()));
    let up = lab.up();
    let proxy = |name: &str, asks: bool| {
        runtime.block_on(TlsProxy::in_front_of(up.address.clone(), &certificates, name, asks)).port()
    };
    let (server, asking, expired) = (proxy("server", false), proxy("server", true), proxy("expired", false));
    let plain: u16 = up.address.rsplit(':').next().unwrap().parse().unwrap();
    // Another data directory, on which no gateway runs.
    let mut elsewhere = Lab::new("");
    elsewhere.variables.push(("CRAWLWAY_GATEWAY__TOKEN", TOKEN.to_owned()));
    let run = |host: &str, port: u16, files: &[(&str, &str)]| {
        let mut program =
            elsewhere.program(&["queues", "--json", "--gateway", &format!("https://{host}:{port}")]);
        for (setting, file) in files {
            program.env(format!("CRAWLWAY_GATEWAY__TLS__{setting}"), certificates.path(file));
        }
        let ran = program.output().unwrap();
        (
            ran.status.code().unwrap(),
            String::from_utf8(ran.stdout).unwrap(),
            String::from_utf8(ran.stderr).unwrap(),
        )
    };
    let (ca, certificate, key) = (("CA", "ca.pem"), ("CERTIFICATE", "client.pem"), ("KEY", "client.key"));

    for (port, files) in
        [(server, &[ca][..]), (server, &[ca, certificate, key]), (asking, &[ca, certificate, key])]
    {
        let (code, printed, error) = run(HOST, port, files);
        assert_eq!((code, error.as_str()), (0, ""));
        assert!(printed.contains("crawler_queue"), "{printed}");
    }
    for (host, port, files, expected, says) in [
        (HOST, server, &[][..], 1, "set `gateway.tls.ca`"),
        (HOST, server, &[("CA", "other-ca.pem")], 1, "not signed by the CA in `gateway.tls.ca`"),
        ("127.0.0.1", server, &[ca], 1, "other names than the host"),
        (HOST, expired, &[ca], 1, "has expired"),
        (HOST, asking, &[ca], 1, "set `gateway.tls.certificate` and `gateway.tls.key`"),
        (
            HOST,
            asking,
            &[ca, ("CERTIFICATE", "other.pem"), ("KEY", "other.key")],
            1,
            "refuses the client certificate in `gateway.tls.certificate`",
        ),
        (HOST, plain, &[ca], 1, "no TLS on this port"),
        (HOST, server, &[("CA", "missing.pem")], 2, "`gateway.tls.ca`"),
        (HOST, server, &[certificate], 2, "`gateway.tls.key` is empty"),
        (HOST, server, &[certificate, ("KEY", "other.key")], 2, "is not the key of the certificate"),
    ] {
        let (code, printed, error) = run(host, port, files);
        assert_eq!((code, printed.as_str()), (expected, ""), "{says}: {error}");
        assert!(error.contains(says), "{says}: {error}");
    }
}
