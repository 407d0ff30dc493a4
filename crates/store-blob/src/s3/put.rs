//! Putting an object: in one request if it is small, otherwise from a temporary file as a multipart upload.
//!
//! The metadata of an object are sent before its content, and the hash is among them. So a larger content is first written to
//! a temporary file, which also lets parts be sent again.

use super::error::failed;
use bytes::Bytes;
use crawlway_clock::Clock;
use crawlway_store::{
    StoreError, Timestamp,
    blobs::{BlobInfo, BlobKey, BlobMetadata, Content, Hasher},
};
use futures::TryStreamExt;
use object_store::{
    Attribute, Attributes, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    aws::AmazonS3, path::Path,
};
use std::{
    fs::File,
    io::{self, Read, Seek, Write},
};

/// Size of a part of a multipart upload, and of the largest object of one request.
const PART: usize = 8 << 20;

pub(super) async fn put(
    bucket: &AmazonS3,
    path: &Path,
    key: &BlobKey,
    metadata: &BlobMetadata,
    mut content: Content,
) -> Result<BlobInfo, StoreError> {
    let metadata = metadata.storable()?;
    let mut hasher = Hasher::default();
    let mut buffer: Vec<u8> = Vec::new();
    let mut spool: Option<File> = None;
    while let Some(chunk) = content.try_next().await? {
        hasher.update(&chunk);
        buffer.extend_from_slice(&chunk);
        if buffer.len() >= PART {
            let bytes = std::mem::take(&mut buffer);
            spool = Some(blocking(move || append(spool, &bytes)).await?);
        }
    }
    let (size, hash) = hasher.finish();
    let info =
        BlobInfo { key: key.clone(), size, sha256: Some(hash), stored_at: Clock::System.now(), metadata };
    let attributes = attributes(&info);
    match spool {
        None => {
            let options = PutOptions { attributes, ..PutOptions::default() };
            let sent = bucket.put_opts(path, PutPayload::from(Bytes::from(buffer)), options).await;
            sent.map_err(|error| failed(&error))?;
        }
        Some(spool) => {
            let spool = blocking(move || {
                let mut spool = append(Some(spool), &buffer)?;
                spool.rewind()?;
                Ok(spool)
            })
            .await?;
            let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
            let begun = bucket.put_multipart_opts(path, options).await;
            let mut upload = begun.map_err(|error| failed(&error))?;
            if let Err(error) = upload_parts(&mut *upload, spool).await {
                // The lifecycle rule ends what cannot be ended here.
                let _ = upload.abort().await;
                return Err(error);
            }
        }
    }
    Ok(info)
}

async fn upload_parts(upload: &mut dyn MultipartUpload, mut spool: File) -> Result<(), StoreError> {
    loop {
        let (part, file) = blocking(move || {
            let mut part = Vec::new();
            (&mut spool).take(PART as u64).read_to_end(&mut part)?;
            Ok((part, spool))
        })
        .await?;
        spool = file;
        if part.is_empty() {
            break;
        }
        upload.put_part(PutPayload::from(Bytes::from(part))).await.map_err(|error| failed(&error))?;
    }
    upload.complete().await.map_err(|error| failed(&error)).map(drop)
}

fn attributes(info: &BlobInfo) -> Attributes {
    let metadata = &info.metadata;
    let ours = |name: &'static str| Attribute::Metadata(name.into());
    let all = [
        (Attribute::ContentType, metadata.content_type.clone()),
        (Attribute::ContentEncoding, metadata.content_encoding.clone()),
        (ours("fetched-at"), metadata.fetched_at.map(Timestamp::to_iso)),
        (ours("url"), metadata.url.clone()),
        (ours("sha256"), info.sha256.clone()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Appends to a temporary file without a name, which the operating system deletes with the process.
fn append(spool: Option<File>, bytes: &[u8]) -> io::Result<File> {
    let mut spool = match spool {
        Some(spool) => spool,
        None => tempfile::tempfile()?,
    };
    spool.write_all(bytes)?;
    Ok(spool)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
    done.map_err(|error| StoreError::Unavailable {
        detail: format!("a temporary file for an upload cannot be used: {error}"),
    })
}
