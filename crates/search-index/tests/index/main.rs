//! The index in its directory beyond its suites: opening and closing, JSON of results, older versions.

mod lifecycle;
mod shape;
mod support;
mod versions;
