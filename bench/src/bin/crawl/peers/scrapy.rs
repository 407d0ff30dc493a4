//! Scrapy, in a virtual environment.

use super::{Peer, step};
use std::{fs, path::Path, process::Command};

const MISSING: &str = "install Python 3.10 or later, with its module `venv`";

pub(super) fn install(home: &Path) -> anyhow::Result<Peer> {
    let environment = home.join("venv");
    let python = environment.join("bin/python");
    let version = || {
        let script = "import scrapy; print(scrapy.__version__)";
        let output = Command::new(&python).args(["-c", script]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if version().is_none() {
        step(Command::new("python3").args(["-m", "venv"]).arg(&environment), MISSING)?;
        step(Command::new(&python).args(["-m", "pip", "install", "--quiet", "scrapy>=2.13,<3"]), MISSING)?;
    }
    let program = home.join("crawl.py");
    fs::write(&program, include_str!("scrapy.py"))?;
    Ok(Peer {
        name: format!("Scrapy {}", version().unwrap_or_default()),
        program: python.into_os_string(),
        arguments: vec![program.into_os_string()],
    })
}
