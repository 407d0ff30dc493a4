//! Removing pages from the index.

use crate::{dto::RemovedPages, service::Error};
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_store::{
    PageIndex,
    pages::{SearchRequest, query::Query},
};

/// Number of pages per removal.
const BATCH: usize = 500;

/// Removes the pages of these URLs.
pub async fn remove_urls(index: &dyn PageIndex, urls: &[String]) -> Result<RemovedPages, Error> {
    let mut normalised = Vec::new();
    for url in urls {
        let url = normalise(url, &UrlOptions::default())
            .map_err(|error| Error::invalid(format!("`{url}`: {error}")).field("url"))?;
        normalised.push(url.into_string());
    }
    Ok(RemovedPages { removed: index.remove(&normalised, None).await? })
}

/// Removes the pages of a host and of its subdomains, as `host:` matches them.
pub async fn remove_host(index: &dyn PageIndex, host: &str) -> Result<RemovedPages, Error> {
    let query = host_query(host)?;
    let mut removed = 0;
    loop {
        let results = index
            .search(&SearchRequest {
                limit: BATCH,
                collapse_duplicates: false,
                ..SearchRequest::new(query.clone())
            })
            .await?;
        let urls: Vec<String> = results.hits.into_iter().map(|hit| hit.url).collect();
        let now = if urls.is_empty() { 0 } else { index.remove(&urls, None).await? };
        removed += now;
        // Hits that cannot be removed are being removed by another process.
        if now == 0 {
            return Ok(RemovedPages { removed });
        }
    }
}

/// Number of pages of a host and its subdomains.
pub async fn pages_of_host(index: &dyn PageIndex, host: &str) -> Result<u64, Error> {
    let search =
        SearchRequest { limit: 1, collapse_duplicates: false, ..SearchRequest::new(host_query(host)?) };
    Ok(index.search(&search).await?.total)
}

/// Query for all pages of a host.
fn host_query(host: &str) -> Result<String, Error> {
    let query = format!("host:{host}");
    match Query::parse(&query) {
        Ok(Query::Host(_)) => Ok(query),
        _ => {
            Err(Error::invalid(format!("`{host}` is no host; expected a name such as example.org"))
                .field("host"))
        }
    }
}
