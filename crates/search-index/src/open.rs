//! The directory of an index: its version, and rebuilding an index of an older version.

use crate::{
    error::OpenError,
    merge::{Load, Policy},
    schema::{Fields, VERSION, register_tokenizer, schema, to_document},
    tombstones::Tombstones,
    urls,
};
use crawlway_lock::DirectoryLock;
use crawlway_store::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write},
    ops::ControlFlow,
    path::Path,
};
use tantivy::{
    Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, TantivyError, directory::MmapDirectory,
    store::Compressor,
};

const VERSION_FILE: &str = "index.json";
const FOLDER_PREFIX: &str = "pages-";

/// Contents of `index.json`. Replacing that file switches to a rebuilt index atomically.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    version: u32,
    /// Number of the folder that has the index; counts up with each rebuild.
    folder: u32,
}

impl Description {
    fn folder_name(&self) -> String {
        format!("{FOLDER_PREFIX}{}", self.folder)
    }
}

pub(crate) struct Opened {
    pub(crate) lock: DirectoryLock,
    pub(crate) index: Index,
    pub(crate) reader: IndexReader,
    pub(crate) fields: Fields,
    pub(crate) tombstones: Tombstones,
}

pub(crate) fn open(directory: &Path, memory: usize) -> Result<Opened, OpenError> {
    fs::create_dir_all(directory).map_err(|error| OpenError::io("create", directory, error))?;
    let lock = DirectoryLock::acquire(directory).map_err(|error| OpenError::locking(directory, error))?;
    let (_, fields) = schema();
    let description = match read_description(directory)? {
        None => {
            let description = Description { version: VERSION, folder: 1 };
            create(directory, &description)?;
            write_description(directory, &description)?;
            description
        }
        Some(description) if description.version == VERSION => description,
        Some(Description { version: found, .. }) if found > VERSION => {
            return Err(OpenError::Newer { directory: directory.to_owned(), found, known: VERSION });
        }
        Some(old) => rebuild(directory, &old, &fields, memory)?,
    };
    remove_other_folders(directory, &description)?;
    let (index, reader) = open_folder(directory, &description)?;
    if index.schema() != schema().0 {
        let detail = format!("its fields are not those of version {VERSION}, which it says it has");
        return Err(OpenError::Damaged { directory: directory.to_owned(), detail });
    }
    let tombstones = Tombstones::open(directory, Timestamp::now())?;
    Ok(Opened { lock, index, reader, fields, tombstones })
}

fn create(directory: &Path, description: &Description) -> Result<Index, OpenError> {
    let folder = directory.join(description.folder_name());
    // Left by a start that was killed before `index.json` was written.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| OpenError::io("remove", &folder, error))?;
    }
    fs::create_dir(&folder).map_err(|error| OpenError::io("create", &folder, error))?;
    let settings = IndexSettings {
        docstore_compression: Compressor::Lz4,
        // Passing pages to another thread costs more than compressing them.
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    };
    let failed = |error: TantivyError| OpenError::io("create the index in", &folder, io::Error::other(error));
    let store = MmapDirectory::open(&folder).map_err(|error| failed(error.into()))?;
    let index = Index::create(store, schema().0, settings).map_err(failed)?;
    register_tokenizer(&index);
    sync(&folder)?;
    Ok(index)
}

fn open_folder(directory: &Path, description: &Description) -> Result<(Index, IndexReader), OpenError> {
    let damaged = |error: TantivyError| OpenError::Damaged {
        directory: directory.to_owned(),
        detail: format!("{}: {error}", description.folder_name()),
    };
    let index = Index::open_in_dir(directory.join(description.folder_name())).map_err(damaged)?;
    register_tokenizer(&index);
    let reader = reader(&index).map_err(damaged)?;
    Ok((index, reader))
}

fn reader(index: &Index) -> tantivy::Result<IndexReader> {
    index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()
}

/// Rebuilds the index from the pages stored in the old one. The old one stays valid until the end, so a failure changes
/// nothing.
fn rebuild(
    directory: &Path,
    old: &Description,
    fields: &Fields,
    memory: usize,
) -> Result<Description, OpenError> {
    let (_, pages) = open_folder(directory, old)?;
    tracing::info!(
        pages = pages.searcher().num_docs(),
        from = old.version,
        to = VERSION,
        "rebuilding the search index"
    );
    let description = Description { version: VERSION, folder: old.folder.saturating_add(1) };
    let index = create(directory, &description)?;
    let folder = directory.join(description.folder_name());
    fill(&index, &pages, fields, memory)
        .map_err(|error| OpenError::io("rebuild the search index in", &folder, io::Error::other(error)))?;
    sync(&folder)?;
    write_description(directory, &description)?;
    Ok(description)
}

fn fill(index: &Index, pages: &IndexReader, fields: &Fields, memory: usize) -> tantivy::Result<()> {
    let mut writer: IndexWriter = index.writer_with_num_threads(1, memory)?;
    writer.set_merge_policy(Box::new(Policy::new(Load::Busy)));
    let failed =
        urls::each(&pages.searcher(), |page| match writer.add_document(to_document(fields, &page)) {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        })?;
    if let Some(error) = failed {
        return Err(error);
    }
    writer.commit()?;
    writer.wait_merging_threads()
}

fn read_description(directory: &Path) -> Result<Option<Description>, OpenError> {
    let path = directory.join(VERSION_FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io("read", &path, error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| OpenError::Damaged {
        directory: directory.to_owned(),
        detail: format!("{VERSION_FILE}: {error}"),
    })
}

fn write_description(directory: &Path, description: &Description) -> Result<(), OpenError> {
    let (path, new) = (directory.join(VERSION_FILE), directory.join("index.json.new"));
    let write = || {
        let mut file = File::create(&new)?;
        serde_json::to_writer(&mut file, description)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(|error| OpenError::io("write", &path, error))?;
    sync(directory)
}

fn sync(directory: &Path) -> Result<(), OpenError> {
    let synced = File::open(directory).and_then(|file| file.sync_all());
    synced.map_err(|error| OpenError::io("sync", directory, error))
}

/// Removes folders left by rebuilds.
fn remove_other_folders(directory: &Path, description: &Description) -> Result<(), OpenError> {
    let entries = fs::read_dir(directory).map_err(|error| OpenError::io("list", directory, error))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDER_PREFIX))
            .is_some_and(|n| n.parse::<u32>().is_ok());
        if ours && name != description.folder_name().as_str() {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(|error| OpenError::io("remove", &path, error))?;
        }
    }
    Ok(())
}
