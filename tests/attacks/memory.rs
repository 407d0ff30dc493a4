//! Large bodies from many hosts at once, within every limit of a single page.

use crate::web::{Web, response};
use serde_json::Value;
use std::{
    io::Write,
    net::Ipv4Addr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");
/// Such attacks took over 6 and 10 GB.
const MOST_MIB: u64 = 1024;
const LIMIT: Duration = Duration::from_secs(300);

fn hosts(many: u8) -> Vec<Ipv4Addr> {
    (1..=many).map(|number| Ipv4Addr::new(127, 0, 7, number)).collect()
}

/// Words without end, up to so many bytes.
fn words(bytes: usize) -> Vec<u8> {
    let mut body = b"<title>large</title><p>".to_vec();
    while body.len() < bytes {
        body.extend_from_slice(b"one word after another, and ");
    }
    body.truncate(bytes);
    body
}

/// A site of 40 small pages, on a host of its own.
fn small(path: &str) -> Vec<u8> {
    let links: String = (0..40).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
    let body = if path == "/" { links } else { "<p>a usual page".to_owned() };
    response("200 OK", "content-type: text/html\r\n", body.as_bytes())
}

/// The most memory that a process has had so far, in MiB.
fn most_memory(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// Crawls the first pages of all hosts, and answers what was said and the most memory that it took.
fn crawl(web: &Web, hosts: &[Ipv4Addr], home: &Path) -> (Value, u64) {
    let mut crawl = Command::new(PROGRAM);
    crawl
        .args(["crawl", "--json", "--quiet", "--no-robots", "--min-delay", "0s", "--allow"])
        .arg(format!("127.0.7.0/24:{}", web.port))
        .args(hosts.iter().map(|host| web.url(*host, "/")))
        .arg("--data")
        .arg(home.join("data"))
        .current_dir(home)
        .env_clear()
        .stdout(Stdio::piped());
    let mut child = crawl.spawn().unwrap();
    let (began, mut most) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        most = most.max(most_memory(&child).unwrap_or(0));
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = child.wait_with_output().unwrap();
    let told = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    (told, most)
}

#[test]
fn small_bodies_of_many_hosts_that_decompress_to_64_mib_each_take_less_than_a_gib() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&words(64 << 20)).unwrap();
    let large = response(
        "200 OK",
        "content-type: text/html\r\ncontent-encoding: gzip\r\n",
        &encoder.finish().unwrap(),
    );
    attacked_by(12, large);
}

#[test]
fn plain_bodies_of_16_mib_from_many_hosts_take_less_than_a_gib() {
    attacked_by(16, response("200 OK", "content-type: text/html\r\n", &words(16 << 20)));
}

fn attacked_by(many: u8, large: Vec<u8>) {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(many);
    let usual = hosts[0];
    let answers = move |host, path: &str| if host == usual { small(path) } else { large.clone() };
    let web = Web::serve(&hosts, Arc::new(answers));
    let (told, most) = crawl(&web, &hosts, home.path());
    eprintln!("most memory: {most} MiB; {told}");
    assert_eq!(told["counts"]["outcomes"]["published"], 40 + u64::from(many), "{told}");
    assert_eq!((&told["state"], &told["counts"]["dead"]), (&"finished".into(), &0.into()), "{told}");
    assert!(most < MOST_MIB, "it took {most} MiB");
}
