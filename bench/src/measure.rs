//! Runs a program to its end, and tells the time, the computing time and the memory it took.

use crate::children;
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

/// How often it is looked how much memory the program has used at most. That figure only grows, so that no peak
/// between two looks is missed.
const LOOK: Duration = Duration::from_millis(20);

/// What a run took.
#[derive(Debug, Clone)]
pub struct Spent {
    /// From its start to its end.
    pub wall: Duration,
    /// Computing, in the program and in the system for it, on all cores together.
    pub cpu: Duration,
    /// The most memory it ever had, in bytes.
    pub peak: u64,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
}

/// Runs a program, which must end well and before the limit.
pub fn run(command: &mut Command, limit: Duration) -> anyhow::Result<Spent> {
    let name = children::program_of(command);
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
        while watched.recv_timeout(LOOK).is_err() {
            peak = peak.max(most_memory(pid).unwrap_or(0));
            if began.elapsed() > limit {
                // Not waited for yet, so that the number is still its own.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        peak
    });
    // Its figures can be read as long as nobody has waited for it in earnest.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let wall = began.elapsed();
    let _ = ended.send(());
    let peak = watch.join().unwrap_or_default();
    let cpu = cpu_of(child.id());
    let status = child.wait()?;
    let stdout = reader.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    if wall > limit {
        bail!("`{name}` was ended, since it took more than {} s", limit.as_secs());
    }
    if !status.success() {
        bail!("`{name}` ended with {status}; it said: {}", String::from_utf8_lossy(&stdout));
    }
    Ok(Spent { wall, cpu: cpu?, peak, stdout })
}

/// What a process, and those it has waited for, have computed so far.
pub fn cpu_of(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name is in parentheses, and may have spaces and parentheses in it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = fields.split_whitespace().skip(11).take(4).map(|ticks| ticks.parse().unwrap_or(0)).sum();
    Ok(duration(ticks))
}

/// How long the cores have computed, all together, for whomever.
pub fn machine_cpu() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = all.split_whitespace().skip(1).map(|n| n.parse().unwrap_or(0)).collect();
    // Of user, nice, system, idle, iowait, irq, softirq: all but those two in which nothing is done.
    let busy = numbers.iter().take(7).enumerate().filter(|(at, _)| ![3, 4].contains(at));
    Ok(duration(busy.map(|(_, ticks)| ticks).sum()))
}

fn duration(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The most memory that a process ever had, in bytes.
pub fn most_memory(pid: Pid) -> Option<u64> {
    memory(pid, "VmHWM:")
}

/// The memory that a process has now, in bytes.
pub fn memory_now(pid: Pid) -> Option<u64> {
    memory(pid, "VmRSS:")
}

fn memory(pid: Pid, which: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(which))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// How busy the machine is, as it says itself.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_measured() {
        let spent =
            run(Command::new("sh").args(["-c", "sleep 0.1; echo done"]), Duration::from_secs(60)).unwrap();
        assert!(spent.wall >= Duration::from_millis(100));
        assert_eq!(spent.stdout, b"done\n");
        assert!(spent.peak > 100 << 10, "{} bytes", spent.peak);
    }

    #[test]
    fn what_fails_or_takes_too_long_is_told() {
        let told = |script: &str, limit| {
            run(Command::new("sh").args(["-c", script]), limit).unwrap_err().to_string()
        };
        assert!(told("echo why; exit 3", Duration::from_secs(60)).contains("it said: why"));
        assert!(told("exec sleep 60", Duration::from_millis(50)).contains("was ended"));
    }
}
