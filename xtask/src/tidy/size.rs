//! Rule: no file is so large that every clone carries it for ever.

use super::Finding;

const MOST_BYTES: u64 = 1024 * 1024;

pub(super) fn check(path: &str, bytes: u64) -> Option<Finding> {
    if bytes <= MOST_BYTES {
        return None;
    }
    let message = format!(
        "has {bytes} bytes, more than the allowed {MOST_BYTES}; make it smaller, or generate it when needed"
    );
    Some(Finding { path: path.to_owned(), line: None, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mebibyte_passes_and_one_byte_more_does_not() {
        assert_eq!(check("a.html", 1_048_576), None);
        let finding = check("a.html", 1_048_577).unwrap();
        assert!(finding.message.starts_with("has 1048577 bytes"), "{finding}");
    }
}
