//! The program with one more flow: its folder, and one line of the registry.

mod flow;

use crawlway_app::{FLOWS, FlowModule};
use std::process::ExitCode;

const FLOWS_AND_ONE_MORE: &[&dyn FlowModule] = &[FLOWS[0], FLOWS[1], &flow::ChecksumFlow];

fn main() -> ExitCode {
    crawlway_app::run(FLOWS_AND_ONE_MORE)
}
