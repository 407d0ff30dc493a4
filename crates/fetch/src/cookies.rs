//! Cookies for the length of one fetch: what a redirect sets is sent back to the same host, and then forgotten.

use crawlway_content::NormalUrl;
use http::{HeaderMap, HeaderValue, header};
use std::collections::BTreeMap;

/// A jar holds no more than this; servers that set more are playing.
const MAX_COOKIES: usize = 50;

/// Cookies by host and name.
#[derive(Debug, Default)]
pub(crate) struct Jar {
    cookies: BTreeMap<(String, String), String>,
    changed: bool,
}

impl Jar {
    /// Keeps what an answer sets.
    pub(crate) fn keep(&mut self, url: &NormalUrl, headers: &HeaderMap) {
        self.changed = false;
        for value in headers.get_all(header::SET_COOKIE) {
            let Some((name, value)) =
                value.to_str().ok().and_then(|text| text.split(';').next()?.trim().split_once('='))
            else {
                continue;
            };
            let key = (url.host().to_owned(), name.to_owned());
            if self.cookies.len() < MAX_COOKIES && self.cookies.get(&key).is_none_or(|old| old != value) {
                self.cookies.insert(key, value.to_owned());
                self.changed = true;
            }
        }
    }

    /// Whether the last answer set something new: then the same page may answer otherwise.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// What is sent to this host.
    pub(crate) fn header(&self, url: &NormalUrl) -> Option<HeaderValue> {
        let mine = self.cookies.iter().filter(|((host, _), _)| host == url.host());
        let text: Vec<String> = mine.map(|((_, name), value)| format!("{name}={value}")).collect();
        if text.is_empty() { None } else { HeaderValue::from_str(&text.join("; ")).ok() }
    }
}
