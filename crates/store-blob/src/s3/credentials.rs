//! Credentials of the standard chain, cached until shortly before they expire.

use async_trait::async_trait;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use object_store::{CredentialProvider, aws::AwsCredential};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::Mutex;

/// Credentials are renewed this long before they expire, and read again after this time if they do not expire.
const MARGIN: Duration = Duration::from_secs(300);

/// Source of credentials.
#[derive(Debug)]
pub(super) struct Credentials {
    chain: Option<SharedCredentialsProvider>,
    /// The latest ones, and until when they are used; without an end if they are fixed.
    latest: Mutex<Option<(Arc<AwsCredential>, Option<SystemTime>)>>,
}

impl Credentials {
    /// These credentials.
    pub(super) fn fixed(key_id: &str, secret_key: &str) -> Self {
        let credential =
            AwsCredential { key_id: key_id.to_owned(), secret_key: secret_key.to_owned(), token: None };
        Self { chain: None, latest: Mutex::new(Some((Arc::new(credential), None))) }
    }

    /// Those of the standard chain.
    pub(super) fn chain(chain: Option<SharedCredentialsProvider>) -> Self {
        Self { chain, latest: Mutex::new(None) }
    }
}

#[async_trait]
impl CredentialProvider for Credentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut latest = self.latest.lock().await;
        let now = SystemTime::now();
        if let Some((credential, until)) = &*latest
            && until.is_none_or(|until| now < until)
        {
            return Ok(credential.clone());
        }
        let refused =
            |source| object_store::Error::Unauthenticated { path: "credentials".to_owned(), source };
        let chain = self.chain.as_ref().ok_or_else(|| refused("there are none".into()))?;
        let found = chain.provide_credentials().await.map_err(|error| refused(error.into()))?;
        let credential = Arc::new(AwsCredential {
            key_id: found.access_key_id().to_owned(),
            secret_key: found.secret_access_key().to_owned(),
            token: found.session_token().map(str::to_owned),
        });
        let until = found.expiry().map_or(now + MARGIN, |expiry| expiry - MARGIN);
        *latest = Some((credential.clone(), Some(until)));
        Ok(credential)
    }
}
