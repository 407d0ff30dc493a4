//! Removing pages from the index.

use crate::{problem::Problem, shape::RemovedPages};
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_store::{
    PageIndex,
    pages::{Search, query::Query},
};

/// How many pages are removed together.
const TOGETHER: usize = 500;

/// Removes the pages of these URLs.
pub async fn remove_urls(index: &dyn PageIndex, urls: &[String]) -> Result<RemovedPages, Problem> {
    let mut known = Vec::new();
    for url in urls {
        let url = normalise(url, &UrlOptions::default())
            .map_err(|error| Problem::invalid(format!("`{url}`: {error}")).field("url"))?;
        known.push(url.into_string());
    }
    Ok(RemovedPages { removed: index.remove(&known, None).await? })
}

/// Removes the pages of a host and of its subdomains, as `host:` finds them.
pub async fn remove_host(index: &dyn PageIndex, host: &str) -> Result<RemovedPages, Problem> {
    let query = of_host(host)?;
    let mut removed = 0;
    loop {
        let found =
            index.search(&Search { limit: TOGETHER, fold: false, ..Search::new(query.clone()) }).await?;
        let urls: Vec<String> = found.hits.into_iter().map(|hit| hit.url).collect();
        let now = if urls.is_empty() { 0 } else { index.remove(&urls, None).await? };
        removed += now;
        // Pages that are found and cannot be removed are being removed by another process.
        if now == 0 {
            return Ok(RemovedPages { removed });
        }
    }
}

/// How many pages a host and its subdomains have.
pub async fn pages_of_host(index: &dyn PageIndex, host: &str) -> Result<u64, Problem> {
    let search = Search { limit: 1, fold: false, ..Search::new(of_host(host)?) };
    Ok(index.search(&search).await?.total)
}

/// The query that finds all pages of a host.
fn of_host(host: &str) -> Result<String, Problem> {
    let query = format!("host:{host}");
    match Query::parse(&query) {
        Ok(Query::Host(_)) => Ok(query),
        _ => Err(Problem::invalid(format!("`{host}` is no host; write its name alone, such as example.org"))
            .field("host")),
    }
}
