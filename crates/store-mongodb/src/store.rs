//! The store: opening, indexes, timeouts and outages.

use crate::{
    fault::Fault,
    options::{MongoOptions, TlsFiles, invalid_url},
};
use crawlway_clock::Backoff;
use crawlway_store::{
    StoreError,
    outage::{Outage, random_between},
};
use crawlway_tls::ClientTls;
use mongodb::{
    Client, Collection, IndexModel,
    bson::{RawDocumentBuf, doc},
    error::{ErrorKind, Result as MongoResult},
    options::{ClientOptions, ReadConcern, SelectionCriteria, Tls, WriteConcern},
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// Back-off between attempts to open.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Timeout of the server selection while opening.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Inventory records in a MongoDB collection. Clones share their connections.
#[derive(Clone)]
pub struct MongoStore {
    /// Raw documents, since the driver's own conversion interprets names such as `$date`.
    pub(crate) records: Collection<RawDocumentBuf>,
    client: Client,
    call_timeout: Duration,
    outage: Arc<Outage>,
}

impl MongoStore {
    /// Connects and creates the indexes. Waits for an unavailable server.
    pub async fn open(options: MongoOptions) -> Result<Self, StoreError> {
        options.check()?;
        let MongoOptions { url, tls, database, collection, open_timeout, call_timeout } = options;
        let mut connect = ClientOptions::parse(&url).await.map_err(invalid_url)?;
        // Required by the contract, whatever the URL says.
        connect.write_concern =
            Some(WriteConcern::builder().w(mongodb::options::Acknowledgment::Majority).journal(true).build());
        connect.read_concern = Some(ReadConcern::majority());
        connect.selection_criteria =
            Some(SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary));
        connect.server_selection_timeout = Some(call_timeout);
        connect.connect_timeout = Some(call_timeout);
        connect.app_name.get_or_insert_with(|| "crawlway".to_owned());
        let files = TlsFiles::new(&tls)?;
        if let Some(Tls::Enabled(options)) = &mut connect.tls {
            *options = files.options.clone();
        }
        let database = connect.default_database.clone().unwrap_or(database);
        // A client of its own for opening, with a short timeout, so that readiness checks get the error soon.
        let mut probe = connect.clone();
        probe.server_selection_timeout = Some(call_timeout.min(PROBE_TIMEOUT));
        let probe = Client::with_options(probe).map_err(invalid_url)?;
        let client = Client::with_options(connect).map_err(invalid_url)?;
        drop(files);
        let records = client.database(&database).collection(&collection);
        let store = Self { records, client, call_timeout, outage: Arc::default() };
        let opened = store.wait_until_open(&probe, open_timeout, &tls).await;
        probe.shutdown().immediate(true).await;
        opened.map(|()| store)
    }

    /// Closes all connections. Later calls fail.
    pub async fn close(&self) {
        self.client.clone().shutdown().immediate(true).await;
    }

    async fn wait_until_open(
        &self,
        probe: &Client,
        timeout: Duration,
        tls: &ClientTls,
    ) -> Result<(), StoreError> {
        let deadline = Instant::now() + timeout;
        let mut failures = 0;
        loop {
            failures += 1;
            let delay = BACKOFF.delay(failures);
            let opened = match ping(probe).await {
                Ok(()) => self.create_indexes().await,
                Err(error) => Err(error.into()),
            };
            match opened {
                Ok(()) => return Ok(()),
                // The driver retries on a certificate that does not fit, too.
                Err(Fault::Disconnected(detail)) if let Some(advice) = tls.advice(&detail) => {
                    return Err(StoreError::Invalid { problem: format!("MongoDB: {detail}; {advice}") });
                }
                Err(Fault::Disconnected(detail)) if Instant::now() + delay >= deadline => {
                    let waited =
                        if timeout.is_zero() { String::new() } else { format!(" within {timeout:?}") };
                    let detail = tls.with_hint(&detail);
                    let detail = format!("it could not be opened{waited}, is it running? {detail}");
                    return Err(Fault::Disconnected(detail).into());
                }
                Err(Fault::Disconnected(_)) => {
                    tokio::time::sleep(delay.mul_f64(random_between(0.5, 1.0))).await;
                }
                Err(Fault::Failed(problem)) => return Err(StoreError::Invalid { problem }),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    async fn create_indexes(&self) -> Result<(), Fault> {
        let keys = [
            doc! { "url": 1 },
            doc! { "created_at": 1, "_id": 1 },
            doc! { "status": 1, "created_at": 1, "_id": 1 },
        ];
        for keys in keys {
            let index = IndexModel::builder().keys(keys).build();
            let created = async {
                match self.records.create_index(index).await {
                    // An index with the same keys, but other options or another name.
                    Err(error) if index_exists(&error) => Ok(()),
                    result => result.map(drop),
                }
            };
            self.with_timeout(created).await?;
        }
        Ok(())
    }

    /// Runs a command with the timeout of a call. Fails fast during an outage.
    pub(crate) async fn run<T>(&self, command: impl Future<Output = MongoResult<T>>) -> Result<T, Fault> {
        self.outage.try_acquire(self.call_timeout).map_err(Fault::Disconnected)?;
        let result = self.with_timeout(command).await;
        match &result {
            Err(Fault::Disconnected(detail)) => self.outage.failed(detail),
            // An error of the server is an answer too.
            _ => self.outage.succeeded(),
        }
        result
    }

    async fn with_timeout<T>(&self, command: impl Future<Output = MongoResult<T>>) -> Result<T, Fault> {
        match tokio::time::timeout(self.call_timeout, command).await {
            Ok(result) => result.map_err(Fault::from),
            Err(_) => Err(Fault::Disconnected(format!("no answer within {:?}", self.call_timeout))),
        }
    }

    /// Checks that the server answers.
    pub(crate) async fn ping(&self) -> Result<(), Fault> {
        self.run(ping(&self.client)).await
    }
}

async fn ping(client: &Client) -> MongoResult<()> {
    client.database("admin").run_command(doc! { "ping": 1 }).await.map(drop)
}

/// Whether the error is IndexOptionsConflict or IndexKeySpecsConflict.
fn index_exists(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(command) if [85, 86].contains(&command.code))
}

impl fmt::Debug for MongoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoStore")
            .field("records", &self.records.namespace().to_string())
            .finish_non_exhaustive()
    }
}
