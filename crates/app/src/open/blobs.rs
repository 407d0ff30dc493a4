//! Opens the store of blobs.

use crate::{
    config::{BlobKind, Config},
    failure::UsageError,
};
use crawlway_store::BlobStore;
use crawlway_store_blob::{DirectoryBlobs, DirectoryOptions};
use std::sync::Arc;

/// Directory of the blobs below the data directory.
const DIRECTORY: &str = "blobs";

/// Store of blobs. Nothing is created, and no server is asked, before it is used.
pub(crate) fn blobs(config: &Config) -> anyhow::Result<Arc<dyn BlobStore>> {
    match config.blobs.kind {
        BlobKind::Directory => Ok(Arc::new(DirectoryBlobs::new(DirectoryOptions {
            retention: config.blobs.retention.0,
            ..DirectoryOptions::new(config.data_dir.join(DIRECTORY))
        }))),
        BlobKind::S3 => s3(config).map_err(|problem| UsageError(problem).into()),
    }
}

#[cfg(feature = "s3")]
fn s3(config: &Config) -> Result<Arc<dyn BlobStore>, String> {
    use crawlway_store_blob::{S3Blobs, S3Options, endpoint_problem};
    let settings = &config.blobs.s3;
    let set = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let bucket = set(&settings.bucket)
        .ok_or("`blobs.kind` is \"s3\", but `blobs.s3.bucket` is empty; set it to the name of a bucket")?;
    let endpoint = set(&settings.endpoint);
    if let Some(problem) = endpoint.as_deref().and_then(endpoint_problem) {
        return Err(format!("`blobs.s3.endpoint` is wrong: {problem}"));
    }
    Ok(Arc::new(S3Blobs::new(S3Options {
        bucket,
        prefix: settings.prefix.clone(),
        region: set(&settings.region),
        endpoint,
        path_style: settings.path_style,
        profile: set(&settings.profile),
        credentials: None,
        tls: settings.tls.client("blobs.s3.tls")?,
        retention: config.blobs.retention.0,
    })))
}

#[cfg(not(feature = "s3"))]
fn s3(_: &Config) -> Result<Arc<dyn BlobStore>, String> {
    // Loading the settings refuses it by name.
    Err("this build leaves out S3; build with `--features full`".to_owned())
}

#[cfg(all(test, feature = "s3"))]
mod tests {
    use crate::config::tests::given;

    #[test]
    fn a_bucket_needs_a_name() {
        let kind = ("CRAWLWAY_BLOBS__KIND", "s3");
        let config = given(&[kind]).unwrap().config;
        let refused = super::blobs(&config).unwrap_err().to_string();
        assert!(refused.contains("`blobs.s3.bucket` is empty"), "{refused}");
        let variables =
            [kind, ("CRAWLWAY_BLOBS__S3__BUCKET", "pages"), ("CRAWLWAY_BLOBS__S3__PREFIX", "a/b")];
        let store = super::blobs(&given(&variables).unwrap().config).unwrap();
        assert_eq!(store.location(), "s3://pages/a/b/");
    }
}
