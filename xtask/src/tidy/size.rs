//! Rule: no file is huge, since every clone keeps it forever.

use super::Finding;

const MAX_BYTES: u64 = 1024 * 1024;

pub(super) fn check(path: &str, bytes: u64) -> Option<Finding> {
    if bytes <= MAX_BYTES {
        return None;
    }
    let message =
        format!("has {bytes} bytes, more than {MAX_BYTES}; make it smaller, or generate it when needed");
    Some(Finding { path: path.to_owned(), line: None, message })
}
