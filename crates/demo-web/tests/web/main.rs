//! The webs match their ground truth, and the server serves them.

mod client;
mod crawler;
mod plans;
mod serving;
