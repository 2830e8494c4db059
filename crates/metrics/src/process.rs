//! Metrics of this process from `/proc` (MET-27). Values that cannot be read are left out.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::samples::Samples;
use crate::series::{
    PROCESS_CPU, PROCESS_MAX_FILES, PROCESS_MAX_VIRTUAL, PROCESS_OPEN_FILES, PROCESS_RECEIVED,
    PROCESS_RESIDENT, PROCESS_SENT, PROCESS_START_TIME, PROCESS_VIRTUAL,
};

/// Clock ticks per second of the times in `/proc`, fixed in Linux' interface to programs.
const TICKS: f64 = 100.0;

/// The metrics of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    /// Start time of the process since the Unix epoch.
    pub(crate) started: Duration,
}

impl Process {
    /// Reads the start time of the process; the current time if it cannot be read.
    pub(crate) fn current() -> Self {
        let now = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
        };
        Self {
            started: start_time().unwrap_or_else(now),
        }
    }

    pub(crate) fn samples(self, out: &mut Samples) {
        out.put(PROCESS_START_TIME, self.started.as_secs_f64());
        let mut put = |series, number: Option<f64>| {
            if let Some(number) = number {
                out.put(series, number);
            }
        };
        let stat = read("/proc/self/stat");
        put(PROCESS_CPU, stat.as_deref().and_then(cpu_seconds));
        put(
            PROCESS_VIRTUAL,
            stat.as_deref().and_then(|text| stat_field(text, 23)),
        );
        put(
            PROCESS_RESIDENT,
            read("/proc/self/status").and_then(|text| kilobytes(&text, "VmRSS:")),
        );
        put(PROCESS_OPEN_FILES, open_files());
        let limits = read("/proc/self/limits");
        put(
            PROCESS_MAX_FILES,
            limits
                .as_deref()
                .and_then(|text| limit(text, "Max open files")),
        );
        put(
            PROCESS_MAX_VIRTUAL,
            limits
                .as_deref()
                .and_then(|text| limit(text, "Max address space")),
        );
        if let Some((received, sent)) = read("/proc/self/net/dev").map(|text| traffic(&text)) {
            put(PROCESS_RECEIVED, Some(received));
            put(PROCESS_SENT, Some(sent));
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns a field of `/proc/PID/stat` by its number in proc(5). The fields are counted from the last closing
/// parenthesis, because the program's name may contain anything.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS)
}

fn start_time() -> Option<Duration> {
    let after_boot = stat_field(&read("/proc/self/stat")?, 22)? / TICKS;
    let boot: f64 = read("/proc/stat")?
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Duration::try_from_secs_f64(boot + after_boot).ok()
}

/// Returns a value of `/proc/PID/status`, in bytes.
fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(number * 1024.0)
}

/// Returns a soft limit of `/proc/PID/limits`; -1 if there is none.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(-1.0),
        number => number.parse().ok(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "files are counted in thousands")]
fn open_files() -> Option<f64> {
    // Without the descriptor of the directory itself.
    Some(
        fs::read_dir("/proc/self/fd")
            .ok()?
            .count()
            .saturating_sub(1) as f64,
    )
}

/// Returns the bytes received and sent over all interfaces.
fn traffic(devices: &str) -> (f64, f64) {
    let counts = devices.lines().filter_map(|line| {
        let mut fields = line
            .split_once(':')?
            .1
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or(0.0));
        Some((fields.next()?, fields.nth(7)?))
    });
    counts.fold((0.0, 0.0), |(received, sent), (more, away): (f64, f64)| {
        (received + more, sent + away)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_name_with_spaces_and_parentheses_is_skipped() {
        let stat = "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 965 0 0 0 250 125 0 0 20 0 5 0 8800 1187840 235 18446744073709551615";
        assert_eq!(cpu_seconds(stat), Some(3.75));
        assert_eq!(stat_field(stat, 22), Some(8800.0));
        assert_eq!(stat_field(stat, 23), Some(1_187_840.0));
        assert_eq!(stat_field("4711", 14), None);
    }

    #[test]
    fn limits_memory_and_traffic_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 1048576              files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(-1.0));
        assert_eq!(limit(limits, "Max locks"), None);
        assert_eq!(
            kilobytes("VmPeak:\t  9 kB\nVmRSS:\t    940 kB\n", "VmRSS:"),
            Some(962_560.0)
        );
        let devices = "Inter-|   Receive                            |  Transmit\n\
                       \x20face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n\
                       \x20   lo:  100 1 0 0 0 0 0 0  200 1 0 0 0 0 0 0\n\
                       \x20 eth0:7000 9 0 0 0 0 0 0 5000 9 0 0 0 0 0 0\n";
        assert_eq!(traffic(devices), (7100.0, 5200.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_tells_everything_of_this_process() {
        let mut samples = Samples::default();
        Process::current().samples(&mut samples);
        let mut shown: Vec<_> = samples
            .exposed()
            .map(|family| family.name().to_owned())
            .collect();
        shown.sort_unstable();
        let mut declared: Vec<_> = crate::series::PROCESS
            .iter()
            .map(|series| series.name)
            .collect();
        declared.sort_unstable();
        assert_eq!(shown, declared);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.saturating_sub(Process::current().started);
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }
}
