//! Rule: generated documents are up to date.

use super::Finding;
use crate::docs::{SETTINGS, settings};

pub(super) fn check<'a>(text_of: impl Fn(&str) -> Option<&'a str>) -> Option<Finding> {
    let (document, source) = SETTINGS;
    let expected = settings::document(text_of(source)?);
    if text_of(document) == Some(&expected) {
        return None;
    }
    let message = format!("is out of date with {source}; run `cargo xtask docs`");
    Some(Finding { path: document.to_owned(), line: None, message })
}
