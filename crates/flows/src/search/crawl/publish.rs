//! Step publish: the message for `crawler_queue`, which the runner publishes. `../reindex.rs` publishes the same message for stored pages.

use super::{page::PageCrawl, parse::Parsed};
use crate::search::message::{Metadata, PageMessage, cut};
use crawlway_broker::Outgoing;
use crawlway_content::NormalUrl;
use crawlway_fetch::FetchResponse;

/// Maximum size of a title or a description, in bytes.
const MAX_TITLE_BYTES: usize = 16 << 10;

impl PageCrawl<'_> {
    pub(super) fn message(&mut self, parsed: Parsed, mut fetched: FetchResponse, url: NormalUrl) -> Outgoing {
        let Parsed { mut page, truncated, .. } = parsed;
        cut(&mut page.title, MAX_TITLE_BYTES);
        if let Some(description) = &mut page.description {
            cut(description, MAX_TITLE_BYTES);
        }
        let metadata = Metadata {
            title: page.title,
            description: page.description,
            timestamp: self.now.to_iso(),
            status_code: i64::from(fetched.status.as_u16()),
        };
        let max_bytes = self.stage.max_message_bytes;
        let body = PageMessage::body(url.into_string(), page.text, metadata, truncated, max_bytes);
        // From here on only the message needs memory.
        fetched.memory_reservation.shrink_to(body.len());
        self.effect().share = Some(fetched.memory_reservation);
        Outgoing::to_queue(&self.stage.queue, body).id(self.id.clone())
    }
}
