//! Contents of blobs from and to files.

use crate::{config::Config, failure::UsageError, permissions};
use anyhow::Context;
use crawlway_content::url::{UrlOptions, normalise};
use crawlway_store::{
    BlobStore, StoreError, Timestamp,
    blobs::{BlobInfo, BlobKey, BlobMetadata, Content},
};
use futures::{StreamExt, TryStreamExt, stream};
use hyper::body::Bytes;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

/// Size of a chunk that is read.
const CHUNK: usize = 256 << 10;

pub(super) async fn to_stdout(content: Content) -> anyhow::Result<()> {
    write(content, &mut io::stdout().lock()).await
}

/// Writes to a temporary file that then replaces `path`. A pipe or a device is written directly.
pub(super) async fn to_file(content: Content, path: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write to `{}`", path.display());
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let mut file = File::options().write(true).open(path).with_context(failed)?;
        return write(content, &mut file).await;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let mut file = permissions::with_user_umask(|| File::create(&part)).with_context(failed)?;
    let written = write(content, &mut file).await;
    if written.is_err() {
        // The error is reported; the partial file is of no use.
        let _ = fs::remove_file(&part);
        return written;
    }
    file.sync_all().and_then(|()| fs::rename(&part, path)).with_context(failed)
}

async fn write(mut content: Content, out: &mut impl Write) -> anyhow::Result<()> {
    while let Some(chunk) = content.try_next().await? {
        out.write_all(&chunk)?;
    }
    Ok(out.flush()?)
}

pub(super) async fn put(
    config: &Config,
    store: &dyn BlobStore,
    key: &BlobKey,
    file: &Path,
    content_type: String,
    url: Option<String>,
) -> anyhow::Result<BlobInfo> {
    let url = match url {
        None => None,
        Some(url) => Some(normalise(&url, &UrlOptions::default()).map_err(|error| {
            UsageError(format!("`{}` is not a URL: {error}", crate::output::one_line(&url)))
        })?),
    };
    let unreadable = |error: io::Error| UsageError(format!("cannot read `{}`: {error}", file.display()));
    let input: Box<dyn Read + Send> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file).map_err(unreadable)?),
    };
    if !store.location().starts_with("s3://") {
        permissions::data_directory(&config.data_dir)?;
    }
    let metadata = BlobMetadata {
        content_type: Some(content_type),
        content_encoding: None,
        fetched_at: Some(Timestamp::now()),
        url: url.map(|url| url.into_string()),
    };
    super::checked(store.put(key, &metadata, chunks(input)).await)
}

fn chunks(input: Box<dyn Read + Send>) -> Content {
    stream::try_unfold(input, |mut input| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; CHUNK];
            let size = input.read(&mut chunk)?;
            chunk.truncate(size);
            io::Result::Ok((chunk, input))
        });
        let (chunk, input) = read.await.map_err(io::Error::other).flatten().map_err(|error| {
            StoreError::Unavailable { detail: format!("the content cannot be read: {error}") }
        })?;
        Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), input)))
    })
    .boxed()
}
