//! The `crawlway` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    crawlway_app::run(crawlway_app::FLOWS)
}
