//! Rule: a Rust file starts with a `//!` line with its purpose.

use super::Finding;

/// Minimum number of words; fewer only repeat the file name.
const MIN_WORDS: usize = 3;

pub(super) fn check(path: &str, text: &str) -> Option<Finding> {
    let first_line = text.lines().next().unwrap_or("");
    let message = match first_line.strip_prefix("//!") {
        None => "starts without a `//!` line; add one with the purpose of the file".to_owned(),
        Some(purpose) if word_count(purpose) < MIN_WORDS => {
            format!("the `//!` line is too short (`{}`); describe the purpose of the file", purpose.trim())
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
    fn a_file_needs_a_purpose_in_its_first_line() {
        assert_eq!(check("a.rs", "//! The queue contract of all brokers.\n\nuse x;\n"), None);
        for text in
            ["", "fn main() {}\n", "// Purpose of a file.\n", "\n//! Purpose of a file.\n", "//! # Queue\n"]
        {
            assert!(check("a.rs", text).is_some(), "{text:?}");
        }
    }
}
