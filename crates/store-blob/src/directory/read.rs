//! Reading blobs: the content that a sidecar names, in chunks, verified.

use super::{
    blocking,
    files::{Files, failed},
    sidecar,
};
use bytes::Bytes;
use crawlway_store::{
    StoreError,
    blobs::{BlobInfo, BlobKey, Content, verified},
};
use futures::{StreamExt, stream};
use std::{fs::File, io::Read, sync::Arc};

/// Size of a chunk.
const CHUNK: u64 = 256 << 10;
/// Number of times that a blob may be replaced while it is opened.
const TRIES: usize = 100;

pub(super) async fn get(
    files: &Arc<Files>,
    key: &BlobKey,
) -> Result<Option<(BlobInfo, Content)>, StoreError> {
    let (files, key) = (files.clone(), key.clone());
    let Some((info, file)) = blocking(move || open(&files, &key)).await? else { return Ok(None) };
    let content = stream::try_unfold(file, |mut file| {
        blocking(move || {
            let mut chunk = Vec::new();
            let read = (&mut file).take(CHUNK).read_to_end(&mut chunk);
            match read {
                Ok(0) => Ok(None),
                Ok(_) => Ok(Some((Bytes::from(chunk), file))),
                Err(error) => Err(StoreError::Unavailable { detail: format!("cannot read a blob: {error}") }),
            }
        })
    });
    let content = verified(content.boxed(), &info);
    Ok(Some((info, content)))
}

/// Opens the content that the sidecar names. Once open it can be read, whatever is deleted.
fn open(files: &Files, key: &BlobKey) -> Result<Option<(BlobInfo, File)>, StoreError> {
    let place = files.place(key)?;
    let mut replaced = None;
    for _ in 0..TRIES {
        let Some(sidecar) = sidecar::read(&place.sidecar())? else { return Ok(None) };
        let path = place.content(&sidecar.generation);
        match File::open(&path) {
            Ok(file) => return Ok(Some((sidecar.info(key), file))),
            Err(error) if !sidecar::is_missing(&error) => return Err(failed("open", &path, &error)),
            Err(error) if replaced.as_ref() == Some(&sidecar) => return Err(failed("open", &path, &error)),
            Err(_) => replaced = Some(sidecar),
        }
    }
    Err(StoreError::Unavailable { detail: format!("blob `{key}` is replaced all the time; try again") })
}
