//! The flow `requests` end to end, through the binary.

mod api;
mod bad_input;
mod commands;
mod dead_letters;
mod deployment;
mod events;
mod kafka;
mod kills;
mod load;
mod outages;
mod poison;
mod third_party_clients;
