//! TLS and SASL, with a server that asks for client certificates and passwords.

mod support;

use crawlway_broker::Broker;
use crawlway_broker_kafka::{ConnectError, Options, Sasl, SaslMechanism};
use crawlway_testkit::{
    certificates::Certificates,
    private_kafka::{PASSWORD, PrivateKafka, USER},
};
use std::time::Duration;
use support::{TestLedger, done, numbers, options, publish_numbers, queue, receive, start};

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_tls_and_logins() {
    let certificates = Certificates::new();
    let kafka = PrivateKafka::start_secured(&certificates);
    let [tls, sasl, sasl_tls] = kafka.secured_addresses();
    let with_tls = |servers: &str, ca: &str, identity: &str| Options {
        tls: Some(certificates.tls("broker.kafka.tls", ca, identity)),
        ..options(servers)
    };
    let login = |mechanism, password: &str, options: Options| Options {
        sasl: Some(Sasl { mechanism, user: USER.into(), password: password.into() }),
        ..options
    };
    let (plain, sha_256, sha_512) =
        (SaslMechanism::Plain, SaslMechanism::ScramSha256, SaslMechanism::ScramSha512);
    let ledger = TestLedger::open().await;

    for accepted in [
        with_tls(&tls, "ca.pem", "client"),
        login(plain, PASSWORD, options(&sasl)),
        login(sha_256, PASSWORD, options(&sasl)),
        login(sha_512, PASSWORD, options(&sasl)),
        login(plain, PASSWORD, with_tls(&sasl_tls, "ca.pem", "")),
        login(sha_256, PASSWORD, with_tls(&sasl_tls, "ca.pem", "")),
        login(sha_512, PASSWORD, with_tls(&sasl_tls, "ca.pem", "")),
    ] {
        let process = start(accepted, &ledger).await;
        let spec = queue("secured");
        process.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
        publish_numbers(&*process.broker, &spec.name, 3).await;
        let received = receive(&*process.broker, &spec.name, 3).await;
        assert_eq!(numbers(&received).len(), 3);
        done(&*process.broker, &received).await;
    }

    for (refused, says) in [
        (with_tls(&tls, "other-ca.pem", "client"), "`broker.kafka.tls.ca`"),
        (with_tls(&tls, "", "client"), "`broker.kafka.tls.ca`"),
        (with_tls(&tls.replace("localhost", "127.0.0.1"), "ca.pem", "client"), "other names than the host"),
        (with_tls(&tls, "ca.pem", ""), "set `broker.kafka.tls.certificate` and `broker.kafka.tls.key`"),
        (
            with_tls(&tls, "ca.pem", "other"),
            "refuses the client certificate in `broker.kafka.tls.certificate`",
        ),
        (with_tls(&kafka.address(), "ca.pem", "client"), "no TLS on this port"),
        (login(plain, "wrong", options(&sasl)), "`broker.kafka.password`"),
        (login(sha_256, "wrong", options(&sasl)), "`broker.kafka.password`"),
        (login(sha_512, "wrong", with_tls(&sasl_tls, "ca.pem", "")), "`broker.kafka.password`"),
        (login(plain, PASSWORD, options(&kafka.address())), "`broker.kafka.sasl_mechanism`"),
    ] {
        let error = crawlway_broker_kafka::connect(refused, ledger.ledger.clone()).await.expect_err(says);
        assert!(matches!(error, ConnectError::Refused { .. }), "{says}: {error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
    }

    // Servers close connections of clients that send no password, and those without TLS.
    for servers in [&tls, &sasl] {
        let short = Options { request_timeout: Duration::from_secs(3), ..options(servers) };
        let error = crawlway_broker_kafka::connect(short, ledger.ledger.clone()).await.expect_err("refused");
        assert!(error.to_string().contains("set `broker.kafka.security_protocol`"), "{error}");
    }

    // In the background, the reason is in the errors of calls.
    let later =
        crawlway_broker_kafka::connect_later(login(plain, "wrong", options(&sasl)), ledger.ledger.clone());
    let (later, start) = (later.unwrap(), std::time::Instant::now());
    loop {
        let reachable = later.reachable().map_err(|error| error.to_string());
        if reachable.as_ref().is_err_and(|error| error.contains("`broker.kafka.password`")) {
            break;
        }
        assert!(start.elapsed() < support::DEADLINE, "{reachable:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
