//! The index through its contract: what is found, in which order, and what it looks like.

mod languages;
mod life;
mod paging;
mod queries;
mod shape;
mod support;
mod versions;
