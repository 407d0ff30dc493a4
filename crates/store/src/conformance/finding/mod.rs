//! The conformance suite of the page index as a search: what is found by which query, in which order, and how it is
//! shown. Every backend passes it with the [`Harness`] of [`pages`](super::pages).

mod languages;
mod list;
mod parts;
mod queries;
mod set;

pub use super::pages::Harness;
pub use list::{CASES, Case, run};
pub use set::page;
