//! Web server for many hosts on one port, with a function for the responses, and the program that crawls it.

use crawlway_testkit::{
    process,
    web::{self, Request},
};
use serde_json::Value;
use std::{
    net::Ipv4Addr,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");

pub(crate) struct Web {
    pub(crate) port: u16,
}

impl Web {
    /// Serves these hosts until the end of the test process. The function returns the complete response of a host to a path.
    pub(crate) fn serve(
        hosts: &[Ipv4Addr],
        responder: impl Fn(Ipv4Addr, &str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self { port: web::serve(hosts, 0, move |Request { host, path, .. }| responder(*host, path)) }
    }

    pub(crate) fn url(&self, host: Ipv4Addr, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// `crawlway crawl` of these hosts.
    pub(crate) fn crawl(&self, hosts: &[Ipv4Addr], home: &Path) -> Command {
        let mut crawl = program(home, &["crawl", "--json", "--quiet", "--no-robots", "--min-delay", "0s"]);
        crawl.args(["--name", "attacked", "--allow", &format!("127.0.0.0/8:{}", self.port)]);
        crawl.args(hosts.iter().map(|host| self.url(*host, "/")));
        crawl
    }
}

/// The program with its data directory below this directory.
pub(crate) fn program(home: &Path, arguments: &[&str]) -> Command {
    let mut program = Command::new(PROGRAM);
    program.args(arguments).arg("--data").arg(home.join("data")).current_dir(home).env_clear();
    program.stdout(Stdio::piped()).stderr(Stdio::null());
    program
}

/// Waits for the end of the process. Returns its report, if it printed one.
pub(crate) fn report_of(child: Child, timeout: Duration) -> Option<Value> {
    let output = process::output(child, timeout);
    assert_ne!(output.status.signal(), Some(6), "the process does not end");
    serde_json::from_slice(&output.stdout).ok()
}

pub(crate) fn hosts(subnet: u8, count: u8) -> Vec<Ipv4Addr> {
    (1..=count).map(|number| Ipv4Addr::new(127, 0, subnet, number)).collect()
}

/// HTTP response with this body, the last one of its connection.
pub(crate) fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    web::response(status, &format!("connection: close\r\n{headers}"), body)
}

pub(crate) fn page(text: &str) -> Vec<u8> {
    response("200 OK", "content-type: text/html\r\n", format!("<title>t</title><p>{text}").as_bytes())
}
