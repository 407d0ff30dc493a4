//! Crawlee with Cheerio, without browsers.

use super::{Peer, step};
use serde_json::Value;
use std::{fs, path::Path, process::Command};

const MISSING: &str = "install Node.js 20 or later, with npm";

pub(super) fn install(home: &Path) -> anyhow::Result<Peer> {
    let version = || {
        let package = fs::read(home.join("node_modules/@crawlee/cheerio/package.json")).ok()?;
        let package: Value = serde_json::from_slice(&package).ok()?;
        Some(package["version"].as_str()?.to_owned())
    };
    step(Command::new("node").args(["--eval", ""]), MISSING)?;
    if version().is_none() {
        fs::write(home.join("package.json"), "{ \"private\": true, \"type\": \"module\" }\n")?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "@crawlee/cheerio@3"]);
        step(npm.current_dir(home), MISSING)?;
    }
    let program = home.join("crawl.mjs");
    fs::write(&program, include_str!("crawlee.mjs"))?;
    Ok(Peer {
        name: format!("Crawlee {} (Cheerio)", version().unwrap_or_default()),
        program: "node".into(),
        arguments: vec![program.into_os_string()],
    })
}
