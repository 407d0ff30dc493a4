//! Memory: large bodies from many hosts at the same time, each within the limits of a single page.

use crate::web::{Web, hosts, response};
use serde_json::Value;
use std::{
    io::Write,
    net::Ipv4Addr,
    path::Path,
    process::Child,
    time::{Duration, Instant},
};

/// Upper bound for the peak memory; without limits such attacks took over 6 and 10 GB.
const MAX_MIB: u64 = 1024;
const TIMEOUT: Duration = Duration::from_secs(300);

/// HTML text of this size.
fn words(bytes: usize) -> Vec<u8> {
    let mut body = b"<title>large</title><p>".to_vec();
    while body.len() < bytes {
        body.extend_from_slice(b"one word after another, and ");
    }
    body.truncate(bytes);
    body
}

/// Site of 40 small pages.
fn small(path: &str) -> Vec<u8> {
    let links: String = (0..40).map(|page| format!("<a href=/{page}>{page}</a> ")).collect();
    let body = if path == "/" { links } else { "<p>a small page".to_owned() };
    response("200 OK", "content-type: text/html\r\n", body.as_bytes())
}

/// Peak memory of a process so far, in MiB.
fn peak_memory(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// Crawls all hosts. Returns the report and the peak memory.
fn crawl(web: &Web, hosts: &[Ipv4Addr], home: &Path) -> (Value, u64) {
    let mut child = web.crawl(hosts, home).spawn().unwrap();
    let (began, mut peak) = (Instant::now(), 0);
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_memory(&child).unwrap_or(0));
        if began.elapsed() > TIMEOUT {
            child.kill().unwrap();
            panic!("the crawl does not end");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (report, peak)
}

#[test]
fn compressed_bodies_of_64_mib_from_many_hosts_need_less_than_a_gib() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&words(64 << 20)).unwrap();
    let large = response(
        "200 OK",
        "content-type: text/html\r\ncontent-encoding: gzip\r\n",
        &encoder.finish().unwrap(),
    );
    check_peak_memory(12, large);
}

#[test]
fn plain_bodies_of_16_mib_from_many_hosts_need_less_than_a_gib() {
    check_peak_memory(16, response("200 OK", "content-type: text/html\r\n", &words(16 << 20)));
}

fn check_peak_memory(count: u8, large: Vec<u8>) {
    let home = tempfile::tempdir().unwrap();
    let hosts = hosts(7, count);
    let small_host = hosts[0];
    let responder = move |host, path: &str| if host == small_host { small(path) } else { large.clone() };
    let web = Web::serve(&hosts, responder);
    let (report, peak) = crawl(&web, &hosts, home.path());
    eprintln!("peak memory: {peak} MiB; {report}");
    assert_eq!(report["counts"]["outcomes"]["published"], 40 + u64::from(count), "{report}");
    assert_eq!((&report["state"], &report["counts"]["dead"]), (&"finished".into(), &0.into()), "{report}");
    assert!(peak < MAX_MIB, "peak memory: {peak} MiB");
}
