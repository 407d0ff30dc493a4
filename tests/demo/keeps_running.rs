//! A demo that keeps running after the crawl.

use crate::lab::{Lab, commands, get};
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpListener;

#[test]
fn gateway_and_small_web_answer_until_a_signal() {
    let lab = Lab::new();
    let mut demo = lab.start(lab.program(&["demo", "--json"]));
    let document = demo.document();

    let url = document["gateway"]["url"].as_str().unwrap();
    let (status, answer) = get(&format!("{url}/api/search?q=lighthouse"));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(status, 200, "{answer}");
    assert!(answer["total"].as_u64().unwrap() > 3, "{answer}");
    assert_eq!(get(document["gateway"]["docs"].as_str().unwrap()).0, 200);
    let (status, page) = get(document["web"]["start"][0].as_str().unwrap());
    assert!(status == 200 && page.contains("The Coastal Courier"), "{page}");

    let directory = lab.temporary_files();
    assert_eq!(directory.len(), 1);
    assert!(directory[0].join("gateway.json").exists());
    demo.signal(Signal::TERM);
    let (status, _) = demo.wait();
    assert_eq!(status.code(), Some(0));
    assert_eq!((lab.temporary_files(), lab.files()), (Vec::new(), Vec::new()));
}

#[test]
fn printed_commands_work_also_where_the_port_was_in_use() {
    let lab = Lab::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let mut program = lab.program(&["demo"]);
    program.env("CRAWLWAY_GATEWAY__LISTEN", taken.to_string());
    let mut demo = lab.start(program);
    let mut printed = demo.until(&format!("{taken} is in use, so the API listens on another port"));
    let api = demo.until("  API ");
    let docs = api.split_whitespace().last().unwrap();
    assert_eq!(get(docs).0, 200, "{api}");
    let last = demo.until("Ctrl-C ends the demo and removes");
    assert!(last.contains(lab.temporary_files()[0].to_str().unwrap()), "{last}");
    printed.push_str(&last);
    let commands = commands(&printed);
    assert_eq!(commands.len(), 9, "{printed}");
    commands.into_iter().for_each(|command| lab.run_in_shell(command));
    demo.signal(Signal::INT);
    let (status, rest) = demo.wait();
    assert_eq!(status.code(), Some(0));
    assert!(rest.contains("removed "), "{rest}");
    assert_eq!(lab.temporary_files(), Vec::<std::path::PathBuf>::new());
}
