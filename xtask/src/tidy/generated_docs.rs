//! Rule: a document that is made from another file is what `cargo xtask docs` would make of it now.

use super::Finding;
use crate::docs::{SETTINGS, settings};

pub(super) fn check<'a>(text_of: impl Fn(&str) -> Option<&'a str>) -> Option<Finding> {
    let (document, source) = SETTINGS;
    let wanted = settings::document(text_of(source)?);
    if text_of(document) == Some(&wanted) {
        return None;
    }
    let message = format!("is not what follows from {source}; run `cargo xtask docs`");
    Some(Finding { path: document.to_owned(), line: None, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_must_follow_from_its_source() {
        let files = |document: &'static str| {
            move |path: &str| match path {
                "config/crawlway.toml" => Some("a = 1\n"),
                "docs/configuration.md" => Some(document),
                _ => None,
            }
        };
        let written: &'static str = settings::document("a = 1\n").leak();
        assert_eq!(check(files(written)), None);
        let stale = check(files("by hand")).map(|finding| finding.path);
        assert_eq!(stale.as_deref(), Some("docs/configuration.md"));
        assert!(check(|path| (path == "config/crawlway.toml").then_some("a = 1\n")).is_some());
    }
}
