//! `[search]`: settings of the flow `search`.

use super::value::{ByteSize, Count, Span};
use crawlway_content::UrlOptions;
use crawlway_fetch::Request;
use crawlway_flows::search::{CrawlOptions, SearchSettings, Traps};
use crawlway_store::FrontierPolicy;
use serde::Deserialize;
use std::time::Duration;

const INDEX_MEMORY: (ByteSize, ByteSize) = (ByteSize(16 << 20), ByteSize(2 << 30));
const MESSAGE_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 30));

/// Settings of the flow `search`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchTable {
    broker: String,
    concurrency: Count,
    recrawl_after: Span,
    max_attempts: Count,
    max_solo_crashes: Count,
    retry_delay: Span,
    host_retry_delay: Span,
    max_retry_delay: Span,
    lease: Span,
    claim_ttl: Span,
    publish_noindex: bool,
    pub(crate) keep_html: bool,
    drop_parameters: Vec<String>,
    drop_tracking_parameters: bool,
    lowercase_paths: bool,
    pub(crate) index: IndexKind,
    index_batch: Count,
    index_linger: Span,
    index_memory: ByteSize,
    max_message: ByteSize,
    max_pending_pages: Count,
    max_pending_urls: Count,
    max_pending_urls_per_host: Count,
    drain_timeout: Span,
    traps: Traps,
}

/// Backend of the search index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IndexKind {
    Embedded,
    Postgresql,
}

impl SearchTable {
    /// Name of the broker of the flow's queues; empty for that of all queues.
    pub(crate) fn broker(&self) -> &str {
        &self.broker
    }

    /// Time after which a page is crawled again.
    pub(crate) fn recrawl_after(&self) -> Duration {
        self.recrawl_after.0
    }

    /// Limits against crawler traps.
    pub(crate) fn traps(&self) -> Traps {
        self.traps
    }

    /// Maximum size of a message for the index stage, in bytes.
    pub(crate) fn max_message(&self) -> usize {
        usize::try_from(self.max_message.0).unwrap_or(usize::MAX)
    }

    /// Timeout of a graceful shutdown.
    pub(crate) fn drain(&self) -> Duration {
        self.drain_timeout.0
    }

    /// Leases, attempts and limits of the frontier.
    pub(crate) fn policy(&self) -> FrontierPolicy {
        FrontierPolicy {
            lease: self.lease.0,
            max_attempts: self.max_attempts.0.get(),
            max_solo_crashes: self.max_solo_crashes.0.get(),
            max_pending: u64::from(self.max_pending_urls.0.get()),
            max_pending_per_host: u64::from(self.max_pending_urls_per_host.0.get()),
        }
    }

    /// Memory of the index writer, in bytes.
    pub(crate) fn index_memory(&self) -> usize {
        usize::try_from(self.index_memory.0).unwrap_or(usize::MAX)
    }

    /// Minimum prefetch of `crawler_queue`: two index batches.
    pub(crate) fn min_prefetch(&self) -> u32 {
        self.index_batch.0.get().saturating_mul(2)
    }

    /// Settings of the flow, with this request as the template of its fetches.
    pub(crate) fn settings(&self, request: Request) -> SearchSettings {
        let size = |ByteSize(bytes): ByteSize| usize::try_from(bytes).unwrap_or(usize::MAX);
        let count = |Count(number): Count| usize::try_from(number.get()).unwrap_or(usize::MAX);
        SearchSettings {
            fetch_concurrency: count(self.concurrency),
            crawl: CrawlOptions {
                request,
                claim_lease: self.claim_ttl.0,
                host_retry_delay: self.host_retry_delay.0,
                max_host_retry_delay: self.max_retry_delay.0,
                publish_noindex: self.publish_noindex,
                links: self.links(),
            },
            retry_delay: self.retry_delay.0,
            max_retry_delay: self.max_retry_delay.0,
            index_batch: count(self.index_batch),
            index_linger: self.index_linger.0,
            max_message_bytes: size(self.max_message),
            max_pending_pages: u64::from(self.max_pending_pages.0.get()),
            drain: self.drain_timeout.0,
        }
    }

    /// URL normalisation of links.
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
        if self.max_message < MESSAGE_SIZES.0 || self.max_message > MESSAGE_SIZES.1 {
            return Err("expected 64KiB to 1GiB".to_owned());
        }
        if self.lease.0 < Duration::from_secs(1) || self.claim_ttl.0 < Duration::from_secs(1) {
            return Err("expected a duration of at least \"1s\"".to_owned());
        }
        if self.concurrency.0.get() > 10_000 || self.index_batch.0.get() > 100_000 {
            return Err(
                "expected a number that one process can hold: up to 10000 pages, and 100000 in a batch"
                    .to_owned(),
            );
        }
        Ok(())
    }
}
