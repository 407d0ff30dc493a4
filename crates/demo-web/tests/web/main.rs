//! The webs hold what their truth says, and the server answers as they do.

mod client;
mod plans;
mod serving;
mod walker;
