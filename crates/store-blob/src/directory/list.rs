//! Listing blobs in byte order of their keys.

use super::{
    files::{META, failed},
    sidecar,
};
use crawlway_store::{
    StoreError,
    blobs::{BlobEntry, BlobKey, BlobPage, BlobQuery, MAX_PAGE_SIZE},
};
use std::{collections::BTreeMap, fs, path::Path};

/// Entry of a folder. The map of a folder is in the order of the keys: a folder counts with its slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Blob,
    Folder,
}

pub(super) fn page(root: &Path, query: &BlobQuery) -> Result<BlobPage, StoreError> {
    let limit = query.limit.min(MAX_PAGE_SIZE);
    let mut entries = Vec::new();
    walk(root, "", query, limit + 1, &mut entries)?;
    let more = entries.len() > limit;
    entries.truncate(limit);
    Ok(BlobPage { entries, more })
}

/// Adds the blobs of a folder, whose keys begin with `base`, until there are `max`.
fn walk(
    folder: &Path,
    base: &str,
    query: &BlobQuery,
    max: usize,
    found: &mut Vec<BlobEntry>,
) -> Result<(), StoreError> {
    let after = query.after.as_ref().map_or("", BlobKey::as_str);
    for (name, kind) in entries(folder)? {
        if found.len() >= max {
            break;
        }
        let key = format!("{base}{name}");
        match kind {
            Kind::Folder => {
                let is_in_prefix = key.starts_with(&query.prefix) || query.prefix.starts_with(&key);
                let is_before = key.as_str() < after && !after.starts_with(&key);
                if is_in_prefix && !is_before {
                    walk(&folder.join(&name), &key, query, max, found)?;
                }
            }
            Kind::Blob if key.as_str() > after && key.starts_with(&query.prefix) => {
                let Ok(key) = key.parse() else { continue };
                match sidecar::read(&folder.join(format!("{name}@{META}"))) {
                    Ok(Some(sidecar)) => {
                        let stored_at = sidecar.stored_at();
                        found.push(BlobEntry { key, size: sidecar.size, stored_at });
                    }
                    // It has just been deleted.
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "a blob cannot be listed"),
                }
            }
            Kind::Blob => {}
        }
    }
    Ok(())
}

/// Blobs and folders of a folder; folders have a slash at the end of their names.
pub(super) fn entries(folder: &Path) -> Result<BTreeMap<String, Kind>, StoreError> {
    let mut found = BTreeMap::new();
    let listed = match fs::read_dir(folder) {
        Err(error) if sidecar::is_missing(&error) => return Ok(found),
        listed => listed.map_err(|error| failed("list", folder, &error))?,
    };
    for entry in listed {
        let entry = entry.map_err(|error| failed("list", folder, &error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        match name.rsplit_once('@') {
            Some((name, META)) => drop(found.insert(name.to_owned(), Kind::Blob)),
            Some(_) => {}
            None if entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                found.insert(format!("{name}/"), Kind::Folder);
            }
            None => {}
        }
    }
    Ok(found)
}
