//! Sitemap discovery through the fetcher: robots.txt, indexes, limits and rate limiting.

use crate::{
    recording::RecordingLimiter,
    server::{Server, gzip, page},
    setup::{expect_error, fetcher, request, setup},
};
use crawlway_fetch::{FetchCode, Fetcher, OnRateLimit, Request, SitemapFileError, SitemapLimits};
use crawlway_store::rate_limiter;
use std::{sync::Arc, time::Duration};

fn urlset(urls: &[&str]) -> Vec<u8> {
    let urls: String = urls.iter().map(|url| format!("<url><loc>{url}</loc></url>")).collect();
    page("200 OK", "content-type: application/xml\r\n", format!("<urlset>{urls}</urlset>").as_bytes())
}

fn index(urls: &[&str]) -> Vec<u8> {
    let urls: String = urls.iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
    page("200 OK", "", format!("<sitemapindex>{urls}</sitemapindex>").as_bytes())
}

fn gzipped(text: &str) -> Vec<u8> {
    page("200 OK", "content-type: application/gzip\r\n", &gzip(text.as_bytes()))
}

/// Site with two sitemaps in robots.txt: an index of four files, one of them missing, and a list.
async fn site() -> Server {
    Server::by_path(|path| match path {
        "/robots.txt" => page(
            "200 OK",
            "",
            b"User-agent: *\nDisallow: /private\nSitemap: /maps/index.xml\nSitemap: /list.txt\nSitemap: /list.txt\n",
        ),
        "/maps/index.xml" => index(&["a.xml", "b.xml.gz", "gone.xml", "/private/c.xml", "index.xml"]),
        "/maps/a.xml" => urlset(&["/1", "/2", "/1#again", "mailto:nobody@a.test"]),
        "/maps/b.xml.gz" => gzipped("<urlset><url><loc>/3</loc><lastmod>2026-01-02</lastmod></url></urlset>"),
        "/private/c.xml" => urlset(&["/hidden"]),
        "/list.txt" => page("200 OK", "content-type: text/plain\r\n", b"http://other.test/4\nhttp://other.test/5\n"),
        _ => page("404 Not Found", "", b""),
    })
    .await
}

fn with_robots(server: &Server) -> Request {
    Request { obey_robots: true, ..request(&server.url("/some/page")) }
}

#[tokio::test]
async fn sitemaps_are_found_in_robots_txt_and_indexes_followed() {
    let server = site().await;
    let rate_limiter = Arc::new(RecordingLimiter::unlimited());
    let fetcher =
        Fetcher::new(crawlway_fetch::FetcherConfig { rate_limiter: rate_limiter.clone(), ..setup() })
            .expect("a fetcher");
    let found = fetcher.sitemaps(&with_robots(&server), SitemapLimits::default()).await.expect("sitemaps");
    let pages: Vec<&str> = found.pages.iter().map(|page| page.url.path_and_query()).collect();
    assert_eq!(pages, ["/4", "/5", "/1", "/2", "/3"]);
    assert_eq!(found.pages[0].url.host(), "other.test");
    assert_eq!(found.pages[4].entry.lastmod.as_deref(), Some("2026-01-02"));
    assert!(!found.truncated);
    let files: Vec<_> = found
        .files
        .iter()
        .map(|file| (file.url.path_and_query(), file.depth, file.read.as_ref().ok().copied()))
        .collect();
    assert_eq!(
        files,
        [
            ("/maps/index.xml", 0, Some(5)),
            ("/list.txt", 0, Some(2)),
            ("/maps/a.xml", 1, Some(4)),
            ("/maps/b.xml.gz", 1, Some(1)),
            ("/maps/gone.xml", 1, None),
            ("/private/c.xml", 1, None),
        ]
    );
    assert_eq!(found.files[4].read, Err(SitemapFileError::Status(404)));
    assert!(
        matches!(&found.files[5].read, Err(SitemapFileError::Fetch(error)) if error.code == FetchCode::RobotsDisallowed)
    );
    assert_eq!(rate_limiter.groups().len(), 6, "robots.txt and the five allowed files");
}

#[tokio::test]
async fn sitemap_xml_is_the_default() {
    let server = Server::by_path(|path| match path {
        "/sitemap.xml" => urlset(&["/1"]),
        _ => page("404 Not Found", "", b""),
    })
    .await;
    let found = fetcher().sitemaps(&with_robots(&server), SitemapLimits::default()).await.expect("sitemaps");
    assert_eq!(found.pages.len(), 1);
    let shut = Server::by_path(|path| match path {
        "/sitemap.xml" => urlset(&["/1"]),
        _ => page("500 Oops", "", b""),
    })
    .await;
    let obedient = with_robots(&shut);
    expect_error(fetcher().sitemaps(&obedient, SitemapLimits::default()).await, FetchCode::RobotsUnreachable);
    let free = Request { obey_robots: false, ..obedient };
    assert_eq!(fetcher().sitemaps(&free, SitemapLimits::default()).await.expect("sitemaps").pages.len(), 1);
}

#[tokio::test]
async fn the_depth_of_indexes_is_limited() {
    // Each index lists two more, without end.
    let server = Server::by_path(|path| {
        if path == "/robots.txt" {
            return page("404 Not Found", "", b"");
        }
        let name = path.trim_end_matches(".xml");
        index(&[&format!("{name}-a.xml"), &format!("{name}-b.xml")])
    })
    .await;
    let found = fetcher().sitemaps(&with_robots(&server), SitemapLimits::default()).await.expect("sitemaps");
    assert_eq!(found.files.len(), 1 + 2 + 4 + 8, "three indexes deep");
    assert!(found.truncated && found.pages.is_empty());
}

#[tokio::test]
async fn files_and_pages_are_limited() {
    let server = Server::by_path(|path| match path {
        "/sitemap.xml" => {
            let files: Vec<String> = (0..1000).map(|number| format!("/{number}.xml")).collect();
            index(&files.iter().map(String::as_str).collect::<Vec<_>>())
        }
        "/robots.txt" => page("404 Not Found", "", b""),
        path => urlset(&[&format!("{path}?1"), &format!("{path}?2"), &format!("{path}?3")]),
    })
    .await;
    let few_files = SitemapLimits { files: 5, pages: 1000 };
    let found = fetcher().sitemaps(&with_robots(&server), few_files).await.expect("sitemaps");
    assert_eq!((found.files.len(), found.pages.len(), found.truncated), (5, 12, true));
    let few_pages = SitemapLimits { files: 500, pages: 8 };
    let found = fetcher().sitemaps(&with_robots(&server), few_pages).await.expect("sitemaps");
    assert_eq!((found.files.len(), found.pages.len(), found.truncated), (4, 8, true));
}

#[tokio::test]
async fn a_rate_limit_fails_a_deferred_request() {
    let server = site().await;
    let mut request = with_robots(&server);
    request.on_rate_limit = OnRateLimit::Defer;
    request.rate_limit = rate_limiter::RateLimits::one_at_a_time(Duration::from_secs(3600));
    let error =
        expect_error(fetcher().sitemaps(&request, SitemapLimits::default()).await, FetchCode::RateLimited);
    assert!(error.not_before.is_some());
}
