//! The stage `export`: writes crawled pages to a file, one JSON object a line, instead of indexing them.

use super::message::{self, CheckedPage, Metadata, PageMessage};
use crawlway_broker::Delivery;
use crawlway_flow::{Context, EffectError, Invalid, Item, Output, Stage, StageError};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// A file of lines that grows. Each line is a page message as `crawler_queue` has it. A page whose worker was killed in
/// between may be there twice; none is missing.
#[derive(Debug)]
pub struct Export {
    path: PathBuf,
    file: Mutex<File>,
}

impl Export {
    /// Opens the file to add to it, new if there is none. A last line that a kill has cut off is taken away.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let whole = end_of_last_line(&mut file)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Adds lines, all or none of them, and returns when they are on the disk.
    fn add(&self, lines: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let before = file.stream_position()?;
        let added = file.write_all(lines).and_then(|()| file.sync_data());
        if added.is_err() {
            // Half a line would spoil the next one.
            let _ = file.set_len(before);
            let _ = file.seek(SeekFrom::Start(before));
        }
        added
    }
}

/// Where the last whole line ends.
fn end_of_last_line(file: &mut File) -> io::Result<u64> {
    const CHUNK: u64 = 64 << 10;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(start))?;
        buffer.resize(usize::try_from(end - start).unwrap_or(0), 0);
        file.read_exact(&mut buffer)?;
        if let Some(at) = buffer.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The stage.
#[derive(Debug)]
pub(super) struct ExportStage {
    export: Arc<Export>,
    largest_message: usize,
}

impl ExportStage {
    pub(super) fn new(export: Arc<Export>, largest_message: usize) -> Self {
        Self { export, largest_message }
    }
}

#[async_trait::async_trait]
impl Stage for ExportStage {
    type In = CheckedPage;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        "export"
    }

    fn decode(&self, delivery: &Delivery) -> Result<CheckedPage, Invalid> {
        message::read(&delivery.message.body, self.largest_message)
    }

    fn subject(&self, page: &CheckedPage) -> Option<String> {
        Some(page.url.as_str().to_owned())
    }

    async fn run(
        &self,
        batch: Vec<Item<CheckedPage>>,
        _context: &Context,
    ) -> Vec<Result<Output<(), ()>, StageError>> {
        let count = batch.len();
        let export = self.export.clone();
        let written = tokio::task::spawn_blocking(move || export.add(&lines(batch))).await;
        let trouble = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("cannot write to `{}`: {error}", self.export.path.display())),
            Err(error) => Some(error.to_string()),
        };
        let ended = || match &trouble {
            None => Ok(Output::nothing("exported")),
            Some(error) => Err(StageError::Ours { error: error.clone() }),
        };
        (0..count).map(|_| ended()).collect()
    }

    async fn after_publish(&self, _effects: &[&()], _context: &Context) -> Result<(), EffectError> {
        Ok(())
    }
}

fn lines(batch: Vec<Item<CheckedPage>>) -> Vec<u8> {
    let mut lines = Vec::new();
    for Item { value: page, .. } in batch {
        let message = PageMessage {
            url: page.url.into_string(),
            text: page.text,
            metadata: Metadata {
                title: page.title,
                description: page.description,
                timestamp: page.crawled_at.to_iso(),
                status_code: i64::from(page.status_code),
            },
        };
        // Nothing in the message can fail to be written, and no line break is in it.
        if serde_json::to_writer(&mut lines, &message).is_ok() {
            lines.push(b'\n');
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_and_a_line_that_was_cut_off_is_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pages.jsonl");
        for (before, kept) in [("", ""), ("{}\n", "{}\n"), ("{}\n{\"url", "{}\n"), ("{\"url", "")] {
            std::fs::write(&path, before).unwrap();
            Export::open(&path).unwrap().add(b"[1]\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{kept}[1]\n"));
        }
        let long = format!("{}\n", "x".repeat(200_000));
        std::fs::write(&path, format!("{long}{}", "y".repeat(100_000))).unwrap();
        Export::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), long);
    }
}
