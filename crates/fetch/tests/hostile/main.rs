//! Hostile servers: every fetch ends in time with a stable error code.

mod bodies;
mod floods;
mod politeness;
mod recording;
mod redirects;
mod responses;
mod robots;
mod server;
mod setup;
mod sitemaps;
mod ssrf;
mod timeouts;
mod tls;
