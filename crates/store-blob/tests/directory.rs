//! Conformance suite of the blobs on a directory, and what is its own: files, links, kills.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

use crawlway_clock::{Clock, ManualClock};
use crawlway_store::{
    BlobStore, StoreError, Timestamp,
    blobs::{BlobKey, BlobMetadata, LinkError, LinkTarget, collect, once},
};
use crawlway_store_blob::{DirectoryBlobs, DirectoryOptions};
use crawlway_store_conformance::{Backend, Harness, blobs::kill};
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

struct DirectoryHarness {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
}

impl DirectoryHarness {
    fn new() -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
        Self { folder: tempfile::tempdir().unwrap(), clock }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("deep/blobs")
    }

    fn open(&self) -> DirectoryBlobs {
        let clock = Clock::Manual(self.clock.clone());
        DirectoryBlobs::new(DirectoryOptions { clock, ..DirectoryOptions::new(self.path()) })
    }
}

#[async_trait::async_trait]
impl Backend for DirectoryHarness {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

#[async_trait::async_trait]
impl Harness<dyn BlobStore> for DirectoryHarness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn BlobStore> {
        Arc::new(self.open())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn BlobStore>> {
        Some(Arc::new(self.open()))
    }
}

crawlway_store_conformance::blobs!(DirectoryHarness::new());

fn key(text: &str) -> BlobKey {
    text.parse().unwrap()
}

/// Names of all files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_blob_is_two_files_that_only_the_account_can_read() {
    let harness = DirectoryHarness::new();
    let store = harness.open();
    for content in ["one", "two"] {
        let metadata = BlobMetadata { url: Some("https://a.example/".to_owned()), ..Default::default() };
        store.put(&key("raw/a/1.html"), &metadata, once(content)).await.unwrap();
    }
    let folder = harness.path().join("raw/a");
    let names = files(&folder);
    assert_eq!(names.len(), 2, "the previous content is deleted: {names:?}");
    for name in &names {
        let mode = fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}");
    }
    let sidecar: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("1.html@meta")).unwrap()).unwrap();
    assert_eq!(sidecar["url"], "https://a.example/");
    assert_eq!(sidecar["stored_at"], "2023-11-14T22:13:20.000Z");
}

#[tokio::test]
async fn looking_creates_nothing() {
    let harness = DirectoryHarness::new();
    let store = harness.open();
    assert!(store.get(&key("raw/a/1.html")).await.unwrap().is_none());
    store.delete(&key("raw/a/1.html")).await.unwrap();
    assert_eq!((store.apply_retention().await, store.ready().await), (Ok(0), Ok(())));
    assert_eq!(store.check_link(&key("a"), u64::MAX, "00").await, Err(LinkError::Forged));
    assert!(!harness.path().exists());
}

#[tokio::test]
async fn keys_that_cannot_be_files_are_refused() {
    let store = DirectoryHarness::new().open();
    for wrong in ["a/.hidden", ".lock", "a@b", "a@meta", &"x".repeat(201)] {
        let put = store.put(&key(wrong), &BlobMetadata::default(), once("a")).await;
        assert!(matches!(put, Err(StoreError::Invalid { .. })), "{wrong}: {put:?}");
        assert!(store.get(&key(wrong)).await.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn the_sweeper_deletes_old_leftovers_and_empty_folders_only() {
    let harness = DirectoryHarness::new();
    let store = harness.open();
    store.put(&key("raw/a/1.html"), &BlobMetadata::default(), once("one")).await.unwrap();
    let folder = harness.path().join("raw/a");
    let old = std::time::SystemTime::now() - Duration::from_secs(90_000);
    for (name, is_old) in [("1.html@0000000000000001", true), ("2.html@0000000000000002", false)] {
        let file = fs::File::create(folder.join(name)).unwrap();
        if is_old {
            file.set_modified(old).unwrap();
        }
    }
    fs::create_dir_all(harness.path().join("raw/empty/folder")).unwrap();
    let content = files(&folder).into_iter().find(|name| name.len() == 23 && !name.contains("@000")).unwrap();
    fs::File::options().write(true).open(folder.join(&content)).unwrap().set_modified(old).unwrap();
    assert_eq!(store.apply_retention().await, Ok(0));
    let names = files(&folder);
    assert!(names.contains(&content) && names.contains(&"2.html@0000000000000002".to_owned()), "{names:?}");
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(!harness.path().join("raw/empty").exists());
    assert!(store.get(&key("raw/a/1.html")).await.unwrap().is_some());
}

#[tokio::test]
async fn damage_is_noticed() {
    let harness = DirectoryHarness::new();
    let store = harness.open();
    store.put(&key("raw/a/1.html"), &BlobMetadata::default(), once("content")).await.unwrap();
    let folder = harness.path().join("raw/a");
    let name = files(&folder).into_iter().find(|name| !name.ends_with("@meta")).unwrap();
    for damaged in ["CONTENT", "conten", "contents"] {
        fs::write(folder.join(&name), damaged).unwrap();
        let (_, content) = store.get(&key("raw/a/1.html")).await.unwrap().unwrap();
        let error = collect(content, 100).await.unwrap_err().to_string();
        assert!(error.contains("`raw/a/1.html` is damaged"), "{error}");
    }
    fs::write(folder.join("1.html@meta"), "{").unwrap();
    assert!(store.stat(&key("raw/a/1.html")).await.unwrap_err().to_string().contains("damaged"));
    store.put(&key("raw/a/1.html"), &BlobMetadata::default(), once("again")).await.unwrap();
    assert!(store.get(&key("raw/a/1.html")).await.unwrap().is_some());
}

#[tokio::test]
async fn links_of_one_handle_are_checked_by_another_until_they_expire() {
    let harness = DirectoryHarness::new();
    let link = harness.open().link(&key("raw/a/1.html"), Duration::from_secs(60)).await.unwrap();
    let LinkTarget::Gateway(target) = link.target else { panic!("{link:?}") };
    let (_, query) = target.split_once("?expires=").unwrap();
    let (expires, signature) = query.split_once("&signature=").unwrap();
    let expires: u64 = expires.parse().unwrap();
    let other = harness.open();
    assert_eq!(other.check_link(&key("raw/a/1.html"), expires, signature).await, Ok(()));
    let forged = other.check_link(&key("raw/a/2.html"), expires, signature).await;
    assert_eq!(forged, Err(LinkError::Forged));
    harness.clock.advance(Duration::from_secs(60));
    let expired = other.check_link(&key("raw/a/1.html"), expires, signature).await;
    assert_eq!(expired, Err(LinkError::Expired(link.expires_at)));
}

/// Environment variables of a child: its directory, and the number to begin with.
const CHILD: &str = "CRAWLWAY_TEST_BLOB_CHILD";

/// What a child does; without the variable it is no test.
#[tokio::test]
async fn child() {
    let Ok(variable) = std::env::var(CHILD) else { return };
    let (from, path) = variable.split_once(' ').unwrap();
    let store = DirectoryBlobs::new(DirectoryOptions::new(path));
    kill::work(&store, from.parse().unwrap(), |number| {
        use std::io::Write;
        writeln!(std::io::stdout(), "put {number}").unwrap();
    })
    .await;
}

#[tokio::test]
async fn killed_writers_leave_whole_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryBlobs::new(DirectoryOptions::new(folder.path()));
    let (mut next, mut told) = (0, None);
    for run in 0..25u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, format!("{next} {}", folder.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        let mut is_killed = false;
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.rsplit_once("put ").and_then(|(_, number)| number.parse().ok()) {
                told = Some(number);
                seen += 1;
            }
            if seen > run % 5 && !is_killed {
                std::thread::sleep(Duration::from_micros(run * 997 % 5000));
                child.kill().unwrap();
                is_killed = true;
            }
        }
        assert_eq!(child.wait().unwrap().code(), None, "it is killed");
        next = kill::check(&store, told).await;
    }
    assert!(next > 50, "the children got to work: {next}");
}
