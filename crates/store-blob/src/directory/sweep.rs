//! Sweeper: deletes expired blobs, remains of interrupted puts, and empty folders.

use super::{
    files::{Files, META, failed},
    list::{self, Kind},
    sidecar, write,
};
use crawlway_store::{StoreError, Timestamp};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Age of a file without a sidecar that no put can be writing any more.
const ABANDONED: Duration = Duration::from_secs(86_400);

/// Returns the number of expired blobs.
pub(super) fn sweep(files: &Files, retention: Option<Duration>, now: Timestamp) -> Result<u64, StoreError> {
    folder(files, files.root(), "", retention, now)
}

fn folder(
    files: &Files,
    path: &Path,
    base: &str,
    retention: Option<Duration>,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let mut deleted = 0;
    let mut in_use = HashSet::new();
    // Files are listed before sidecars are read, so that a new file of a later put is not among them.
    let mut leftovers = abandoned(path)?;
    for (name, kind) in list::entries(path)? {
        let key = format!("{base}{name}");
        if kind == Kind::Folder {
            let inner = path.join(&name);
            deleted += folder(files, &inner, &key, retention, now)?;
            // Fails unless it is empty.
            let _ = fs::remove_dir(&inner);
            continue;
        }
        let Ok(place) = key.parse().map_err(|_| ()).and_then(|key| files.place(&key).map_err(drop)) else {
            continue;
        };
        match sidecar::read(&place.sidecar()) {
            Ok(Some(sidecar)) => {
                let has_expired =
                    |at: Timestamp| retention.is_some_and(|retention| now.since(at) >= retention);
                if has_expired(sidecar.stored_at()) {
                    let is_still = |found: Option<&sidecar::Sidecar>| found == Some(&sidecar);
                    deleted += u64::from(write::delete(files, &place, is_still)?);
                }
                in_use.insert(place.content(&sidecar.generation));
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "a blob cannot be read; unused files of its folder are kept");
                leftovers.clear();
            }
        }
    }
    for leftover in leftovers.into_iter().filter(|path| !in_use.contains(path)) {
        let _ = fs::remove_file(leftover);
    }
    Ok(deleted)
}

/// Old files of a folder that are no sidecars.
fn abandoned(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    let Ok(listed) = fs::read_dir(folder) else { return Ok(found) };
    for entry in listed {
        let entry = entry.map_err(|error| failed("list", folder, &error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_content = name.rsplit_once('@').is_some_and(|(_, end)| end != META);
        let modified = entry.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default();
        if is_content && age >= ABANDONED {
            found.push(entry.path());
        }
    }
    Ok(found)
}
