//! Catalog: declared queues, their numbers in the log, and their pauses.

use crate::{
    disk::{Disk, read_whole},
    error::OpenError,
};
use crawlway_broker::QueueSpec;
use crawlway_clock::Anchor;
use serde::{Deserialize, Serialize};
use std::io;

pub(crate) const FILE: &str = "queues.json";
pub(crate) const NEW_FILE: &str = "queues.json.new";
const FORMAT: u32 = 1;

/// Metadata of the directory, kept outside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Catalog {
    format: u32,
    /// Random id of the directory, part of every segment's preamble and salt.
    pub(crate) directory: u64,
    /// Lowest segment number that was never used. Numbers are not reused, because copies refer to records by position.
    pub(crate) unused_segment: u32,
    /// Lowest dead-letter number that was never used. Numbers are not reused, because ids of dead letters are permanent.
    #[serde(default, rename = "unused_death")]
    pub(crate) unused_dead_letter: u64,
    /// Clock anchor at the time when the due times in the log were written.
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
            unused_dead_letter: 0,
            anchor: None,
            queues: Vec::new(),
        }
    }

    /// Reads the catalog; `None` if there is none yet.
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>, OpenError> {
        let path = disk.path().join(FILE);
        let damaged = |problem: String| OpenError::Catalog { path: path.clone(), problem };
        let text = match disk.open(FILE).and_then(|file| read_whole(&*file)) {
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

    /// Replaces the catalog on disk atomically and durably.
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

fn checksum_line(json: &str) -> String {
    format!("checksum {:08x}", crc32fast::hash(json.as_bytes()))
}
