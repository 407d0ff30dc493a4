//! The catalog: which queues there are, under which number the log knows them, and which are paused.

use crate::{
    disk::{Disk, DiskFile},
    error::OpenError,
};
use crawlway_broker::QueueSpec;
use crawlway_clock::Anchor;
use serde::{Deserialize, Serialize};
use std::io;

pub(crate) const FILE: &str = "queues.json";
pub(crate) const NEW_FILE: &str = "queues.json.new";
const FORMAT: u32 = 1;

/// Everything about the directory that is not in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Catalog {
    format: u32,
    /// Tells this directory's segments from any other's.
    pub(crate) directory: u64,
    /// No segment has had this number or a higher one. Numbers are never given twice: a record is known
    /// by its place for as long as a copy of it names that place.
    pub(crate) unused_segment: u32,
    /// No dead letter has had this number or a higher one. Numbers are never given twice: an id that was written down names one letter.
    #[serde(default)]
    pub(crate) unused_death: u64,
    /// How the clock stood when the times in the log were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) anchor: Option<Anchor>,
    pub(crate) queues: Vec<CatalogQueue>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CatalogQueue {
    pub(crate) number: u16,
    pub(crate) paused: bool,
    pub(crate) spec: QueueSpec,
}

impl Catalog {
    pub(crate) fn new(directory: u64) -> Self {
        Self {
            format: FORMAT,
            directory,
            unused_segment: 1,
            unused_death: 0,
            anchor: None,
            queues: Vec::new(),
        }
    }

    /// Reads the catalog; `None` if there is none yet.
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>, OpenError> {
        let path = disk.path().join(FILE);
        let damaged = |problem: String| OpenError::Catalog { path: path.clone(), problem };
        let text = match read_all(disk) {
            Ok(bytes) => String::from_utf8(bytes).map_err(|_| damaged("it is not text".into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io("read", &path, error)),
        };
        let (json, checksum) = text
            .strip_suffix('\n')
            .and_then(|text| text.rsplit_once('\n'))
            .ok_or_else(|| damaged("it has no checksum".into()))?;
        if checksum != checksum_line(json) {
            return Err(damaged("its checksum is wrong".into()));
        }
        let catalog: Catalog = serde_json::from_str(json).map_err(|error| damaged(error.to_string()))?;
        if catalog.format != FORMAT {
            return Err(damaged(format!("it has format {}, this program knows {FORMAT}", catalog.format)));
        }
        Ok(Some(catalog))
    }

    /// Replaces the catalog on disk, durably and all at once.
    pub(crate) fn save(&self, disk: &dyn Disk) -> io::Result<()> {
        let json = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        let text = format!("{json}\n{}\n", checksum_line(&json));
        let file = disk.create(NEW_FILE)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        disk.rename(NEW_FILE, FILE)?;
        disk.sync_dir()
    }
}

fn read_all(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open(FILE)?;
    let mut bytes = vec![0; usize::try_from(DiskFile::len(&*file)?).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn checksum_line(json: &str) -> String {
    format!("checksum {:08x}", crc32fast::hash(json.as_bytes()))
}
