//! `[search]`: how much the flow `search` does at a time, and how long it waits.

use super::value::{ByteSize, Count, Span};
use crawlway_content::UrlOptions;
use crawlway_fetch::Request;
use crawlway_flows::search::{CrawlOptions, SearchSettings, Traps};
use crawlway_store::FrontierPolicy;
use serde::Deserialize;
use std::time::Duration;

const INDEX_MEMORY: (ByteSize, ByteSize) = (ByteSize(16 << 20), ByteSize(2 << 30));
const LARGEST_MESSAGE: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 30));

/// How the flow `search` works.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchTable {
    fetch_at_once: Count,
    recrawl_after: Span,
    max_attempts: Count,
    max_solo_crashes: Count,
    retry_after: Span,
    host_retry_delay: Span,
    longest_retry: Span,
    lease: Span,
    claim: Span,
    publish_noindex: bool,
    drop_parameters: Vec<String>,
    drop_tracking_parameters: bool,
    lowercase_paths: bool,
    pub(crate) index: IndexKind,
    index_batch: Count,
    index_linger: Span,
    index_memory: ByteSize,
    max_message: ByteSize,
    most_waiting: Count,
    max_waiting_urls: Count,
    max_waiting_urls_per_host: Count,
    drain: Span,
    traps: Traps,
}

/// What pages are searched in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IndexKind {
    Embedded,
    Postgresql,
}

impl SearchTable {
    /// How long a page need not be crawled again.
    pub(crate) fn recrawl_after(&self) -> Duration {
        self.recrawl_after.0
    }

    /// How much is put up with from sites that make up URLs without end.
    pub(crate) fn traps(&self) -> Traps {
        self.traps
    }

    /// The largest message that the index stage takes, in bytes.
    pub(crate) fn max_message(&self) -> usize {
        usize::try_from(self.max_message.0).unwrap_or(usize::MAX)
    }

    /// How long what is in flight may take at the end.
    pub(crate) fn drain(&self) -> Duration {
        self.drain.0
    }

    /// How the frontier treats URLs.
    pub(crate) fn policy(&self) -> FrontierPolicy {
        FrontierPolicy {
            lease: self.lease.0,
            max_attempts: self.max_attempts.0.get(),
            max_solo_crashes: self.max_solo_crashes.0.get(),
            most_waiting: u64::from(self.max_waiting_urls.0.get()),
            most_waiting_of_host: u64::from(self.max_waiting_urls_per_host.0.get()),
        }
    }

    /// Memory for pages that are being indexed, in bytes.
    pub(crate) fn index_memory(&self) -> usize {
        usize::try_from(self.index_memory.0).unwrap_or(usize::MAX)
    }

    /// How many deliveries of `crawler_queue` the index stage has to hold at once.
    pub(crate) fn least_prefetch(&self) -> u32 {
        self.index_batch.0.get().saturating_mul(2)
    }

    /// The flow's settings; pages are fetched on the terms of this request.
    pub(crate) fn settings(&self, request: Request) -> SearchSettings {
        let size = |ByteSize(bytes): ByteSize| usize::try_from(bytes).unwrap_or(usize::MAX);
        let count = |Count(number): Count| usize::try_from(number.get()).unwrap_or(usize::MAX);
        SearchSettings {
            fetch_at_once: count(self.fetch_at_once),
            crawl: CrawlOptions {
                request,
                claim: self.claim.0,
                host_retry: self.host_retry_delay.0,
                longest_retry: self.longest_retry.0,
                publish_noindex: self.publish_noindex,
                links: self.links(),
            },
            first_retry: self.retry_after.0,
            last_retry: self.longest_retry.0,
            index_batch: count(self.index_batch),
            index_linger: self.index_linger.0,
            largest_message: size(self.max_message),
            most_waiting: u64::from(self.most_waiting.0.get()),
            drain: self.drain.0,
        }
    }

    /// How links are brought into normal form.
    fn links(&self) -> UrlOptions {
        let mut options = if self.drop_tracking_parameters {
            UrlOptions::without_tracking()
        } else {
            UrlOptions::default()
        };
        options.drop_parameters.extend_from_slice(&self.drop_parameters);
        options.lowercase_paths = self.lowercase_paths;
        options
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.index_memory < INDEX_MEMORY.0 || self.index_memory > INDEX_MEMORY.1 {
            return Err("expected 16MiB to 2GiB".to_owned());
        }
        if self.max_message < LARGEST_MESSAGE.0 || self.max_message > LARGEST_MESSAGE.1 {
            return Err("expected 64KiB to 1GiB".to_owned());
        }
        if self.lease.0 < Duration::from_secs(1) || self.claim.0 < Duration::from_secs(1) {
            return Err("expected a duration of at least \"1s\"".to_owned());
        }
        if self.fetch_at_once.0.get() > 10_000 || self.index_batch.0.get() > 100_000 {
            return Err(
                "expected a number that one process can hold: up to 10000 pages, and 100000 in a batch"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
