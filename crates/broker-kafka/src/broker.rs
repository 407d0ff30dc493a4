//! [`KafkaBroker`]: a broker handle, and its implementation of the queue contract.

use crate::{
    backend::commits, connection::Connection, engine::Engine, error::ConnectError, guarantees,
    local_queue::QueueState, options::Options,
};
use crawlway_broker::{Guarantees, LengthLimited};
use crawlway_broker_ledger::Backend as _;
use crawlway_store::Ledger;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// Timeout of one attempt of [`connect`], and the delay between two.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Maximum time of closing's last commit.
const LAST_COMMIT: Duration = Duration::from_secs(2);

/// The queue contract on Apache Kafka, without maximum lengths; [`connect`] adds them.
#[derive(Debug)]
pub struct KafkaBroker {
    engine: Arc<Engine>,
}

/// Connects to a Kafka. `ledger` is shared by all processes that use the same queues.
///
/// # Errors
/// If no server answers within [`Options::request_timeout`], a certificate or the login is refused, or the options are invalid.
pub async fn connect(
    options: Options,
    ledger: Arc<dyn Ledger>,
) -> Result<LengthLimited<KafkaBroker>, ConnectError> {
    let (timeout, servers) = (options.request_timeout, options.servers.clone());
    let broker = connect_later(options, ledger)?;
    let engine = broker.inner().engine.clone();
    let start = Instant::now();
    loop {
        match engine.blocking(move |connection| connection.probe(PROBE_TIMEOUT)).await {
            Ok(Ok(())) => return Ok(broker),
            Ok(Err(_)) => {
                if let Some(reason) = engine.connection.refusal() {
                    return Err(ConnectError::Refused { servers, reason });
                }
                if start.elapsed() >= timeout {
                    return Err(ConnectError::Unreachable { servers, detail: engine.connection.outage() });
                }
                tokio::time::sleep(CONNECT_RETRY_DELAY).await;
            }
            Err(failure) => {
                return Err(ConnectError::Unreachable { servers, detail: failure.to_string() });
            }
        }
    }
}

/// Connects in the background. Until then, calls fail as unavailable.
///
/// # Errors
/// If the options are invalid.
pub fn connect_later(
    options: Options,
    ledger: Arc<dyn Ledger>,
) -> Result<LengthLimited<KafkaBroker>, ConnectError> {
    let guarantees = guarantees::guarantees(options.max_message);
    let engine = Arc::new(Engine::new(Connection::new(options)?, ledger, Handle::current()));
    engine.start();
    Ok(LengthLimited::new(KafkaBroker { engine }, guarantees))
}

crawlway_broker::forward_to_engine!(KafkaBroker);

/// Leaves the groups without closing the session, as after a crash.
impl Drop for KafkaBroker {
    fn drop(&mut self) {
        self.engine.set_closed();
        // Their threads have the last references.
        for (_, consumer) in self.engine.consumers.lock().drain() {
            consumer.stop();
        }
    }
}

impl Engine {
    fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(self.connection.options.max_message)
    }

    async fn close(self: Arc<Self>) {
        if !self.set_closed() {
            return;
        }
        let consumers: Vec<_> = {
            let mut consumers = self.consumers.lock();
            consumers.drain().collect()
        };
        for (queue, consumer) in &consumers {
            let Some(local) = self.queues.find(queue) else { continue };
            consumer.update(&local);
            let _ = tokio::time::timeout(LAST_COMMIT, commits(&local, QueueState::is_all_committed)).await;
            consumer.stop();
        }
        let _ = self
            .blocking(move |connection| {
                for (_, consumer) in consumers {
                    consumer.join();
                }
                connection.flush();
            })
            .await;
        self.ledger.close_session().await;
    }
}
