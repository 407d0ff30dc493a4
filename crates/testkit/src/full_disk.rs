//! Tests on a small disk.
#![allow(clippy::print_stdout, reason = "it prints what a test harness would")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Main function of a test without a harness, on a disk of this size.
///
/// The program runs itself in a mount namespace with a small tmpfs, which needs root or unprivileged user namespaces.
pub fn run<T: Future<Output = ()>>(name: &str, size: &str, test: impl FnOnce(PathBuf) -> T) {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--inside") => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(test(Path::new(&arguments[2]).to_owned()));
        }
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            in_a_namespace(size);
            println!("test {name} ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

fn in_a_namespace(size: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = format!("mount -t tmpfs -o size={size} small \"$1\" && exec \"$2\" --inside \"$1\"");
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    let status = unshare
        .args(["--mount", "--", "sh", "-c", &script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().expect("our own path"))
        .status()
        .expect("`unshare` of util-linux starts");
    assert!(
        status.success(),
        "the test inside the namespace fails, or namespaces are not allowed here: {status}"
    );
}
