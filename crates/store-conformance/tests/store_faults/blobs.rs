//! Faults of the blobs.

use super::{Answer, faulty, finds};
use crawlway_clock::{Clock, ManualClock, Timestamp};
use crawlway_store::{BlobStore, blobs::*};
use crawlway_store_blob::{DirectoryBlobs, DirectoryOptions};
use crawlway_store_conformance::{Backend, Harness};
use futures::{StreamExt, stream};
use std::{sync::Arc, time::Duration};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// The metadata of a replaced blob stay.
    KeepsMetadata,
    /// What was read before an error is stored.
    StoresTorn,
    /// The content is read only when it is polled.
    ReadsLate,
    /// Keys are compared without their case.
    FoldsCase,
    /// The last key of a page is listed again.
    RepeatsKeys,
    /// A prefix is a folder.
    PrefixIsFolder,
    DeletesNothing,
    SweepsNothing,
    ForgetsHash,
    NeverExpires,
}
use Fault::*;

fn key_for(fault: Fault, key: &BlobKey) -> BlobKey {
    let folded = key.as_str().to_ascii_lowercase().parse().expect("a key");
    if fault == FoldsCase { folded } else { key.clone() }
}

faulty! { BlobStore {
        check_link(key: &BlobKey, expires: u64, signature: &str) -> Result<(), LinkError>;
        ready() -> Answer<()>;
    }

    async fn put(&self, key: &BlobKey, metadata: &BlobMetadata, content: Content) -> Answer<BlobInfo> {
        let key = key_for(self.fault, key);
        let mut metadata = metadata.clone();
        if self.fault == KeepsMetadata && let Some(previous) = self.store.stat(&key).await? {
            metadata = previous.metadata;
        }
        let content = match self.fault {
            StoresTorn => content.take_while(|chunk| std::future::ready(chunk.is_ok())).boxed(),
            _ => content,
        };
        self.store.put(&key, &metadata, content).await
    }

    async fn get(&self, key: &BlobKey) -> Answer<Option<(BlobInfo, Content)>> {
        let key = key_for(self.fault, key);
        let found = self.store.get(&key).await?;
        if self.fault != ReadsLate {
            return Ok(found);
        }
        let store = self.store.clone();
        Ok(found.map(|(info, _)| {
            let late = stream::once(async move {
                match store.get(&key).await {
                    Ok(Some((_, content))) => content,
                    _ => stream::empty().boxed(),
                }
            });
            (info, late.flatten().boxed())
        }))
    }

    async fn stat(&self, key: &BlobKey) -> Answer<Option<BlobInfo>> {
        let found = self.store.stat(&key_for(self.fault, key)).await?;
        Ok(found.map(|info| BlobInfo { sha256: info.sha256.filter(|_| self.fault != ForgetsHash), ..info }))
    }

    async fn list(&self, query: &BlobQuery) -> Answer<BlobPage> {
        let mut query = query.clone();
        if self.fault == PrefixIsFolder && !query.prefix.is_empty() && !query.prefix.ends_with('/') {
            query.prefix.push('/');
        }
        let mut page = self.store.list(&query).await?;
        if self.fault == RepeatsKeys && query.after.is_some() {
            page.entries.extend(page.entries.last().cloned());
        }
        Ok(page)
    }

    async fn delete(&self, key: &BlobKey) -> Answer<()> {
        if self.fault == DeletesNothing { Ok(()) } else { self.store.delete(&key_for(self.fault, key)).await }
    }

    async fn link(&self, key: &BlobKey, valid_for: Duration) -> Answer<BlobLink> {
        let factor = if self.fault == NeverExpires { 1000 } else { 1 };
        self.store.link(key, valid_for * factor).await
    }

    async fn apply_retention(&self) -> Answer<u64> {
        if self.fault == SweepsNothing { Ok(0) } else { self.store.apply_retention().await }
    }

    fn location(&self) -> String {
        self.store.location()
    }
}

struct Directory {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
}

impl Directory {
    fn new() -> Self {
        let clock = ManualClock::at(Timestamp::now());
        Self { folder: tempfile::tempdir().expect("a temporary folder"), clock }
    }
}

impl Backend for Directory {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

#[async_trait::async_trait]
impl Harness<dyn BlobStore> for Directory {
    async fn fresh(&mut self, (): ()) -> Arc<dyn BlobStore> {
        let clock = Clock::Manual(self.clock.clone());
        Arc::new(DirectoryBlobs::new(DirectoryOptions { clock, ..DirectoryOptions::new(self.folder.path()) }))
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn BlobStore>> {
        Some(self.fresh(()).await)
    }
}

finds! { blobs on dyn BlobStore, Directory::new();
    KeepsMetadata: writing::a_replaced_blob_has_nothing_of_the_previous_one;
    StoresTorn: writing::a_content_that_fails_changes_nothing;
    ReadsLate: writing::a_blob_can_be_read_while_it_is_replaced_and_deleted;
    FoldsCase: writing::odd_names_are_kept_apart, listing::keys_are_listed_in_byte_order;
    RepeatsKeys: listing::pages_have_every_key_once;
    PrefixIsFolder: listing::a_prefix_is_compared_by_bytes;
    DeletesNothing: writing::a_deleted_blob_is_gone_and_can_be_deleted_again, load::handles_share_their_state;
    SweepsNothing: retention::expired_blobs_are_deleted_and_others_kept;
    ForgetsHash: writing::a_blob_comes_back_with_its_metadata;
    NeverExpires: listing::links_expire_as_wanted;
}
