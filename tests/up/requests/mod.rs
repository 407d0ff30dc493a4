//! The flow `requests` end to end, through the binary.

mod api;
mod bad_input;
mod commands;
mod deployment;
mod events;
mod kills;
mod outages;
mod poison;
mod third_party_clients;
