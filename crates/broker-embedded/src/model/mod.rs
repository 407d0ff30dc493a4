//! The engine against a model, on a disk that crashes, tears writes, loses what was not synced, and fills up.

mod damage;
mod disk;
mod faults;
mod oracle;
mod world;
