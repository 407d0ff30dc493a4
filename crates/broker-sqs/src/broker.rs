//! [`SqsBroker`]: a broker handle.

use crate::{
    connection::Connection, engine::Engine, error::ConnectError, guarantees, local_queue::Entry,
    options::Options,
};
use crawlway_broker::LengthLimited;
use crawlway_broker_ledger::Backend as _;
use crawlway_store::Ledger;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// Delay between two attempts of [`connect`].
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The queue contract on SQS, without maximum lengths; [`connect`] adds them.
#[derive(Debug)]
pub struct SqsBroker {
    engine: Arc<Engine>,
}

crawlway_broker::forward_to_engine!(SqsBroker);

/// Connects to SQS. `ledger` is shared by all processes that use the same queues.
///
/// # Errors
/// If it does not answer within [`Options::request_timeout`].
pub async fn connect(
    options: Options,
    ledger: Arc<dyn Ledger>,
) -> Result<LengthLimited<SqsBroker>, ConnectError> {
    let (timeout, place) = (options.request_timeout, options.place());
    let broker = connect_later(options, ledger);
    let start = Instant::now();
    while let Err(failure) = broker.inner().engine.connection.probe().await {
        if start.elapsed() >= timeout {
            return Err(ConnectError::Unreachable { place, detail: failure.to_string() });
        }
        tokio::time::sleep(CONNECT_RETRY_DELAY).await;
    }
    Ok(broker)
}

/// Connects in the background. Until then, calls fail as unavailable.
pub fn connect_later(options: Options, ledger: Arc<dyn Ledger>) -> LengthLimited<SqsBroker> {
    let guarantees = guarantees::guarantees(&options);
    let engine = Arc::new(Engine::new(Connection::new(options), ledger, Handle::current()));
    engine.start();
    LengthLimited::new(SqsBroker { engine }, guarantees)
}

/// Ends all tasks without closing the session, as after a crash.
impl Drop for SqsBroker {
    fn drop(&mut self) {
        self.engine.set_closed();
    }
}

impl Engine {
    /// Waits for the polls under way, and makes all received messages visible again.
    async fn close(self: Arc<Self>) {
        if !self.set_closed() {
            return;
        }
        let options = &self.connection.options;
        let deadline = Instant::now() + options.poll_wait + options.request_timeout;
        for local in self.queues.all() {
            while local.state().polling > 0 && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        // The ledger first: what is visible may be taken by another process, which must not count a lost worker.
        self.ledger.close_session().await;
        for local in self.queues.all() {
            let left: Vec<Entry> = {
                let mut state = local.state();
                let in_flight: Vec<Entry> =
                    state.deliveries.in_flight.drain().map(|(_, held)| held.entry).collect();
                state.deliveries.ready.drain(..).chain(in_flight).collect()
            };
            let visible = left.iter().map(|entry| (entry.received.handle.clone(), 0)).collect::<Vec<_>>();
            self.connection.change_visibility(&local.url, &visible).await;
        }
    }
}
