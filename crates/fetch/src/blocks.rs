//! Block detection: rate limiting, overload, and bot challenges instead of a page.

use crate::error::FetchCode;
use http::{HeaderMap, StatusCode, header};

/// Signatures of bot challenges: scripts, forms and titles of the common protection services.
const CHALLENGE_SIGNATURES: [&str; 14] = [
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

/// Maximum size of a challenge. A signature in a larger page belongs to one of its forms.
const MAX_CHALLENGE_BYTES: usize = 64 << 10;

/// Code of the block, if the response is one.
pub(crate) fn detect(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<FetchCode> {
    if headers.get("cf-mitigated").is_some_and(|value| value == "challenge") {
        return Some(FetchCode::BlockedChallenge);
    }
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(FetchCode::Blocked429),
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED if is_challenge(headers, body) => {
            Some(FetchCode::BlockedChallenge)
        }
        StatusCode::SERVICE_UNAVAILABLE if is_challenge(headers, body) => Some(FetchCode::BlockedChallenge),
        StatusCode::SERVICE_UNAVAILABLE => Some(FetchCode::Blocked503),
        status if status.is_success() && body.len() < 8 << 10 && has_challenge_title(body) => {
            Some(FetchCode::BlockedChallenge)
        }
        _ => None,
    }
}

fn is_challenge(headers: &HeaderMap, body: &[u8]) -> bool {
    let html =
        headers.get(header::CONTENT_TYPE).is_none_or(|value| value.as_bytes().starts_with(b"text/html"));
    html && body.len() < MAX_CHALLENGE_BYTES && {
        let text = String::from_utf8_lossy(body).to_ascii_lowercase();
        CHALLENGE_SIGNATURES.iter().any(|signature| text.contains(signature))
    }
}

fn has_challenge_title(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    CHALLENGE_SIGNATURES
        .iter()
        .filter(|signature| signature.starts_with("<title>"))
        .any(|signature| text.contains(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(status: u16, body: &str) -> Option<FetchCode> {
        detect(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn blocks_are_detected() {
        assert_eq!(detected(200, "<title>News</title> about a captcha"), None);
        assert_eq!(detected(200, "<html><title>Just a moment...</title>"), Some(FetchCode::BlockedChallenge));
        assert_eq!(detected(403, "<p>members only</p>"), None);
        assert_eq!(detected(403, "<div class=g-recaptcha>"), Some(FetchCode::BlockedChallenge));
        assert_eq!(detected(429, ""), Some(FetchCode::Blocked429));
        assert_eq!(detected(503, "down"), Some(FetchCode::Blocked503));
        assert_eq!(detected(404, "<div class=g-recaptcha>"), None);
    }
}
