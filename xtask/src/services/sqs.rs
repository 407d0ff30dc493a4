//! ministack, a stand-in of Amazon SQS and S3 for tests: a Python program in a virtual environment below the target directory.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::find;
use super::instance::Instance;
use super::python;
use super::server::{Installed, Server};
use crate::workspace;

pub(super) struct Sqs;

const PROGRAM: &str = "ministack";

/// Packages with their versions. A virtual environment of its own, since other clients of AWS need a later `botocore`.
const REQUIREMENTS: &str = include_str!("ministack.txt");

/// Settings besides ports and addresses.
const SETTINGS: [(&str, &str); 5] = [
    ("BIND_HOST", "127.0.0.1"),
    ("MINISTACK_HOST", "127.0.0.1"),
    ("SERVICES", "sqs,s3"),
    ("SFTP_ENABLED", "0"),
    ("PERSIST_STATE", "0"),
];

impl Server for Sqs {
    fn name(&self) -> &'static str {
        "sqs"
    }

    fn find(&self) -> Option<Installed> {
        let environment = python::find_environment(REQUIREMENTS, &folder().ok()?)?;
        let version = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("ministack=="))?;
        Some(Installed { folder: environment.join("bin"), version: version.to_owned() })
    }

    fn install(&self) -> Result<()> {
        python::make_environment(REQUIREMENTS, &folder()?)?;
        Ok(())
    }

    fn command(&self, instance: &Instance) -> Command {
        let mut command = instance.command(PROGRAM);
        command.env("GATEWAY_PORT", instance.port().to_string()).envs(SETTINGS);
        command
    }

    fn check(&self, instance: &Instance) -> Result<()> {
        let mut stream = find::connect(instance.port())?;
        stream
            .write_all(b"GET /_ministack/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("it does not answer")?;
        ensure!(
            answer.starts_with("HTTP/1.1 200"),
            "it answers {}",
            answer.lines().next().unwrap_or_default()
        );
        Ok(())
    }

    fn variables(&self, instance: &Instance) -> Vec<(&'static str, String)> {
        let url = format!("http://127.0.0.1:{}", instance.port());
        vec![("CRAWLWAY_TEST_SQS", url.clone()), ("CRAWLWAY_TEST_S3", url)]
    }
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target_directory(&workspace::root()?)?.join(PROGRAM))
}
