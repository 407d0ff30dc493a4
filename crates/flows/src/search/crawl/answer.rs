//! What an answer means for an item of the crawl stage.

use crawlway_clock::{Clock, Timestamp};
use crawlway_content::NormalUrl;
use crawlway_fetch::{Code, FetchError, Fetched};
use crawlway_flow::StageError;
use http::{StatusCode, header};
use std::time::Duration;

/// What a fetch came to.
#[derive(Debug)]
pub(super) enum Answer {
    /// A page.
    Page(Box<Fetched>),
    /// Nothing has changed since last time.
    Unchanged(Box<Fetched>),
    /// It redirects to another host, which is not to be asked now.
    Elsewhere { url: NormalUrl, why: String },
    /// There is nothing to publish, and trying again would not change that. `gone` if that is for good, as far as
    /// anyone can tell.
    Nothing { outcome: &'static str, detail: String, asked: bool, gone: bool },
}

/// Who asks to be left alone for longer is asked again after this time all the same: or a crawl would never end.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a fetch of a URL means: an answer, or why there is none. `known_before` if it was asked whether the page has
/// changed. A failure of the host, and not of the page alone, is tried again after `host_delay`.
pub(super) fn answer(
    fetched: Result<Fetched, FetchError>,
    url: &NormalUrl,
    known_before: bool,
    host_delay: Duration,
    clock: &Clock,
) -> Result<Answer, StageError> {
    match fetched {
        Ok(fetched) => of_status(fetched, known_before, host_delay),
        Err(error) => of_error(error, url, host_delay, clock.now()),
    }
}

fn of_status(fetched: Fetched, known_before: bool, host_delay: Duration) -> Result<Answer, StageError> {
    let status = fetched.status;
    let nothing = |outcome, detail: String, gone| Ok(Answer::Nothing { outcome, detail, asked: true, gone });
    if status == StatusCode::NOT_MODIFIED {
        if known_before {
            return Ok(Answer::Unchanged(Box::new(fetched)));
        }
        // Nothing was said that could be unchanged, so that there is no page to rely on.
        let error = "http.304: answered that nothing has changed, and nothing was known".to_owned();
        return Err(StageError::Transient { after: None, error });
    }
    if status.is_success() {
        return match not_a_page(&fetched) {
            None => Ok(Answer::Page(Box::new(fetched))),
            Some(detail) => nothing("not_a_page", detail, true),
        };
    }
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return nothing("gone", format!("answered {status}"), true);
    }
    let passing = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY);
    if status.is_server_error() || passing {
        // What stands in front of the host says that it is down.
        let down = matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT);
        let after = wait(fetched.retry_after()).or(down.then_some(host_delay));
        return Err(StageError::Transient {
            after,
            error: format!("http.{}: answered {status}", status.as_u16()),
        });
    }
    nothing("refused", format!("answered {status}"), false)
}

/// How long to wait for who asks for that. No time at all is left to the settings, as if nothing had been said.
fn wait(asked_for: Option<Duration>) -> Option<Duration> {
    asked_for.filter(|wait| !wait.is_zero()).map(|wait| wait.min(LONGEST_WAIT))
}

fn of_error(
    error: FetchError,
    url: &NormalUrl,
    host_delay: Duration,
    now: Timestamp,
) -> Result<Answer, StageError> {
    let text = error.to_string();
    let at: Option<NormalUrl> = error.url.parse().ok();
    match error.code {
        Code::GateWait | Code::GateOpen | Code::RobotsWait
            if at.as_ref().is_some_and(|at| at.origin() != url.origin()) =>
        {
            // Waiting for another site would hold up everything of this one.
            Ok(Answer::Elsewhere { url: at.unwrap_or_else(|| url.clone()), why: error.detail })
        }
        Code::GateWait | Code::GateOpen | Code::RobotsWait => Err(StageError::NotYet {
            until: error.not_before.unwrap_or(now + std::time::Duration::from_secs(1)),
            why: text.into(),
        }),
        Code::MemoryWait => {
            Err(StageError::HeldUp { until: now + std::time::Duration::from_secs(1), why: text })
        }
        Code::GateUnavailable => Err(StageError::Ours { error: text }),
        Code::RobotsDisallowed => {
            Ok(Answer::Nothing { outcome: super::disallowed(), detail: text, asked: false, gone: false })
        }
        code if code.is_transient() => {
            let of_host = code.is_no_connection() || code.is_block();
            let after = wait(error.not_before.map(|time| time.since(now))).or(of_host.then_some(host_delay));
            Err(StageError::Transient { after, error: text })
        }
        _ => Err(StageError::Permanent { reason: text }),
    }
}

/// Why an answer holds no page, if it holds none.
fn not_a_page(fetched: &Fetched) -> Option<String> {
    if fetched.body.is_empty() {
        return Some("it is empty".to_owned());
    }
    let kind = fetched.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/html" | "application/xhtml+xml" => None,
        // What does not say what it is may be a page if it begins like one.
        "" if begins_like_html(&fetched.body) => None,
        "" => Some("it has no content type".to_owned()),
        other => Some(format!("it is `{other}`")),
    }
}

fn begins_like_html(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    let begins =
        |with: &str| start.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    ["<!doctype html", "<html", "<head", "<body", "<!--"].into_iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_longer_than_a_day_nor_asked_again_at_once() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(wait(None), None);
        assert_eq!(wait(seconds(0)), None, "as the settings say");
        assert_eq!(wait(seconds(120)), seconds(120));
        assert_eq!(wait(seconds(u64::MAX)), Some(LONGEST_WAIT));
    }

    #[test]
    fn a_failure_of_the_host_is_tried_again_later_than_one_of_the_page() {
        let now = Timestamp::now();
        let page: NormalUrl = "http://a.test/x".parse().unwrap();
        let delay = Duration::from_secs(60);
        let error =
            |code| FetchError { code, url: page.to_string(), detail: String::new(), not_before: None };
        for (code, expected) in
            [(Code::Refused, Some(delay)), (Code::Blocked503, Some(delay)), (Code::HttpLength, None)]
        {
            let after = match of_error(error(code), &page, delay, now) {
                Err(StageError::Transient { after, .. }) => after,
                _ => None,
            };
            assert_eq!(after, expected, "{code}");
        }
    }

    #[test]
    fn only_the_wait_for_another_host_ends_the_visit() {
        for code in [Code::GateWait, Code::RobotsWait] {
            the_wait_for_another_host_ends_the_visit(code);
        }
    }

    fn the_wait_for_another_host_ends_the_visit(code: Code) {
        let now = Timestamp::now();
        let page: NormalUrl = "http://a.test/x".parse().unwrap();
        let delay = Duration::from_secs(60);
        let wait = |url: &str| FetchError {
            code,
            url: url.to_owned(),
            detail: "not yet".to_owned(),
            not_before: Some(now + Duration::from_secs(600)),
        };
        assert!(matches!(
            of_error(wait("http://a.test/y"), &page, delay, now),
            Err(StageError::NotYet { .. })
        ));
        let elsewhere = of_error(wait("http://b.test/y"), &page, delay, now);
        assert!(
            matches!(&elsewhere, Ok(Answer::Elsewhere { url, .. }) if url.as_str() == "http://b.test/y"),
            "{elsewhere:?}"
        );
    }
}
