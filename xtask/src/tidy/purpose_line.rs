//! Rule: a Rust file opens with a `//!` line that says what it is for.

use super::Finding;

/// Fewer words than this repeat the name of the file and no more.
const FEWEST_WORDS: usize = 3;

pub(super) fn check(path: &str, text: &str) -> Option<Finding> {
    let first_line = text.lines().next().unwrap_or("");
    let message = match first_line.strip_prefix("//!") {
        None => "opens without a `//!` line; say in one line what the file is for".to_owned(),
        Some(purpose) if word_count(purpose) < FEWEST_WORDS => {
            format!("its `//!` line says too little (`{}`); say what the file is for", purpose.trim())
        }
        Some(_) => return None,
    };
    Some(Finding { path: path.to_owned(), line: Some(1), message })
}

fn word_count(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_passes() {
        assert_eq!(check("a.rs", "//! The queue contract: what every broker does.\n\nuse x;\n"), None);
        assert_eq!(check("a.rs", "//! The `crawlway` binary.\nfn main() {}\n"), None);
    }

    #[test]
    fn a_missing_or_late_purpose_is_found() {
        for text in [
            "",
            "fn main() {}\n",
            "// Says what it is for.\n",
            "/// Says what it is for.\nfn main() {}\n",
            "#![no_main]\n//! Says what it is for.\n",
            "\n//! Says what it is for.\n",
        ] {
            let finding = check("a.rs", text).unwrap_or_else(|| panic!("passed: {text:?}"));
            assert!(finding.message.contains("opens without"), "{finding}");
        }
    }

    #[test]
    fn a_purpose_without_content_is_found() {
        for text in ["//!\n", "//! Queue.\n", "//! --- == ---\n", "//! # Queue\n", "//! The queue\n"] {
            let finding = check("a.rs", text).unwrap_or_else(|| panic!("passed: {text:?}"));
            assert!(finding.message.contains("too little"), "{finding}");
        }
    }
}
