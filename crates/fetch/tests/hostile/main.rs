//! Every hostile server has its code and its time bound; an ordinary one is served in full.

mod answers;
mod bodies;
mod certificates;
mod floods;
mod guard;
mod ledger;
mod politeness;
mod redirects;
mod rules;
mod server;
mod setup;
mod sitemaps;
mod times;
