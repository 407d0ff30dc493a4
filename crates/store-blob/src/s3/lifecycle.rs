//! Lifecycle of the bucket: rules that expire blobs, merged with those of others.
//!
//! The client library has no call for it, so the requests are signed here.

use super::{
    credentials::Credentials,
    rules::{self, Rule},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use crawlway_store::StoreError;
use http::{Method, StatusCode};
use object_store::{
    CredentialProvider,
    aws::AwsAuthorizer,
    client::{HttpClient, HttpRequest, HttpRequestBody},
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Maximum size of a configuration, which has 1000 rules at most.
const MAX_BYTES: usize = 4 << 20;

/// Lifecycle rules of a bucket.
#[derive(Debug)]
pub(super) struct Lifecycle {
    client: HttpClient,
    credentials: Arc<Credentials>,
    url: String,
    region: String,
    rules: Vec<Rule>,
}

impl Lifecycle {
    /// Rules for the blobs below a prefix, which expire after this number of days, or never.
    pub(super) fn new(
        client: HttpClient,
        credentials: Arc<Credentials>,
        bucket_url: String,
        region: String,
        prefix: &str,
        days: Option<u64>,
    ) -> Self {
        let rules = ["raw/", "test/"].map(|folder| Rule::new(&format!("{prefix}{folder}"), days));
        Self { client, credentials, url: format!("{bucket_url}?lifecycle"), region, rules: rules.into() }
    }

    /// Reads the rules of the bucket, and writes them if ours are missing or differ. Where writing is denied, it is enough that
    /// others do the same.
    pub(super) async fn apply(&self) -> Result<(), StoreError> {
        let (status, found) = self.send(Method::GET, None).await?;
        let found = match status {
            StatusCode::OK => found,
            StatusCode::NOT_FOUND if found.contains("NoSuchLifecycleConfiguration") => String::new(),
            status => return Err(self.refused("read", "s3:GetLifecycleConfiguration", status, &found)),
        };
        let merged = rules::merge(&found, &self.rules).map_err(|problem| StoreError::Unavailable {
            detail: format!("the lifecycle rules of the bucket cannot be changed: {problem}"),
        })?;
        let Some(merged) = merged else { return Ok(()) };
        let (method, body) = match merged.as_str() {
            "" => (Method::DELETE, None),
            _ => (Method::PUT, Some(merged)),
        };
        let (status, answer) = self.send(method, body).await?;
        if status.is_success() {
            tracing::info!("wrote the lifecycle rules of the bucket");
            return Ok(());
        }
        if status == StatusCode::FORBIDDEN && self.rules.iter().all(|rule| rules::is_covered(&found, rule)) {
            return Ok(());
        }
        Err(self.refused("write", "s3:PutLifecycleConfiguration", status, &answer))
    }

    fn refused(&self, doing: &str, right: &str, status: StatusCode, answer: &str) -> StoreError {
        let wanted: Vec<String> = self.rules.iter().map(Rule::to_string).collect();
        StoreError::Unavailable {
            detail: format!(
                "S3 refused to {doing} the lifecycle rules of the bucket ({status}, {}): grant {right}, or make sure that \
                 it has these: {}",
                rules::text_of(answer, "Code").unwrap_or_else(|| "no reason".to_owned()),
                wanted.join("; ")
            ),
        }
    }

    async fn send(&self, method: Method, body: Option<String>) -> Result<(StatusCode, String), StoreError> {
        let failed = |error: &dyn std::fmt::Display| StoreError::Unavailable {
            detail: format!("the lifecycle rules of the bucket cannot be reached: {error}"),
        };
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method;
        *request.uri_mut() = self.url.parse().map_err(|error| failed(&error))?;
        if let Some(body) = body {
            let checksum = STANDARD.encode(Sha256::digest(body.as_bytes()));
            let checksum = checksum.parse().map_err(|error| failed(&error))?;
            request.headers_mut().insert("x-amz-checksum-sha256", checksum);
            *request.body_mut() = HttpRequestBody::from(body);
        }
        let credential = self.credentials.get_credential().await.map_err(|error| failed(&error))?;
        let authorizer = AwsAuthorizer::new(&credential, "s3", &self.region);
        authorizer.try_authorize(&mut request, None).map_err(|error| failed(&error))?;
        let response = self.client.execute(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        let body = response.into_body().bytes().await.map_err(|error| failed(&error))?;
        if body.len() > MAX_BYTES {
            return Err(failed(&"the answer is too large"));
        }
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}
