//! Requests of users, remote or local.

use super::{Client, Target};
use crate::{
    failure::{UsageError, is_usage},
    flows::{self, RequestsFlow},
    open,
};
use anyhow::{Context, bail};
use crawlway_broker::QueueBackend;
use crawlway_clock::Clock;
use crawlway_flows::requests::Submitter;
use crawlway_gateway::{
    dto::{AcceptedRequests, DeletedRequests, RequestEvent, RequestList, UserRequest},
    submit,
};
use crawlway_store::{
    RequestStore,
    requests::{Email, RequestKey, RequestQuery},
};
use hyper::header::HeaderName;
use std::{sync::Arc, time::Duration};
use url::Url;

/// Interval of long polls.
const WAIT: &str = "25s";

/// Requests of one user.
pub(crate) enum UserRequests {
    /// At a gateway, which knows the user unless one is named.
    Remote { client: Client, email: Option<String> },
    /// In the stores of the settings; without a store if nothing was recorded yet.
    Local {
        store: Option<Arc<dyn RequestStore>>,
        email: Email,
        submitter: Option<(Arc<dyn QueueBackend>, Submitter)>,
    },
}

impl UserRequests {
    /// Opens the requests of a user; for a submission, the queue too.
    pub(crate) async fn open(
        target: Target<'_>,
        email: Option<String>,
        submits: bool,
    ) -> anyhow::Result<Self> {
        let config = match target {
            Target::Remote(client) => return Ok(Self::Remote { client, email }),
            Target::Local(config) => config,
        };
        flows::require(config, "requests").map_err(UsageError)?;
        let email = match email {
            Some(email) => {
                let parse = if submits { Email::normalised } else { Email::verbatim };
                parse(&email).map_err(|error| UsageError(format!("--email: {error}")))?
            }
            None => config.requests.default_email().context("name the user with --email")?,
        };
        if !submits {
            let store = open::existing_requests(config).await?;
            let email = match &store {
                Some(store) => email.stored(&**store).await?,
                None => email,
            };
            return Ok(Self::Local { store, email, submitter: None });
        }
        let broker = open::broker(config, &[&RequestsFlow]).await?;
        let store = open::requests(config).await?;
        let queues = open::queues_of(config, &*broker, &[&RequestsFlow]);
        if let Err(error) = broker.declare(&queues).await {
            broker.close().await?;
            return Err(error.into());
        }
        let guard = config.fetch.guard(&[])?;
        let submitter =
            Submitter { broker: broker.clone(), store: store.clone(), guard, clock: Clock::System };
        Ok(Self::Local { store: Some(store), email, submitter: Some((broker, submitter)) })
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }

    /// Submits URLs, all or none.
    pub(crate) async fn add(
        &self,
        urls: &[String],
        idempotency_key: Option<&str>,
    ) -> anyhow::Result<Vec<UserRequest>> {
        match self {
            Self::Remote { client, email } => {
                let body = serde_json::json!({ "urls": urls, "email": email });
                let key = idempotency_key.map(|key| (HeaderName::from_static("idempotency-key"), key));
                let url = client.url(["api", "requests"]);
                let accepted: AcceptedRequests = client.post_with(&url, &body, key.as_slice()).await?;
                Ok(accepted.requests)
            }
            Self::Local { email, submitter: Some((_, submitter)), .. } => {
                let submitted = submit(submitter.clone(), email.as_str(), urls, idempotency_key).await?;
                Ok(submitted.into_iter().map(|submitted| submitted.request.into()).collect())
            }
            Self::Local { .. } => bail!("the requests are open for reading"),
        }
    }

    /// A request, if the user has it.
    pub(crate) async fn get(&self, id: &str) -> anyhow::Result<Option<UserRequest>> {
        match self {
            Self::Remote { client, .. } => client.get_optional(&self.url(client, &[id], &[])).await,
            Self::Local { store, email, .. } => {
                let Some(store) = store else { return Ok(None) };
                Ok(store.get(&RequestKey::new(email.as_str(), id)).await?.map(UserRequest::from))
            }
        }
    }

    /// A request as soon as it has ended, or the user has deleted it.
    pub(crate) async fn wait_for(&self, id: &str) -> anyhow::Result<Option<UserRequest>> {
        loop {
            let found = match self {
                Self::Remote { client, .. } => {
                    let url = self.url(client, &[id], &[("wait", Some(WAIT.to_owned()))]);
                    client.get_optional::<UserRequest>(&url).await?
                }
                Self::Local { .. } => self.get(id).await?,
            };
            match found {
                Some(request) if request.status == "pending" && !self.is_local() => {}
                Some(request) if request.status == "pending" => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                ended => return Ok(ended),
            }
        }
    }

    /// Requests, the newest first.
    pub(crate) async fn list(&self, wanted: &RequestQuery) -> anyhow::Result<RequestList> {
        match self {
            Self::Remote { client, .. } => {
                let conditions = [
                    ("status", wanted.status.map(|status| status.to_string())),
                    ("cursor", wanted.after.as_ref().map(|after| after.to_string())),
                    ("limit", Some(wanted.limit.to_string())),
                ];
                client.get(&self.url(client, &[], &conditions)).await
            }
            Self::Local { store: None, .. } => Ok(RequestList { requests: Vec::new(), next: None }),
            Self::Local { store: Some(store), email, .. } => {
                Ok(store.list(email.as_str(), wanted).await?.into())
            }
        }
    }

    /// Deletes a request; `false` if the user has none with this id.
    pub(crate) async fn delete(&self, id: &str) -> anyhow::Result<bool> {
        match self {
            Self::Remote { client, .. } => {
                let deleted: Option<DeletedRequests> =
                    client.delete_optional(&self.url(client, &[id], &[])).await?;
                Ok(deleted.is_some())
            }
            Self::Local { store: None, .. } => Ok(false),
            Self::Local { store: Some(store), email, .. } => {
                Ok(store.delete(&RequestKey::new(email.as_str(), id)).await?)
            }
        }
    }

    /// Deletes all requests of the user. Returns how many there were.
    pub(crate) async fn delete_all(&self) -> anyhow::Result<u64> {
        match self {
            Self::Remote { client, .. } => {
                let deleted: DeletedRequests = client.delete(&self.url(client, &[], &[])).await?;
                Ok(deleted.deleted)
            }
            Self::Local { store: None, .. } => Ok(0),
            Self::Local { store: Some(store), email, .. } => Ok(store.delete_all(email.as_str()).await?),
        }
    }

    /// Calls `each` with every change until it returns false. Reconnects after the last change.
    pub(crate) async fn watch(
        &self,
        mut each: impl FnMut(RequestEvent) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let Self::Remote { client, .. } = self else {
            bail!(UsageError(
                "no gateway runs, so that nothing changes; start one with `crawlway up`".to_owned()
            ))
        };
        let url = self.url(client, &["events"], &[]);
        let mut last_id = String::new();
        let mut connected = false;
        loop {
            let mut events = match client.events(&url, &last_id).await {
                Ok(events) => events,
                // A refusal does not pass, such as that of a revoked token.
                Err(error) if !connected || is_usage(&error) => return Err(error),
                Err(_) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
            };
            connected = true;
            while let Some(event) = events.next().await {
                if !event.id.is_empty() {
                    last_id.clone_from(&event.id);
                }
                if !event.data.is_empty() && !each(serde_json::from_str(&event.data)?)? {
                    return Ok(());
                }
            }
        }
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Local { submitter: Some((broker, _)), .. } => Ok(broker.close().await?),
            _ => Ok(()),
        }
    }

    fn url(&self, client: &Client, path: &[&str], query: &[(&str, Option<String>)]) -> Url {
        let mut url = client.url(["api", "requests"].iter().chain(path).copied());
        let email = match self {
            Self::Remote { email, .. } => email.clone(),
            Self::Local { .. } => None,
        };
        let given = query
            .iter()
            .chain([&("email", email)])
            .filter_map(|(name, value)| Some((*name, value.clone()?)))
            .collect::<Vec<_>>();
        if !given.is_empty() {
            url.query_pairs_mut().extend_pairs(given);
        }
        url
    }
}
