//! The index in its directory: its life, and what it shows.

mod life;
mod shape;
mod support;
mod versions;
