//! The flow `search` end to end, through the binary, against a web with known content: completeness, politeness, kills and
//! outages.

#![allow(
    clippy::unwrap_used,
    reason = "an unexpected result must fail a test, also outside of test functions"
)]

mod canonical_and_redirects;
mod commands;
mod earlier_release;
mod invalid_messages;
mod kafka;
mod kept_html;
mod kills;
mod lab;
mod log_and_progress;
mod many_processes;
mod out_file;
mod outages;
mod page_versions;
mod postgres;
mod processes;
mod recrawl;
mod redis_keys;
mod release_state;
mod repeated_crawls;
mod site;
mod steps;
mod stored_pages;
mod third_party_clients;
mod traps;
mod upgrade;
mod url_lists;
mod vanished_pages;
