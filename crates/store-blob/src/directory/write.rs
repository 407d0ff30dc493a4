//! Putting and deleting blobs.

use super::{
    blocking,
    files::{self, Files, Place, failed},
    sidecar::{self, Sidecar},
};
use crawlway_clock::Clock;
use crawlway_store::{
    StoreError,
    blobs::{BlobInfo, BlobKey, BlobMetadata, Content, Hasher},
};
use futures::TryStreamExt;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::Arc,
};

/// Bytes that are gathered for one write.
const BUFFER: usize = 1 << 20;

/// File that is deleted on drop, unless it became part of a blob.
struct Unfinished(Option<PathBuf>);

impl Unfinished {
    fn finish(mut self) {
        self.0.take();
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = fs::remove_file(path);
        }
    }
}

pub(super) async fn put(
    files: &Arc<Files>,
    key: &BlobKey,
    metadata: &BlobMetadata,
    mut content: Content,
    clock: &Clock,
) -> Result<BlobInfo, StoreError> {
    let metadata = metadata.storable()?;
    let place = files.place(key)?;
    let generation = new_generation()?;
    let path = place.content(&generation);
    let (mut file, unfinished) = {
        let place = place.clone();
        blocking(move || {
            let file = create(&place, &path).map_err(|error| failed("create", &path, &error))?;
            Ok((file, Unfinished(Some(path))))
        })
        .await?
    };
    let mut hasher = Hasher::default();
    let mut buffer = Vec::new();
    loop {
        let chunk = content.try_next().await?;
        let is_last = chunk.is_none();
        if let Some(chunk) = chunk {
            hasher.update(&chunk);
            buffer.extend_from_slice(&chunk);
        }
        if is_last || buffer.len() >= BUFFER {
            let bytes = std::mem::take(&mut buffer);
            let path = place.content(&generation);
            file = blocking(move || {
                let written =
                    file.write_all(&bytes).and_then(|()| if is_last { file.sync_all() } else { Ok(()) });
                written.map_err(|error| failed("write", &path, &error)).map(|()| file)
            })
            .await?;
        }
        if is_last {
            break;
        }
    }
    let (size, hash) = hasher.finish();
    let info = BlobInfo { key: key.clone(), size, sha256: Some(hash), stored_at: clock.now(), metadata };
    let (files, stored) = (files.clone(), info.clone());
    blocking(move || commit(&files, &place, &Sidecar::new(&generation, &stored), unfinished)).await?;
    Ok(info)
}

/// Creates the file of a content. The sweeper may delete the folder as an empty one in between.
fn create(place: &Place, path: &PathBuf) -> io::Result<File> {
    let mut tries = 0;
    loop {
        files::create_folders(&place.folder)?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 10 => tries += 1,
            opened => return opened,
        }
    }
}

/// Makes a synced content visible, and deletes the previous one.
fn commit(files: &Files, place: &Place, sidecar: &Sidecar, content: Unfinished) -> Result<(), StoreError> {
    let (next, path) = (place.next_sidecar(&sidecar.generation), place.sidecar());
    let unfinished = Unfinished(Some(next.clone()));
    let json =
        serde_json::to_vec(sidecar).map_err(|error| StoreError::Invalid { problem: error.to_string() })?;
    files::write_file(&next, &json).map_err(|error| failed("write", &next, &error))?;
    let lock = files.lock()?;
    // A damaged sidecar is replaced, and the sweeper deletes its content.
    let previous = sidecar::read(&path).ok().flatten();
    fs::rename(&next, &path).map_err(|error| failed("write", &path, &error))?;
    unfinished.finish();
    content.finish();
    files::sync_folder(&place.folder).map_err(|error| failed("sync", &place.folder, &error))?;
    drop(lock);
    if let Some(previous) = previous {
        let _ = fs::remove_file(place.content(&previous.generation));
    }
    Ok(())
}

/// Deletes a blob if it still is as wanted; whether it was deleted.
pub(super) fn delete(
    files: &Files,
    place: &Place,
    is_wanted: impl FnOnce(Option<&Sidecar>) -> bool,
) -> Result<bool, StoreError> {
    let path = place.sidecar();
    let lock = files.lock()?;
    let sidecar = sidecar::read(&path).ok().flatten();
    if !is_wanted(sidecar.as_ref()) {
        return Ok(false);
    }
    match fs::remove_file(&path) {
        Ok(()) => files::sync_folder(&place.folder).map_err(|error| failed("sync", &place.folder, &error))?,
        Err(error) if sidecar::is_missing(&error) => return Ok(false),
        Err(error) => return Err(failed("delete", &path, &error)),
    }
    drop(lock);
    if let Some(sidecar) = sidecar {
        let _ = fs::remove_file(place.content(&sidecar.generation));
    }
    Ok(true)
}

fn new_generation() -> Result<String, StoreError> {
    let random = getrandom::u64();
    let random = random.map_err(|error| StoreError::Unavailable {
        detail: format!("there are no random numbers: {error}"),
    })?;
    Ok(format!("{random:016x}"))
}
