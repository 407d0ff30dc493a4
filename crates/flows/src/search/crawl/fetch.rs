//! Step fetch: requests the URL, and ends the crawl if the response has no page.

use super::{
    CrawlStep,
    page::{Exit, PageCrawl},
    response::{Response, classify},
};
use crawlway_clock::Backoff;
use crawlway_fetch::{FetchResponse, Request, Validators};
use crawlway_flow::{StageError, fail};
use crawlway_store::{Ticket, frontier};

impl PageCrawl<'_> {
    pub(super) async fn fetch(&mut self) -> Result<Box<FetchResponse>, Exit> {
        let options = &self.stage.options;
        let request = Request {
            url: self.url.clone(),
            ticket: Ticket::of(&format!("{} {}", self.id.as_str(), self.job.url)),
            validators: Validators {
                etag: self.job.validators.etag.clone(),
                last_modified: self.job.validators.last_modified.clone(),
            },
            ..options.request.clone()
        };
        let fetched = {
            // Cannot fail: the semaphore is never closed.
            let _slot = self.stage.slots.acquire().await;
            self.stage.fetcher.fetch(&request).await
        };
        fail::passed("crawl", CrawlStep::Fetched.name());
        let is_conditional = self.job.validators != frontier::Validators::default();
        let host_delay =
            Backoff::new(options.host_retry_delay, options.max_host_retry_delay).delay(self.attempt.max(1));
        let response = classify(fetched, &self.url, is_conditional, host_delay, self.clock)?;
        self.now = self.clock.now();
        self.note.requested = true;
        self.note.facts.fetched = true;
        self.note.facts.crawled_at = Some(self.now);
        self.mark_seen(&self.job.url.clone());
        match response {
            Response::Page(fetched) => Ok(fetched),
            Response::NotModified(fetched) => {
                self.note.facts.validators = validators(&fetched, self.job.validators.clone());
                Err(Exit::Ended { outcome: "unchanged", detail: None })
            }
            Response::NoPage { outcome, detail, requested, gone } => {
                self.end_without_page(requested, gone).await?;
                Err(Exit::ended(outcome, detail))
            }
            Response::RedirectDeferred { url, reason } => Err(self.pass_redirect_on(url, &reason).await?),
        }
    }

    /// Notes that the URL has no page. Without a request, its claims are released and it is not marked as seen.
    async fn end_without_page(&mut self, requested: bool, gone: bool) -> Result<(), StageError> {
        self.set_no_page();
        if gone {
            self.remove(self.job.url.clone());
        }
        if !requested {
            self.note.requested = false;
            self.note.facts.fetched = false;
            self.note.facts.crawled_at = None;
            self.effect().seen.clear();
            self.stage.claims.release(self.claimed, &self.owner).await?;
        }
        Ok(())
    }
}

/// Validators of the response, or else those of the previous one.
pub(super) fn validators(fetched: &FetchResponse, previous: frontier::Validators) -> frontier::Validators {
    let Validators { etag, last_modified } = Validators::of(&fetched.headers);
    frontier::Validators {
        etag: etag.or(previous.etag),
        last_modified: last_modified.or(previous.last_modified),
    }
}
