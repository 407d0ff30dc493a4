//! TLS to RabbitMQ and its management API, with a server that asks for client certificates.

mod support;

use crawlway_broker::{Broker, QueueAdmin, Verdict};
use crawlway_broker_rabbitmq::{ConnectError, Options, RabbitBroker};
use crawlway_testkit::{certificates::Certificates, private_rabbitmq::PrivateRabbitMq};
use support::{eventually, open, options, publish, queue, receive_one, settle};

const TABLE: &str = "broker.rabbitmq.tls";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tls() {
    let certificates = Certificates::new();
    let private = PrivateRabbitMq::start_with_tls(&certificates);
    let server = private.server_with_tls();
    let with = |ca: &str, identity: &str| Options {
        amqps: true,
        tls: certificates.tls(TABLE, ca, identity),
        ..options(&server)
    };

    let spec = queue("tls");
    let broker = open(with("ca.pem", "client"), &spec).await;
    publish(&broker, &spec.name, "over TLS").await;
    let delivery = receive_one(&broker, &spec.name).await;
    assert_eq!(&*delivery.message.body, b"over TLS");
    settle(&broker, delivery, Verdict::Done).await;
    // More than a record of TLS.
    let large = "x".repeat(1 << 20);
    publish(&broker, &spec.name, &large).await;
    assert_eq!(receive_one(&broker, &spec.name).await.message.body.len(), large.len());
    eventually("the management API answers over TLS", async || {
        broker.depth(&spec.name).await.is_ok_and(|depth| depth.rates.is_some())
    })
    .await;
    broker.close().await.expect("it closes");

    let plain = private.server();
    for (options, says) in [
        (with("other-ca.pem", "client"), "`broker.rabbitmq.tls.ca`"),
        (with("", "client"), "set `broker.rabbitmq.tls.ca`"),
        (Options { host: "127.0.0.1".into(), ..with("ca.pem", "client") }, "other names than the host"),
        (with("ca.pem", ""), "set `broker.rabbitmq.tls.certificate` and `broker.rabbitmq.tls.key`"),
        (with("ca.pem", "other"), "refuses the client certificate in `broker.rabbitmq.tls.certificate`"),
        (Options { port: plain.port, ..with("ca.pem", "client") }, "no TLS on this port"),
    ] {
        let refused = RabbitBroker::connect(options.clone()).await.expect_err(says);
        assert!(matches!(refused, ConnectError::Certificate { .. }), "{refused}");
        assert!(refused.to_string().contains(says), "{says}: {refused}");
    }

    // Depths without the management API, when only that one does not fit.
    let other =
        Options { amqps: false, port: plain.port, host: plain.host, ..with("other-ca.pem", "client") };
    assert!(other.check_tls().is_ok());
    let broker = open(other, &spec).await;
    assert_eq!(broker.depth(&spec.name).await.expect("a depth").rates, None);
    broker.close().await.expect("it closes");
}

#[test]
fn files_that_no_connection_uses_are_refused() {
    let certificates = Certificates::new();
    let tls = certificates.tls(TABLE, "ca.pem", "");
    let options = Options { tls, management_url: Some("http://rabbitmq:15672".into()), ..Options::default() };
    let refused = options.check_tls().expect_err("no TLS").to_string();
    assert!(refused.contains("`broker.rabbitmq.tls.ca`") && refused.contains("amqps://"), "{refused}");
    for on in [
        Options { amqps: true, ..options.clone() },
        Options { management_url: Some("https://rabbitmq:15671".into()), ..options },
    ] {
        on.check_tls().expect("TLS");
    }
}
