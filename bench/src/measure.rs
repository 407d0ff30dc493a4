//! Resource usage of processes: time, CPU time and memory.

use crate::child_process;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Interval of reads of the peak memory.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Resource usage of a run.
#[derive(Debug, Clone)]
pub struct Usage {
    /// Wall time.
    pub wall: Duration,
    /// CPU time, user and system, on all cores.
    pub cpu: Duration,
    /// Peak memory in bytes.
    pub peak: u64,
    /// Standard output.
    pub stdout: Vec<u8>,
}

/// Runs a program to its end; a failure or a timeout is an error.
pub fn run(command: &mut Command, timeout: Duration) -> anyhow::Result<Usage> {
    let name = child_process::program_of(command);
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{name}`"))?;
    let pid = Pid::from_child(&child);
    let pipe = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut stdout = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut stdout)).transpose().map(|_| stdout)
    });
    let (ended, watched) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let mut peak = 0;
        while watched.recv_timeout(POLL_INTERVAL).is_err() {
            peak = peak.max(peak_memory(pid).unwrap_or(0));
            if began.elapsed() > timeout {
                // Not reaped yet, so the id is still valid.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        peak
    });
    // `/proc` has its values until it is reaped.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let wall = began.elapsed();
    let _ = ended.send(());
    let peak = watch.join().unwrap_or_default();
    let cpu = cpu_of(child.id());
    let status = child.wait()?;
    let stdout = reader.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    if wall > timeout {
        bail!("`{name}` was killed after {} s", timeout.as_secs());
    }
    if !status.success() {
        bail!("`{name}` ended with {status}; its output: {}", String::from_utf8_lossy(&stdout));
    }
    Ok(Usage { wall, cpu: cpu?, peak, stdout })
}

/// CPU time of a process and its reaped children.
pub fn cpu_of(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain spaces and parentheses.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).map(|ticks| ticks.parse().unwrap_or(0)).sum();
    Ok(duration(ticks))
}

/// CPU time of all cores since boot.
pub fn machine_cpu() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = all.split_whitespace().skip(1).map(|n| n.parse().unwrap_or(0)).collect();
    // user, nice, system, irq and softirq, without idle and iowait.
    let busy = numbers.iter().take(7).enumerate().filter(|(at, _)| ![3, 4].contains(at));
    Ok(duration(busy.map(|(_, ticks)| ticks).sum()))
}

fn duration(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Peak memory of a process in bytes.
pub fn peak_memory(pid: Pid) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

/// Current memory of a process in bytes.
pub fn memory(pid: Pid) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

fn status_bytes(pid: Pid, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Load average of the machine.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_measured() {
        let usage =
            run(Command::new("sh").args(["-c", "sleep 0.1; echo done"]), Duration::from_secs(60)).unwrap();
        assert!(usage.wall >= Duration::from_millis(100));
        assert_eq!(usage.stdout, b"done\n");
        assert!(usage.peak > 100 << 10, "{} bytes", usage.peak);
    }

    #[test]
    fn failures_and_timeouts_are_errors() {
        let error = |script: &str, timeout| {
            run(Command::new("sh").args(["-c", script]), timeout).unwrap_err().to_string()
        };
        assert!(error("echo why; exit 3", Duration::from_secs(60)).contains("output: why"));
        assert!(error("exec sleep 60", Duration::from_millis(50)).contains("was killed"));
    }
}
