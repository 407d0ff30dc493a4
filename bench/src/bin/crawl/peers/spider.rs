//! The crate `spider`, in a separate cargo project.

use super::{Peer, step};
use anyhow::Context;
use std::{ffi::OsString, fs, path::Path, process::Command};

/// Manifest with the build profile of this workspace.
const MANIFEST: &str = r#"[package]
name = "spider-crawl"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
scraper = "0.29"
serde_json = "1"
spider = { version = "2", features = ["sync"] }
tokio = { version = "1", features = ["full"] }

[profile.release]
codegen-units = 4
lto = "thin"
"#;

pub(super) fn install(home: &Path) -> anyhow::Result<Peer> {
    fs::create_dir_all(home.join("src"))?;
    write_if_new(&home.join("Cargo.toml"), MANIFEST)?;
    write_if_new(&home.join("src/main.rs"), include_str!("spider_program.rs"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    // In its own target directory, so that cargo does not wait for a lock.
    build.args(["build", "--release", "--quiet", "--target-dir"]).arg(home.join("target"));
    step(build.current_dir(home), "install the Rust toolchain")?;
    let lock = fs::read_to_string(home.join("Cargo.lock"))?;
    let version = lock
        .split("name = \"spider\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .context("its lock file does not name its version")?;
    Ok(Peer {
        name: format!("spider {version}"),
        program: home.join("target/release/spider-crawl").into_os_string(),
        arguments: Vec::new(),
    })
}

/// Writes a file only if it changes, to avoid a rebuild.
fn write_if_new(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    Ok(fs::write(path, text)?)
}
