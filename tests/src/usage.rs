//! Resource usage of a process: processor time and memory, from `/proc`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

/// Clock ticks per second of `/proc/PID/stat`: 100 on every Linux that runs Rust programs.
const TICKS: u64 = 100;

/// Resource usage of a process so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time, of the program and of the kernel for it.
    pub cpu: Duration,
    /// Resident memory now, in KiB.
    pub resident_kib: u64,
    /// The most resident memory since the start, or since [`forget_peak`], in KiB.
    pub peak_kib: u64,
    /// Number of threads at present.
    pub threads: u64,
}

/// Reads what process `pid` has used.
///
/// # Errors
/// The process does not exist.
pub fn of(pid: u32) -> Result<Usage> {
    let read = |file: &str| {
        let path: PathBuf = ["/proc", &pid.to_string(), file].iter().collect();
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let stat = read("stat")?;
    let status = read("status")?;
    parse(&stat, &status).with_context(|| format!("/proc/{pid} looks unlike any Linux"))
}

/// Resets the peak of process `pid` to its resident memory; returns `false` if the kernel does not permit it.
#[must_use]
pub fn forget_peak(pid: u32) -> bool {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok()
}

fn parse(stat: &str, status: &str) -> Option<Usage> {
    // The name, in parentheses, may hold spaces; after it the fields are numbered from 3.
    let fields: Vec<&str> = stat
        .get(stat.rfind(')')? + 1..)?
        .split_whitespace()
        .collect();
    let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let value = |key: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Usage {
        cpu: Duration::from_millis((ticks(14)? + ticks(15)?) * 1000 / TICKS),
        resident_kib: value("VmRSS")?,
        peak_kib: value("VmHWM")?,
        threads: value("Threads")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_confuses_nobody() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 100 0 0";
        let status = "Name:\ta b) c\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t3\n";
        let usage = Usage {
            cpu: Duration::from_secs(2),
            resident_kib: 1024,
            peak_kib: 2048,
            threads: 3,
        };
        assert_eq!(parse(stat, status), Some(usage));
    }

    #[test]
    fn this_process_uses_memory() {
        let usage = of(std::process::id()).unwrap();
        assert!(
            usage.resident_kib > 0 && usage.peak_kib >= usage.resident_kib && usage.threads > 0,
            "{usage:?}"
        );
    }
}
