//! Options of a bucket, and its client.

use super::{Client, credentials::Credentials, http::HyperConnector, lifecycle::Lifecycle};
use aws_config::{BehaviorVersion, Region};
use crawlway_store::StoreError;
use crawlway_tls::ClientTls;
use object_store::{BackoffConfig, RetryConfig, aws::AmazonS3Builder};
use std::{fmt, sync::Arc, time::Duration};

/// Bucket, endpoint and account.
#[derive(Clone)]
pub struct S3Options {
    /// Name of the bucket.
    pub bucket: String,
    /// Start of the names of all objects, such as `crawlway`; empty for none.
    pub prefix: String,
    /// Region; `None` is that of the environment or the profile.
    pub region: Option<String>,
    /// URL of an endpoint other than that of the region.
    pub endpoint: Option<String>,
    /// Whether the bucket is in the path of URLs instead of their host name.
    pub path_style: bool,
    /// Profile of the standard chain.
    pub profile: Option<String>,
    /// Credentials; `None` is the standard chain: environment, profile, web identity, container, instance.
    pub credentials: Option<StaticCredentials>,
    /// TLS of an endpoint with `https://`.
    pub tls: ClientTls,
    /// Time after which blobs expire, in whole days rounded up; `None` keeps them.
    pub retention: Option<Duration>,
}

/// Credentials that are known when the store is opened.
#[derive(Clone)]
pub struct StaticCredentials {
    /// Access key id.
    pub access_key_id: String,
    /// Secret access key.
    pub secret_access_key: String,
}

/// Omits the credentials.
impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Options")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Why a URL cannot be an endpoint.
pub fn endpoint_problem(endpoint: &str) -> Option<&'static str> {
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    match host.map(|host| host.trim_end_matches('/')) {
        Some(host) if !host.is_empty() && !host.contains(['/', '@', '?']) => None,
        _ => Some("expected a URL such as \"https://s3.example.org\", without a path or an account"),
    }
}

impl S3Options {
    /// Options of a bucket with defaults for everything else.
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: String::new(),
            region: None,
            endpoint: None,
            path_style: false,
            profile: None,
            credentials: None,
            tls: ClientTls::default(),
            retention: Some(Duration::from_secs(30 * 86_400)),
        }
    }

    /// Start of the names of all objects: empty, or ending with a slash.
    pub(super) fn object_prefix(&self) -> String {
        match self.prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        }
    }

    /// URL of the bucket.
    fn bucket_url(&self, region: &str) -> String {
        let bucket = &self.bucket;
        let endpoint = self.endpoint.clone().unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = endpoint.trim_end_matches('/');
        match endpoint.split_once("://") {
            Some((scheme, host)) if !self.path_style => format!("{scheme}://{bucket}.{host}"),
            _ => format!("{endpoint}/{bucket}"),
        }
    }

    pub(super) async fn connect(&self) -> Result<Client, StoreError> {
        let invalid = |problem: String| StoreError::Invalid { problem };
        if let Some(problem) = self.endpoint.as_deref().and_then(endpoint_problem) {
            return Err(invalid(format!("the endpoint of S3 is wrong: {problem}")));
        }
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        let shared = loader.load().await;
        // An endpoint of another server rarely has a region.
        let default = self.endpoint.as_ref().map(|_| "us-east-1".to_owned());
        let region =
            shared.region().map(|region| region.as_ref().to_owned()).or(default).ok_or_else(|| {
                invalid(
                    "the region of S3 is not set, neither in the settings nor in the environment".to_owned(),
                )
            })?;
        let credentials = Arc::new(match &self.credentials {
            Some(keys) => Credentials::fixed(&keys.access_key_id, &keys.secret_access_key),
            None => Credentials::chain(shared.credentials_provider()),
        });
        let connector = HyperConnector::new(self.tls.clone());
        let url = self.bucket_url(&region);
        // Given the URL of the bucket as its endpoint, the builder adds nothing to it.
        let bucket = AmazonS3Builder::new()
            .with_bucket_name(&self.bucket)
            .with_region(&region)
            .with_endpoint(&url)
            .with_virtual_hosted_style_request(true)
            .with_allow_http(true)
            .with_credentials(credentials.clone())
            .with_http_connector(connector.clone())
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: 3,
                retry_timeout: Duration::from_secs(30),
            })
            .build()
            .map_err(|error| invalid(format!("S3 cannot be used: {error}")))?;
        let days = self.retention.map(|retention| retention.as_secs().div_ceil(86_400).max(1));
        let lifecycle =
            Lifecycle::new(connector.client(), credentials, url, region, &self.object_prefix(), days);
        Ok(Client { bucket, lifecycle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_is_in_the_host_name_or_in_the_path() {
        let mut options = S3Options::new("pages");
        assert_eq!(options.bucket_url("eu-central-1"), "https://pages.s3.eu-central-1.amazonaws.com");
        options.endpoint = Some("http://127.0.0.1:9000/".to_owned());
        options.path_style = true;
        assert_eq!(options.bucket_url("eu-central-1"), "http://127.0.0.1:9000/pages");
    }

    #[test]
    fn no_secret_is_shown() {
        let keys = StaticCredentials { access_key_id: "id".into(), secret_access_key: "hunter2".into() };
        let options = S3Options { credentials: Some(keys), ..S3Options::new("pages") };
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn an_endpoint_is_a_url_without_a_path() {
        assert_eq!(endpoint_problem("https://s3.example.org:9000/"), None);
        for wrong in ["s3.example.org", "https://", "https://a/b", "http://user:x@a", "ftp://a"] {
            assert!(endpoint_problem(wrong).is_some(), "{wrong}");
        }
    }
}
