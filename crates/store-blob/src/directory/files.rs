//! Names and places of the files, the lock, and the secret of the links.

use crawlway_store::{
    StoreError,
    blobs::{BlobKey, LinkSigner},
};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Name of the lock file.
pub(super) const LOCK: &str = ".lock";
/// Name of the file with the secret of the links.
const SECRET: &str = ".link-secret";
/// End of the name of a sidecar.
pub(super) const META: &str = "meta";
/// Maximum length of a segment, so that a suffix fits into a file name.
const MAX_NAME_BYTES: usize = 200;

/// Open directory of blobs.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    signer: OnceLock<LinkSigner>,
}

/// Exclusive lock on changes, released on drop.
pub(super) struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Place of a blob: its folder, and the name that its files begin with.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    name: String,
}

impl Place {
    pub(super) fn sidecar(&self) -> PathBuf {
        self.folder.join(format!("{}@{META}", self.name))
    }

    pub(super) fn content(&self, generation: &str) -> PathBuf {
        self.folder.join(format!("{}@{generation}", self.name))
    }

    /// Sidecar that is being written.
    pub(super) fn next_sidecar(&self, generation: &str) -> PathBuf {
        self.folder.join(format!("{}@{generation}-{META}", self.name))
    }
}

impl Files {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, signer: OnceLock::new() }
    }

    /// Whether anything was ever stored.
    pub(super) fn exist(&self) -> bool {
        self.root.exists()
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> Result<Locked, StoreError> {
        let path = self.root.join(LOCK);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|error| failed("open", &path, &error))?;
        file.lock().map_err(|error| failed("lock", &path, &error))?;
        Ok(Locked(file))
    }

    /// Place of a blob.
    pub(super) fn place(&self, key: &BlobKey) -> Result<Place, StoreError> {
        let refuse = |what: &str| {
            Err(StoreError::Invalid { problem: format!("key `{key}` cannot be a file: {what}") })
        };
        let mut folder = self.root.clone();
        let mut name = String::new();
        for segment in key.segments() {
            if segment.starts_with('.') {
                return refuse("a segment begins with a dot, which is `%2E` in a name");
            }
            if segment.contains('@') {
                return refuse("it has an `@`, which is `%40` in a name");
            }
            if segment.len() > MAX_NAME_BYTES {
                return refuse("a segment is longer than 200 bytes");
            }
            if !name.is_empty() {
                folder.push(&name);
            }
            segment.clone_into(&mut name);
        }
        Ok(Place { folder, name })
    }

    /// Signer of links, if one was ever made.
    pub(super) fn signer(&self) -> Result<Option<LinkSigner>, StoreError> {
        if let Some(signer) = self.signer.get() {
            return Ok(Some(signer.clone()));
        }
        let path = self.root.join(SECRET);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, &error)),
        };
        let secret = bytes.try_into().map_err(|_| StoreError::Unavailable {
            detail: format!(
                "`{}` is damaged; delete it, and the links that were made with it become invalid",
                path.display()
            ),
        })?;
        Ok(Some(self.signer.get_or_init(|| LinkSigner::new(secret)).clone()))
    }

    /// Signer of links. The first process makes its secret: 32 random bytes.
    pub(super) fn make_signer(&self) -> Result<LinkSigner, StoreError> {
        create_folders(&self.root).map_err(|error| failed("create", &self.root, &error))?;
        let _lock = self.lock()?;
        if let Some(signer) = self.signer()? {
            return Ok(signer);
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| StoreError::Unavailable {
            detail: format!("there are no random numbers: {error}"),
        })?;
        let (path, temporary) = (self.root.join(SECRET), self.root.join(format!("{SECRET}-new")));
        write_file(&temporary, &secret).map_err(|error| failed("write", &temporary, &error))?;
        let renamed = fs::rename(&temporary, &path).and_then(|()| sync_folder(&self.root));
        renamed.map_err(|error| failed("write", &path, &error))?;
        Ok(self.signer.get_or_init(|| LinkSigner::new(secret)).clone())
    }
}

/// Writes and syncs a file that only this account can read.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Creates a folder with its parents, and syncs what was created.
pub(super) fn create_folders(folder: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut existing = folder;
    while !existing.as_os_str().is_empty() && !existing.exists() {
        missing.push(existing);
        existing = existing.parent().unwrap_or(Path::new(""));
    }
    for folder in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub(super) fn failed(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable { detail: format!("cannot {doing} `{}`: {error}", path.display()) }
}
