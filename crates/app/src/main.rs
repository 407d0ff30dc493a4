//! The `crawlway` binary.
fn main() {}
