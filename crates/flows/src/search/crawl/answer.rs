//! What an answer means for an item of the crawl stage.

use crawlway_clock::{Clock, Timestamp};
use crawlway_fetch::{Code, FetchError, Fetched};
use crawlway_flow::StageError;
use http::{StatusCode, header};

/// What a fetch came to.
#[derive(Debug)]
pub(super) enum Answer {
    /// A page.
    Page(Box<Fetched>),
    /// Nothing has changed since last time.
    Unchanged(Box<Fetched>),
    /// There is nothing to publish, and trying again would not change that.
    Nothing { outcome: &'static str, detail: String, asked: bool },
}

/// What a fetch means: an answer, or why there is none.
pub(super) fn answer(fetched: Result<Fetched, FetchError>, clock: &Clock) -> Result<Answer, StageError> {
    match fetched {
        Ok(fetched) => of_status(fetched),
        Err(error) => of_error(error, clock.now()),
    }
}

fn of_status(fetched: Fetched) -> Result<Answer, StageError> {
    let status = fetched.status;
    let nothing = |outcome, detail: String| Ok(Answer::Nothing { outcome, detail, asked: true });
    if status == StatusCode::NOT_MODIFIED {
        return Ok(Answer::Unchanged(Box::new(fetched)));
    }
    if status.is_success() {
        return match not_a_page(&fetched) {
            None => Ok(Answer::Page(Box::new(fetched))),
            Some(detail) => nothing("not_a_page", detail),
        };
    }
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return nothing("gone", format!("answered {status}"));
    }
    let passing = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY);
    if status.is_server_error() || passing {
        let after = fetched.retry_after();
        return Err(StageError::Transient {
            after,
            error: format!("http.{}: answered {status}", status.as_u16()),
        });
    }
    nothing("refused", format!("answered {status}"))
}

fn of_error(error: FetchError, now: Timestamp) -> Result<Answer, StageError> {
    let text = error.to_string();
    match error.code {
        Code::GateWait | Code::GateOpen => Err(StageError::NotYet {
            until: error.not_before.unwrap_or(now + std::time::Duration::from_secs(1)),
            why: text.into(),
        }),
        Code::GateUnavailable => Err(StageError::Ours { error: text }),
        Code::RobotsDisallowed => Ok(Answer::Nothing { outcome: "disallowed", detail: text, asked: false }),
        code if code.is_transient() => {
            Err(StageError::Transient { after: error.not_before.map(|time| time.since(now)), error: text })
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
