//! Model-based tests: random operations on a simulated disk with crashes, torn writes and a full disk, checked by an oracle.

mod damage;
mod disk;
mod faults;
mod oracle;
mod simulation;
