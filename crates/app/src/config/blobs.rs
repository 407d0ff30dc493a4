//! `[blobs]`: store of raw contents.

use super::{tls::TlsSettings, value::Keep};
use serde::Deserialize;
use std::time::Duration;

/// Minimum of `retention`.
const MIN_RETENTION: Duration = Duration::from_secs(3600);

/// Settings of the blobs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlobSettings {
    pub(crate) kind: BlobKind,
    pub(crate) retention: Keep,
    pub(crate) s3: S3Settings,
}

/// Store of the blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BlobKind {
    /// Files below the data directory.
    Directory,
    /// Objects of a bucket.
    S3,
}

/// Settings of the bucket.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "s3"), expect(dead_code, reason = "this build leaves out S3"))]
pub(crate) struct S3Settings {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) region: String,
    pub(crate) endpoint: String,
    pub(crate) path_style: bool,
    pub(crate) profile: String,
    pub(crate) tls: TlsSettings,
}

impl BlobSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.retention.0.is_some_and(|retention| retention < MIN_RETENTION) {
            return Err("expected at least \"1h\", or \"forever\"".to_owned());
        }
        let bucket = &self.s3.bucket;
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || "-._".contains(sign);
        if !bucket.is_empty() && (!(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_name)) {
            return Err(
                "expected the name of a bucket, without `s3://`: 3 to 63 letters, digits, `-` and `.`"
                    .to_owned(),
            );
        }
        let prefix = self.s3.prefix.trim_matches('/');
        if !prefix.is_empty()
            && (prefix.len() > 200 || prefix.parse::<crawlway_store::blobs::BlobKey>().is_err())
        {
            return Err("expected a path such as \"crawlway/pages\", of 200 bytes at most".to_owned());
        }
        let endpoint = &self.s3.endpoint;
        if !endpoint.is_empty() && !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
            return Err("expected a URL that starts with https:// or http://".to_owned());
        }
        self.s3.tls.check()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::given;

    #[test]
    fn wrong_buckets_and_endpoints_are_refused() {
        for (key, value) in [
            ("RETENTION", "1min"),
            ("S3__BUCKET", "s3://pages"),
            ("S3__PREFIX", "../other"),
            ("S3__ENDPOINT", "127.0.0.1:9000"),
        ] {
            let key = format!("CRAWLWAY_BLOBS__{key}");
            assert!(given(&[(key.as_str(), value)]).is_err(), "{key}");
        }
        assert!(
            given(&[("CRAWLWAY_BLOBS__S3__PREFIX", "/a/b/"), ("CRAWLWAY_BLOBS__RETENTION", "forever")])
                .is_ok()
        );
    }
}
