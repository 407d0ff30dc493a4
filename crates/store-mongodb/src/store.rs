//! The store: opening, indexes, time limits, and what is known of an outage.

use crate::{
    fault::Fault,
    options::{MongoOptions, wrong_address},
};
use crawlway_store::{
    StoreError,
    outage::{Outage, chance},
};
use mongodb::{
    Client, Collection, IndexModel,
    bson::{RawDocumentBuf, doc},
    error::{ErrorKind, Result as Answer},
    options::{ClientOptions, ReadConcern, SelectionCriteria, WriteConcern},
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a server that is opened may take until it is known which one there is.
const GREETING: Duration = Duration::from_secs(1);

/// The inventory records in a collection of MongoDB. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct MongoStore {
    /// Read as octets, and not by the driver's own rules, which take names such as `$date` for what they are not.
    pub(crate) records: Collection<RawDocumentBuf>,
    client: Client,
    answer_within: Duration,
    outage: Arc<Outage>,
}

impl MongoStore {
    /// Connects, makes sure that there are indexes, and waits for a server that is not there yet.
    pub async fn open(options: MongoOptions) -> Result<Self, StoreError> {
        let MongoOptions { url, database, collection, open_within, answer_within } = options;
        let mut connect = ClientOptions::parse(&url).await.map_err(wrong_address)?;
        // What must hold whatever the address says.
        connect.write_concern =
            Some(WriteConcern::builder().w(mongodb::options::Acknowledgment::Majority).journal(true).build());
        connect.read_concern = Some(ReadConcern::majority());
        connect.selection_criteria =
            Some(SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary));
        connect.server_selection_timeout = Some(answer_within);
        connect.connect_timeout = Some(answer_within);
        connect.app_name.get_or_insert_with(|| "crawlway".to_owned());
        let database = connect.default_database.clone().unwrap_or(database);
        // The driver waits for a server as long as for an answer before it says why there is none; health asks sooner.
        let mut greeting = connect.clone();
        greeting.server_selection_timeout = Some(answer_within.min(GREETING));
        let greeting = Client::with_options(greeting).map_err(wrong_address)?;
        let client = Client::with_options(connect).map_err(wrong_address)?;
        let records = client.database(&database).collection(&collection);
        let store = Self { records, client, answer_within, outage: Arc::default() };
        let opened = store.wait_until_open(&greeting, open_within).await;
        greeting.shutdown().immediate(true).await;
        opened.map(|()| store)
    }

    /// Closes all connections. Later calls fail.
    pub async fn close(&self) {
        self.client.clone().shutdown().immediate(true).await;
    }

    async fn wait_until_open(&self, greeting: &Client, within: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + within;
        let mut pause = Duration::from_millis(50);
        loop {
            let opened = match greet(greeting).await {
                Ok(()) => self.make_indexes().await,
                Err(fault) => Err(fault),
            };
            match opened {
                Ok(()) => return Ok(()),
                Err(Fault::Gone(detail)) if Instant::now() + pause >= deadline => {
                    let waited = if within.is_zero() { String::new() } else { format!(" within {within:?}") };
                    let detail = format!("it could not be opened{waited}, is it running? {detail}");
                    return Err(Fault::Gone(detail).into());
                }
                Err(Fault::Gone(_)) => {
                    tokio::time::sleep(pause.mul_f64(chance(0.5, 1.0))).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                Err(Fault::Refused(problem)) => return Err(StoreError::Invalid { problem }),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    async fn make_indexes(&self) -> Result<(), Fault> {
        let keys = [
            doc! { "url": 1 },
            doc! { "created_at": 1, "_id": 1 },
            doc! { "status": 1, "created_at": 1, "_id": 1 },
        ];
        for keys in keys {
            let index = IndexModel::builder().keys(keys).build();
            let made = self.within_limit(self.records.create_index(index).into_future()).await;
            match made {
                // Somebody has one like it, with other options or another name.
                Err(Made::Error(error)) if is_there_already(&error) => {}
                Err(Made::Error(error)) => return Err(error.into()),
                Err(Made::Late(fault)) => return Err(fault),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Gives a command and waits for its answer as long as a call may take.
    pub(crate) async fn ask<T>(&self, command: impl Future<Output = Answer<T>>) -> Result<T, Fault> {
        self.outage.may_ask(self.answer_within).map_err(Fault::Gone)?;
        let answer = self.within_limit(command).await.map_err(|made| match made {
            Made::Error(error) => error.into(),
            Made::Late(fault) => fault,
        });
        match &answer {
            Err(Fault::Gone(detail)) => self.outage.failed(detail),
            // Whatever it says, it has answered.
            _ => self.outage.answered(),
        }
        answer
    }

    async fn within_limit<T>(&self, command: impl Future<Output = Answer<T>>) -> Result<T, Made> {
        match tokio::time::timeout(self.answer_within, command).await {
            Ok(answer) => answer.map_err(Made::Error),
            Err(_) => Err(Made::Late(Fault::Gone(format!("no answer within {:?}", self.answer_within)))),
        }
    }

    /// Asks the server whether it is there.
    pub(crate) async fn ping(&self) -> Result<(), Fault> {
        let database = self.client.database("admin");
        self.ask(database.run_command(doc! { "ping": 1 }).into_future()).await.map(drop)
    }
}

/// Asks whether there is a server, and says why not.
async fn greet(client: &Client) -> Result<(), Fault> {
    let asked = client.database("admin").run_command(doc! { "ping": 1 }).await;
    asked.map(drop).map_err(Fault::from)
}

/// How a command failed.
enum Made {
    Error(mongodb::error::Error),
    Late(Fault),
}

/// IndexOptionsConflict and IndexKeySpecsConflict.
fn is_there_already(error: &mongodb::error::Error) -> bool {
    matches!(error.kind.as_ref(), ErrorKind::Command(command) if [85, 86].contains(&command.code))
}

impl fmt::Debug for MongoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoStore")
            .field("records", &self.records.namespace().to_string())
            .finish_non_exhaustive()
    }
}
