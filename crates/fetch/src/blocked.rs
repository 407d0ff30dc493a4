//! Telling an answer from a refusal to answer: too many requests, overload, and challenges for people.

use crate::error::Code;
use http::{HeaderMap, StatusCode, header};

/// Marks that pages have which want proof of a person: scripts, forms and titles of the common guards.
const CHALLENGE_MARKS: [&str; 14] = [
    "/cdn-cgi/challenge-platform/",
    "cf-challenge",
    "cf_chl_opt",
    "g-recaptcha",
    "h-captcha",
    "px-captcha",
    "captcha-delivery.com",
    "geo.captcha-delivery",
    "_incapsula_resource",
    "awswafcaptcha",
    "aws-waf-token",
    "<title>just a moment...</title>",
    "<title>attention required!",
    "are you a robot?",
];

/// A real page is larger than this; marks in one are a form's, not a challenge.
const CHALLENGE_PAGE: usize = 64 << 10;

/// Whether an answer is a refusal, and of which kind.
pub(crate) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Code> {
    if headers.get("cf-mitigated").is_some_and(|value| value == "challenge") {
        return Some(Code::BlockedChallenge);
    }
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(Code::Blocked429),
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED if is_challenge(headers, body) => {
            Some(Code::BlockedChallenge)
        }
        StatusCode::SERVICE_UNAVAILABLE if is_challenge(headers, body) => Some(Code::BlockedChallenge),
        StatusCode::SERVICE_UNAVAILABLE => Some(Code::Blocked503),
        status if status.is_success() && body.len() < 8 << 10 && has_title_of_challenge(body) => {
            Some(Code::BlockedChallenge)
        }
        _ => None,
    }
}

fn is_challenge(headers: &HeaderMap, body: &[u8]) -> bool {
    let html =
        headers.get(header::CONTENT_TYPE).is_none_or(|value| value.as_bytes().starts_with(b"text/html"));
    html && body.len() < CHALLENGE_PAGE && {
        let text = String::from_utf8_lossy(body).to_ascii_lowercase();
        CHALLENGE_MARKS.iter().any(|mark| text.contains(mark))
    }
}

fn has_title_of_challenge(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    CHALLENGE_MARKS.iter().filter(|mark| mark.starts_with("<title>")).any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Option<Code> {
        refusal(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn refusals_are_told_from_answers() {
        assert_eq!(of(200, "<title>News</title> about a captcha"), None);
        assert_eq!(of(200, "<html><title>Just a moment...</title>"), Some(Code::BlockedChallenge));
        assert_eq!(of(403, "<p>members only</p>"), None);
        assert_eq!(of(403, "<div class=g-recaptcha>"), Some(Code::BlockedChallenge));
        assert_eq!(of(429, ""), Some(Code::Blocked429));
        assert_eq!(of(503, "down"), Some(Code::Blocked503));
        assert_eq!(of(404, "<div class=g-recaptcha>"), None);
    }
}
