//! Accepting a URL: invalid ones are refused at once, valid ones are durable in the queue before the answer.

use super::message::UrlMessage;
use crawlway_broker::{Broker, BrokerError, MessageId, Outgoing, PublishError, QueueName};
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, UrlError, UrlOptions, url::normalise};
use crawlway_fetch::SsrfGuard;
use crawlway_store::inventory::{RecordId, RecordRequest};
use std::net::{IpAddr, SocketAddr};

/// URL in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Id of its record.
    pub id: RecordId,
    /// URL in normal form.
    pub url: NormalUrl,
    /// Id of the message and its trail.
    pub message_id: String,
    /// Time of the request.
    pub requested_at: Timestamp,
}

impl Accepted {
    /// Request for the record store.
    pub fn request(&self) -> RecordRequest {
        RecordRequest {
            url: self.url.as_str().to_owned(),
            message_id: self.message_id.clone(),
            requested_at: self.requested_at,
        }
    }
}

/// Reason why a URL is not in the queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// Invalid URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Address that the SSRF guard forbids.
    #[error(
        "url with address {address} is refused, expected a public address; allow its range in `fetch.allow` if it is intended"
    )]
    Address {
        /// Address.
        address: SocketAddr,
    },
    /// Failed publish.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

/// Normal form of a URL, if it can be requested.
pub fn check(url: &str, guard: &SsrfGuard) -> Result<NormalUrl, AcceptError> {
    let url = normalise(url, &UrlOptions::default())?;
    refuse_address(&url, guard)?;
    Ok(url)
}

/// Publishes a URL. Ok means that it is durable in the queue. Fails fast if the broker is known to be unreachable, since a
/// client waits for the answer.
pub async fn accept(
    broker: &dyn Broker,
    queue: &QueueName,
    guard: &SsrfGuard,
    url: &str,
    now: Timestamp,
) -> Result<Accepted, AcceptError> {
    let url = check(url, guard)?;
    broker.reachable_for(queue).map_err(|error| match error {
        BrokerError::Closed => PublishError::Closed,
        other => PublishError::Unavailable { detail: other.to_string() },
    })?;
    let message_id = MessageId::random();
    let message = UrlMessage {
        url: url.as_str().to_owned(),
        requested_at: now.to_iso(),
        message_id: message_id.as_str().to_owned(),
    };
    let outgoing = Outgoing::to_queue(queue, message.to_body()).id(message_id);
    let no_answer = || Err(PublishError::Unconfirmed { detail: "the broker gave no answer".to_owned() });
    broker.publish(vec![outgoing]).await.pop().unwrap_or_else(no_answer)?;
    let id = RecordId::of_url(url.as_str());
    Ok(Accepted { id, url, message_id: message.message_id, requested_at: now })
}

/// Refuses a literal address that the SSRF guard forbids. Resolved addresses are checked by the worker.
fn refuse_address(url: &NormalUrl, guard: &SsrfGuard) -> Result<(), AcceptError> {
    let host = url.host().trim_start_matches('[').trim_end_matches(']');
    let Ok(ip) = host.parse::<IpAddr>() else { return Ok(()) };
    let address = SocketAddr::new(ip, url.port());
    if guard.allows(address) { Ok(()) } else { Err(AcceptError::Address { address }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::url_inventory;
    use crawlway_broker_rabbitmq::{Options, RabbitBroker};
    use std::time::Duration;

    /// The connection timeout of the broker is an hour.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_unreachable_broker_fails_fast_and_invalid_urls_are_still_refused() {
        // The port is closed again.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let broker = RabbitBroker::connect_later(Options {
            host: "127.0.0.1".to_owned(),
            port,
            connection_timeout: Duration::from_secs(3600),
            ..Options::default()
        });
        let accept = async |url: &str| {
            let (queue, guard) = (url_inventory(), SsrfGuard::new(Vec::new()));
            let accepting = accept(&broker, &queue, &guard, url, Timestamp::now());
            tokio::time::timeout(Duration::from_secs(60), accepting).await.expect("fails fast")
        };
        let unreachable = accept("https://a.example/").await.unwrap_err();
        assert!(
            matches!(unreachable, AcceptError::Publish(PublishError::Unavailable { .. })),
            "{unreachable:?}"
        );
        assert!(matches!(accept("ftp://a.example/").await, Err(AcceptError::Url(_))));
        broker.close().await.unwrap();
        let closed = accept("https://a.example/").await;
        assert_eq!(closed, Err(AcceptError::Publish(PublishError::Closed)));
    }

    fn checked(url: &str, allow: &[&str]) -> Result<(), AcceptError> {
        let guard = SsrfGuard::new(allow.iter().map(|range| range.parse().unwrap()).collect());
        check(url, &guard).map(drop)
    }

    #[test]
    fn literal_addresses_that_the_guard_forbids_are_refused_and_names_are_left_to_the_worker() {
        for refused in [
            "http://127.0.0.1/",
            "http://[::1]:8080/x",
            "http://0x7f.1/",
            "https://10.0.0.1/",
            "http://1.1.1.1:22/",
        ] {
            let error = checked(refused, &[]).unwrap_err().to_string();
            assert!(error.contains("is refused"), "{refused}: {error}");
        }
        for taken in ["http://localhost/", "https://1.1.1.1/", "https://a.example:8443/"] {
            assert_eq!(checked(taken, &[]), Ok(()), "{taken}");
        }
        assert_eq!(checked("http://127.0.0.1:9/", &["127.0.0.1/32:9"]), Ok(()));
    }
}
