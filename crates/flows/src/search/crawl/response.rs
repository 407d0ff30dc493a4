//! Classification of responses and fetch errors.

use super::DISALLOWED;
use crawlway_clock::{Clock, Timestamp};
use crawlway_content::NormalUrl;
use crawlway_fetch::{FetchCode, FetchError, FetchResponse};
use crawlway_flow::StageError;
use http::{StatusCode, header};
use std::time::Duration;

/// Classified response.
#[derive(Debug)]
pub(super) enum Response {
    /// Page.
    Page(Box<FetchResponse>),
    /// 304 Not Modified.
    NotModified(Box<FetchResponse>),
    /// Redirect to another origin that must not be requested now.
    RedirectDeferred { url: NormalUrl, reason: String },
    /// No page, which a retry would not change. `requested` unless robots.txt disallows it; `gone` if it is permanent.
    NoPage { outcome: &'static str, detail: String, requested: bool, gone: bool },
}

/// Maximum `Retry-After` that is honoured, so that every crawl ends.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Delay when an error has no time of its own.
const DEFAULT_DELAY: Duration = Duration::from_secs(1);

/// Classifies the result of a fetch. `is_conditional` for a request with validators. A failure of the host, and not of
/// this page alone, is retried after `host_delay`.
pub(super) fn classify(
    fetched: Result<FetchResponse, FetchError>,
    url: &NormalUrl,
    is_conditional: bool,
    host_delay: Duration,
    clock: &Clock,
) -> Result<Response, StageError> {
    match fetched {
        Ok(fetched) => of_status(fetched, is_conditional, host_delay),
        Err(error) => of_error(error, url, host_delay, clock.now()),
    }
}

fn of_status(
    fetched: FetchResponse,
    is_conditional: bool,
    host_delay: Duration,
) -> Result<Response, StageError> {
    let status = fetched.status;
    let no_page =
        |outcome, detail: String, gone| Ok(Response::NoPage { outcome, detail, requested: true, gone });
    if status == StatusCode::NOT_MODIFIED {
        if is_conditional {
            return Ok(Response::NotModified(Box::new(fetched)));
        }
        // The request was not conditional, so there is no stored page to rely on.
        let error = "http.304: not modified, although the request had no validators".to_owned();
        return Err(StageError::Transient { after: None, error });
    }
    if status.is_success() {
        return match not_a_page(&fetched) {
            None => Ok(Response::Page(Box::new(fetched))),
            Some(detail) => no_page("not_a_page", detail, true),
        };
    }
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return no_page("gone", format!("answered {status}"), true);
    }
    let is_temporary = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY);
    if status.is_server_error() || is_temporary {
        // A gateway in front of the host reports an outage.
        let is_down = matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT);
        let after = retry_after(fetched.retry_after()).or(is_down.then_some(host_delay));
        return Err(StageError::Transient {
            after,
            error: format!("http.{}: answered {status}", status.as_u16()),
        });
    }
    no_page("refused", format!("answered {status}"), false)
}

/// Delay that a host asks for, up to the maximum. Zero is ignored, so that the settings apply.
fn retry_after(requested: Option<Duration>) -> Option<Duration> {
    requested.filter(|delay| !delay.is_zero()).map(|delay| delay.min(MAX_RETRY_AFTER))
}

fn of_error(
    error: FetchError,
    url: &NormalUrl,
    host_delay: Duration,
    now: Timestamp,
) -> Result<Response, StageError> {
    let text = error.to_string();
    let at: Option<NormalUrl> = error.url.parse().ok();
    match error.code {
        FetchCode::RateLimited | FetchCode::BreakerOpen | FetchCode::RobotsWait
            if at.as_ref().is_some_and(|at| at.origin() != url.origin()) =>
        {
            // Deferring this group would block it because of another one.
            Ok(Response::RedirectDeferred { url: at.unwrap_or_else(|| url.clone()), reason: error.detail })
        }
        FetchCode::RateLimited | FetchCode::BreakerOpen | FetchCode::RobotsWait => {
            Err(StageError::DeferGroup {
                until: error.not_before.unwrap_or(now + DEFAULT_DELAY),
                reason: text.into(),
            })
        }
        FetchCode::MemoryWait => Err(StageError::DeferItem { until: now + DEFAULT_DELAY, reason: text }),
        FetchCode::RateLimiterUnavailable => Err(StageError::Unavailable { error: text }),
        FetchCode::RobotsDisallowed => {
            Ok(Response::NoPage { outcome: DISALLOWED, detail: text, requested: false, gone: false })
        }
        code if code.is_transient() => {
            let of_host = code.is_no_connection() || code.is_block();
            let after =
                retry_after(error.not_before.map(|time| time.since(now))).or(of_host.then_some(host_delay));
            Err(StageError::Transient { after, error: text })
        }
        _ => Err(StageError::Permanent { reason: text }),
    }
}

/// Reason why a successful response is no page, if it is none.
fn not_a_page(fetched: &FetchResponse) -> Option<String> {
    if fetched.body.is_empty() {
        return Some("it is empty".to_owned());
    }
    let kind = fetched.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/html" | "application/xhtml+xml" => None,
        // Without a content type, the beginning of the body decides.
        "" if starts_like_html(&fetched.body) => None,
        "" => Some("it has no content type".to_owned()),
        other => Some(format!("it is `{other}`")),
    }
}

fn starts_like_html(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    let begins =
        |with: &str| start.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    ["<!doctype html", "<html", "<head", "<body", "<!--"].into_iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_bounded_by_a_day_and_never_zero() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(retry_after(None), None);
        assert_eq!(retry_after(seconds(0)), None, "as the settings say");
        assert_eq!(retry_after(seconds(120)), seconds(120));
        assert_eq!(retry_after(seconds(u64::MAX)), Some(MAX_RETRY_AFTER));
    }

    #[test]
    fn a_failure_of_the_host_is_retried_later_than_one_of_the_page() {
        let now = Timestamp::now();
        let page: NormalUrl = "http://a.test/x".parse().unwrap();
        let delay = Duration::from_secs(60);
        let error =
            |code| FetchError { code, url: page.to_string(), detail: String::new(), not_before: None };
        for (code, expected) in [
            (FetchCode::Refused, Some(delay)),
            (FetchCode::Blocked503, Some(delay)),
            (FetchCode::HttpLength, None),
        ] {
            let after = match of_error(error(code), &page, delay, now) {
                Err(StageError::Transient { after, .. }) => after,
                _ => None,
            };
            assert_eq!(after, expected, "{code}");
        }
    }

    #[test]
    fn a_deferral_by_another_host_becomes_a_redirect() {
        let now = Timestamp::now();
        let page: NormalUrl = "http://a.test/x".parse().unwrap();
        let delay = Duration::from_secs(60);
        for code in [FetchCode::RateLimited, FetchCode::RobotsWait] {
            let error = |url: &str| FetchError {
                code,
                url: url.to_owned(),
                detail: "not yet".to_owned(),
                not_before: Some(now + Duration::from_secs(600)),
            };
            let own = of_error(error("http://a.test/y"), &page, delay, now);
            assert!(matches!(own, Err(StageError::DeferGroup { .. })), "{own:?}");
            let other = of_error(error("http://b.test/y"), &page, delay, now);
            assert!(
                matches!(&other, Ok(Response::RedirectDeferred { url, .. }) if url.as_str() == "http://b.test/y"),
                "{other:?}"
            );
        }
    }
}
