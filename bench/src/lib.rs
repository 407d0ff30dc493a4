//! What the benchmarks share: programs that are started, measured and never left behind, and what they work on.

pub mod children;
pub mod database;
pub mod measured;
pub mod page;
pub mod program;
pub mod servers;

/// The one in the middle; `T::default()` of none.
pub fn median<T: Copy + Default + PartialOrd>(values: &[T]) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
