//! Step publish: the message for `crawler_queue`, which the runner publishes. `../reindex.rs` publishes the same message for stored pages.

use super::{page::PageCrawl, parse::Parsed};
use crate::search::message::{Metadata, PageMessage, cut};
use crawlway_broker::Outgoing;
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, Page};
use crawlway_fetch::FetchResponse;

/// Maximum size of a title or a description, in bytes.
const MAX_TITLE_BYTES: usize = 16 << 10;

/// Body of the message of a page.
pub(in crate::search) fn page_body(
    url: NormalUrl,
    mut page: Page,
    fetched_at: Timestamp,
    status: u16,
    truncated: bool,
    max_bytes: usize,
) -> Vec<u8> {
    cut(&mut page.title, MAX_TITLE_BYTES);
    if let Some(description) = &mut page.description {
        cut(description, MAX_TITLE_BYTES);
    }
    let metadata = Metadata {
        title: page.title,
        description: page.description,
        timestamp: fetched_at.to_iso(),
        status_code: i64::from(status),
    };
    PageMessage::body(url.into_string(), page.text, metadata, truncated, max_bytes)
}

impl PageCrawl<'_> {
    pub(super) fn message(&mut self, parsed: Parsed, mut fetched: FetchResponse, url: NormalUrl) -> Outgoing {
        let Parsed { page, truncated, .. } = parsed;
        let (status, max_bytes) = (fetched.status.as_u16(), self.stage.max_message_bytes);
        let body = page_body(url, page, self.now, status, truncated, max_bytes);
        // From here on only the message needs memory.
        fetched.memory_reservation.shrink_to(body.len());
        self.effect().share = Some(fetched.memory_reservation);
        Outgoing::to_queue(&self.stage.queue, body).id(self.id.clone())
    }
}
