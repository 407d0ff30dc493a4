//! Shared parts of the benchmarks: child processes, resource usage, servers and databases.

pub mod child_process;
pub mod database;
pub mod measure;
pub mod page_server;
pub mod program;
pub mod server_settings;

/// Median; `T::default()` of no values.
pub fn median<T: Copy + Default + PartialOrd>(values: &[T]) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
