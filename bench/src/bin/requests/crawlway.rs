//! Processes of `crawlway` for the flow.

use crawlway_bench::program::{self, Running};
use crawlway_testkit::servers;
use std::{fs, net::SocketAddr, path::Path};

/// Maximum number of requests in progress.
pub(crate) const CONCURRENCY: u32 = 64;

fn settings(pages: SocketAddr) -> Vec<(&'static str, String)> {
    vec![
        ("CRAWLWAY_FLOWS", "[\"requests\"]".to_owned()),
        ("CRAWLWAY_GATEWAY__LISTEN", "127.0.0.1:0".to_owned()),
        ("CRAWLWAY_FETCH__ALLOW", format!("[\"{}/32:{}\"]", pages.ip(), pages.port())),
        ("CRAWLWAY_FETCH__MIN_DELAY", "0s".to_owned()),
        // All pages are of one host.
        ("CRAWLWAY_FETCH__PER_HOST_CONCURRENCY", CONCURRENCY.to_string()),
        ("CRAWLWAY_LOG__LEVEL", "error".to_owned()),
    ]
}

/// One process on the embedded defaults.
pub(crate) fn embedded(program: &Path, directory: &Path, pages: SocketAddr) -> anyhow::Result<Vec<Running>> {
    start(program, &directory.join("embedded"), &settings(pages), &[]).map(|process| vec![process])
}

/// A gateway and a worker on Kafka and Redis.
pub(crate) fn on_kafka(program: &Path, directory: &Path, pages: SocketAddr) -> anyhow::Result<Vec<Running>> {
    let run = directory.file_name().unwrap_or_default().to_string_lossy();
    let mut settings = settings(pages);
    settings.extend([
        ("CRAWLWAY_BROKER__KIND", "kafka".to_owned()),
        ("CRAWLWAY_BROKER__KAFKA__SERVERS", servers::kafka()),
        ("CRAWLWAY_BROKER__KAFKA__LEDGER", "redis".to_owned()),
        ("CRAWLWAY_REQUESTS__STORE", "redis".to_owned()),
        ("CRAWLWAY_RATE_LIMIT__KIND", "redis".to_owned()),
        ("CRAWLWAY_REDIS__URL", servers::redis()),
        ("CRAWLWAY_REDIS__PREFIX", format!("bench-{}-{run}", std::process::id())),
    ]);
    ["gateway,requests:responses", "requests:fetch"]
        .into_iter()
        .map(|parts| start(program, &directory.join(&parts[..7]), &settings, &["--only", parts]))
        .collect()
}

fn start(
    program: &Path,
    data: &Path,
    settings: &[(&'static str, String)],
    line: &[&str],
) -> anyhow::Result<Running> {
    fs::create_dir_all(data)?;
    let mut command = program::command(program, "up", data, settings);
    command.args(line);
    Running::start(command)
}
