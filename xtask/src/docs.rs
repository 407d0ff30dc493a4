//! `cargo xtask docs`: generates documentation from other files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub(crate) mod settings;

/// Generated document and its source.
pub(crate) const SETTINGS: (&str, &str) = ("docs/configuration.md", "config/crawlway.toml");

pub(crate) fn run(root: &Path) -> Result<()> {
    let (document, source) = SETTINGS;
    let text = fs::read_to_string(root.join(source)).with_context(|| format!("reading {source}"))?;
    let written = settings::document(&text);
    fs::write(root.join(document), written).with_context(|| format!("writing {document}"))?;
    println!("wrote {document} from {source}");
    Ok(())
}
