//! Serves one of the webs until the process ends: `cargo run -p crawlway-demo-web --example serve -- crash 200`.

use crawlway_demo_web::{Plan, Web};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let plan = arguments.next().unwrap_or_else(|| "demo".to_owned());
    let pages = arguments.next().and_then(|pages| pages.parse().ok());
    let plan = match (plan.as_str(), pages) {
        ("crash", None) => Plan::crash(),
        ("crash", Some(pages)) => Plan::crash_of(pages),
        ("traps", _) => Plan::traps(),
        ("bench", pages) => Plan::bench(pages.unwrap_or(20_000)),
        ("tiny", pages) => Plan::tiny(pages.unwrap_or(1_000_000)),
        _ => Plan::demo(),
    };
    let server = Web::builder(plan).without_log().serve().await?;
    let hosts: Vec<String> = server.web().hosts().map(|host| format!("--host {host}")).collect();
    eprintln!(
        "{} {} --allow 127.0.0.0/8:{}",
        server.web().ground_truth().start.join(" "),
        hosts.join(" "),
        server.web().port()
    );
    std::future::pending::<()>().await;
    Ok(())
}
