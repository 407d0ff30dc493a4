//! Shared parts of the benchmarks: child processes, resource usage, servers and databases.

pub mod child_process;
pub mod database;
pub mod measure;
pub mod page_server;
pub mod program;
pub mod server_settings;

/// Percentiles in milliseconds of latencies in microseconds, which are sorted; 0 of no values.
pub fn percentiles(latencies: &mut [u32], shares: [f64; 4]) -> [f64; 4] {
    latencies.sort_unstable();
    shares.map(|share| {
        let rank = (latencies.len() as f64 * share).ceil() as usize;
        latencies.get(rank.saturating_sub(1)).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    })
}

/// Median; `T::default()` of no values.
pub fn median<T: Copy + Default + PartialOrd>(values: &[T]) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
