//! Blobs in a bucket of S3, or of a server with its API.
//!
//! ```text
//! options.rs      bucket, endpoint and account
//! credentials.rs  the standard chain of credentials, cached
//! http.rs         HTTP client with the TLS files of the settings
//! put.rs          one request, or a multipart upload
//! lifecycle.rs    lifecycle rules of the bucket
//! rules.rs        lifecycle rules as XML
//! error.rs        errors, by what a caller can do
//! ```
//!
//! Content type and content encoding are headers of the object; fetch time, URL and hash are its user metadata:
//! `x-amz-meta-fetched-at`, `x-amz-meta-url`, `x-amz-meta-sha256`.

mod credentials;
mod error;
mod http;
mod lifecycle;
mod options;
mod put;
mod rules;

pub use options::{S3Options, StaticCredentials, endpoint_problem};

use crawlway_clock::Clock;
use crawlway_store::{
    StoreError, Timestamp,
    blobs::{
        BlobEntry, BlobInfo, BlobKey, BlobLink, BlobMetadata, BlobPage, BlobQuery, BlobStore, Content,
        LinkError, LinkTarget, MAX_PAGE_SIZE, verified,
    },
};
use error::failed;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{
    Attribute, Attributes, GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt,
    aws::AmazonS3,
    list::{PaginatedListOptions, PaginatedListStore},
    path::Path,
    signer::{Method, Signer},
};
use std::time::Duration;
use tokio::sync::OnceCell;

/// Maximum pause between two chunks of a content.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Blobs in a bucket.
#[derive(Debug)]
pub struct S3Blobs {
    options: S3Options,
    client: OnceCell<Client>,
    /// Start of the names of all objects: empty, or ending with a slash.
    prefix: String,
}

/// Clients of a bucket.
#[derive(Debug)]
struct Client {
    bucket: AmazonS3,
    lifecycle: lifecycle::Lifecycle,
}

impl S3Blobs {
    /// Blobs of a bucket. The first call looks for region and credentials.
    pub fn new(options: S3Options) -> Self {
        Self { prefix: options.object_prefix(), options, client: OnceCell::new() }
    }

    async fn client(&self) -> Result<&Client, StoreError> {
        self.client.get_or_try_init(|| self.options.connect()).await
    }

    async fn bucket(&self) -> Result<&AmazonS3, StoreError> {
        Ok(&self.client().await?.bucket)
    }

    fn path(&self, key: &BlobKey) -> Result<Path, StoreError> {
        let name = format!("{}{key}", self.prefix);
        if name.len() > crawlway_store::blobs::MAX_KEY_BYTES {
            return Err(StoreError::Invalid {
                problem: format!("key `{key}` with the prefix of the settings is longer than 1024 bytes"),
            });
        }
        Path::parse(name).map_err(|error| StoreError::Invalid { problem: error.to_string() })
    }

    async fn open_object(&self, key: &BlobKey, head: bool) -> Result<Option<GetResult>, StoreError> {
        let options = GetOptions { head, ..GetOptions::default() };
        match self.bucket().await?.get_opts(&self.path(key)?, options).await {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { source, .. })
                if !error::is_missing_bucket(&source.to_string()) =>
            {
                Ok(None)
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

/// Info of an object that is, or is not, of Crawlway.
fn info(key: &BlobKey, meta: &ObjectMeta, attributes: &Attributes) -> BlobInfo {
    let value = |attribute: Attribute| attributes.get(&attribute).map(|value| value.as_ref().to_owned());
    let ours = |name: &'static str| value(Attribute::Metadata(name.into()));
    BlobInfo {
        key: key.clone(),
        size: meta.size,
        // Another program may mean something else by this name.
        sha256: ours("sha256")
            .filter(|hash| hash.len() == 64 && hash.bytes().all(|octet| octet.is_ascii_hexdigit())),
        stored_at: stored_at(meta),
        metadata: BlobMetadata {
            content_type: value(Attribute::ContentType),
            content_encoding: value(Attribute::ContentEncoding),
            fetched_at: ours("fetched-at").as_deref().and_then(Timestamp::from_iso),
            url: ours("url"),
        },
    }
}

fn stored_at(meta: &ObjectMeta) -> Timestamp {
    Timestamp::from_millis(u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or_default())
}

#[async_trait::async_trait]
impl BlobStore for S3Blobs {
    async fn put(
        &self,
        key: &BlobKey,
        metadata: &BlobMetadata,
        content: Content,
    ) -> Result<BlobInfo, StoreError> {
        put::put(self.bucket().await?, &self.path(key)?, key, metadata, content).await
    }

    async fn get(&self, key: &BlobKey) -> Result<Option<(BlobInfo, Content)>, StoreError> {
        let Some(found) = self.open_object(key, false).await? else { return Ok(None) };
        let info = info(key, &found.meta, &found.attributes);
        let chunks = stream::try_unfold(found.into_stream(), |mut chunks| async {
            let next = tokio::time::timeout(READ_TIMEOUT, chunks.try_next()).await;
            let next = next.map_err(|_| StoreError::Unavailable {
                detail: format!("S3 sent nothing for {} s", READ_TIMEOUT.as_secs()),
            })?;
            Ok(next.map_err(|error| failed(&error))?.map(|chunk| (chunk, chunks)))
        });
        let content = verified(chunks.boxed(), &info);
        Ok(Some((info, content)))
    }

    async fn stat(&self, key: &BlobKey) -> Result<Option<BlobInfo>, StoreError> {
        let found = self.open_object(key, true).await?;
        Ok(found.map(|found| info(key, &found.meta, &found.attributes)))
    }

    async fn list(&self, query: &BlobQuery) -> Result<BlobPage, StoreError> {
        let limit = query.limit.min(MAX_PAGE_SIZE);
        let options = PaginatedListOptions {
            offset: query.after.as_ref().map(|key| format!("{}{key}", self.prefix)),
            max_keys: Some(limit.max(1)),
            ..PaginatedListOptions::default()
        };
        let prefix = format!("{}{}", self.prefix, query.prefix);
        let prefix = Some(prefix.as_str()).filter(|prefix| !prefix.is_empty());
        let page = self.bucket().await?.list_paginated(prefix, options).await;
        let page = page.map_err(|error| failed(&error))?;
        let entry = |meta: &ObjectMeta| {
            let key = meta.location.as_ref().strip_prefix(&self.prefix)?.parse().ok()?;
            Some(BlobEntry { key, size: meta.size, stored_at: stored_at(meta) })
        };
        let mut entries: Vec<_> = page.result.objects.iter().filter_map(entry).collect();
        let more = page.page_token.is_some() || entries.len() > limit;
        entries.truncate(limit);
        Ok(BlobPage { entries, more })
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), StoreError> {
        match self.bucket().await?.delete(&self.path(key)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn link(&self, key: &BlobKey, valid_for: Duration) -> Result<BlobLink, StoreError> {
        let signed = self.bucket().await?.signed_url(Method::GET, &self.path(key)?, valid_for).await;
        let url = signed.map_err(|error| failed(&error))?;
        Ok(BlobLink { target: LinkTarget::Url(url.to_string()), expires_at: Clock::System.now() + valid_for })
    }

    async fn check_link(&self, _: &BlobKey, _: u64, _: &str) -> Result<(), LinkError> {
        Err(LinkError::Unavailable("blobs are in S3, which serves its own links".to_owned()))
    }

    async fn apply_retention(&self) -> Result<u64, StoreError> {
        self.client().await?.lifecycle.apply().await.map(|()| 0)
    }

    fn location(&self) -> String {
        format!("s3://{}/{}", self.options.bucket, self.prefix)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.list(&BlobQuery { limit: 1, ..BlobQuery::default() }).await.map(drop)
    }
}
