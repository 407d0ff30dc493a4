//! Redirects: the target of a followed redirect is claimed too; a target that must not be requested now becomes an item
//! of its own.

use super::{
    OUT_OF_SCOPE,
    page::{Exit, PageCrawl},
};
use crate::search::scope::Scope;
use crawlway_content::{NormalUrl, url::normalise};
use crawlway_fetch::FetchResponse;
use crawlway_flow::StageError;

impl PageCrawl<'_> {
    /// URL under which the page is published: its own, or the claimed target of the redirect.
    pub(super) async fn resolve_redirect(&mut self, fetched: &FetchResponse) -> Result<NormalUrl, Exit> {
        let url = self.published_url(fetched.url.clone());
        if url == self.url {
            return Ok(url);
        }
        self.join_host(&url).await?;
        self.remove(self.job.url.clone());
        if let Err(reason) = self.settings.scope.has(&url) {
            return Err(self.redirected_out_of_scope(&url, reason));
        }
        if !self.stage.claims.claim_target(url.as_str(), &self.owner, self.max_age).await? {
            let detail = format!("redirected to {url}, which has an item of its own");
            return Err(self.redirected(url, detail));
        }
        self.claimed.push(url.as_str().to_owned());
        self.mark_seen(url.as_str());
        Ok(url)
    }

    /// Adds the target of a redirect to the frontier, since its host must not be requested now.
    pub(super) async fn pass_redirect_on(
        &mut self,
        target: NormalUrl,
        reason: &str,
    ) -> Result<Exit, StageError> {
        let target = self.published_url(target);
        self.join_host(&target).await?;
        self.remove(self.job.url.clone());
        if let Err(reason) = self.settings.scope.takes(&target) {
            return Ok(self.redirected_out_of_scope(&target, reason));
        }
        let link = self.crawled_instead(&target);
        self.effect().links.push(link);
        let detail = format!("redirected to {target}, which cannot be requested now: {reason}");
        Ok(self.redirected(target, detail))
    }

    /// URL without session ids and dropped parameters: with them, a page would have another URL at each visit.
    fn published_url(&self, url: NormalUrl) -> NormalUrl {
        Scope::tidy(normalise(url.as_str(), &self.stage.options.links).unwrap_or(url))
    }

    /// Adds the host that a seed redirects to to the scope.
    async fn join_host(&mut self, target: &NormalUrl) -> Result<(), StageError> {
        let joined = self.stage.settings.join_host(&self.settings, &self.job, target, self.now);
        if let Some(settings) = joined.await? {
            self.settings = settings;
        }
        Ok(())
    }

    fn redirected(&mut self, target: NormalUrl, detail: String) -> Exit {
        self.note.facts.links = Some(String::new());
        self.note.facts.canonical = Some(target.as_str().to_owned());
        let effect = self.effect();
        effect.canonical = Some(target.into_string());
        effect.redirected = true;
        Exit::ended("redirected", detail)
    }

    fn redirected_out_of_scope(&mut self, target: &NormalUrl, reason: &str) -> Exit {
        self.set_no_page();
        Exit::ended(OUT_OF_SCOPE, format!("redirected to {target}: {reason}"))
    }
}
