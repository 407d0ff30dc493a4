//! [`RabbitBroker`]: a broker handle, and its implementation of the queue contract.

use crate::{engine::Engine, error::ConnectError, options::Options, session::Session};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::Instant};

/// Delay between the attempts of [`RabbitBroker::connect`].
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The queue contract on a RabbitMQ server.
#[derive(Debug)]
pub struct RabbitBroker {
    engine: Arc<Engine>,
}

impl RabbitBroker {
    /// Connects to the server. A lost connection is re-established in the background, in the current tokio runtime.
    ///
    /// # Errors
    /// If the server cannot be reached within [`Options::connection_timeout`] or refuses the login.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let deadline = Instant::now() + options.connection_timeout;
        let session = loop {
            match Session::open(&options, 1).await {
                Ok(session) => break session,
                Err((error, permanent)) if permanent || Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(CONNECT_RETRY_DELAY).await,
            }
        };
        Ok(Self::start(options, Some(session)))
    }

    /// Connects in the background. Until then, calls fail as unavailable.
    pub fn connect_later(options: Options) -> Self {
        Self::start(options, None)
    }

    fn start(options: Options, session: Option<Session>) -> Self {
        let engine = Arc::new(Engine::new(options, Handle::current()));
        engine.runtime.spawn(engine.clone().supervise(session));
        engine.runtime.spawn(engine.clone().watch_leases());
        Self { engine }
    }
}

crawlway_broker::forward_to_engine!(RabbitBroker);

impl Drop for RabbitBroker {
    fn drop(&mut self) {
        if let Some(session) = self.engine.connection.close() {
            self.engine.runtime.spawn(async move { session.close().await });
        }
    }
}
