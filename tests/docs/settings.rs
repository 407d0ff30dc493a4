//! Settings files in the documents are valid.

use crate::document::Document;
use std::{fs, process::Command};

#[test]
fn settings_in_documents_are_valid() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("crawlway.toml");
    let mut checked = 0;
    for document in Document::all() {
        for block in document.blocks().iter().filter(|block| block.language == "toml") {
            fs::write(&file, &block.text).unwrap();
            let mut check = Command::new(env!("CARGO_BIN_EXE_crawlway"));
            let output =
                check.args(["config", "check"]).current_dir(home.path()).env_clear().output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}:{}: {stderr}", document.path, block.line);
            checked += 1;
        }
    }
    assert!(checked > 0, "the documents have no settings file");
}
