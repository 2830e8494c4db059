//! Rate limit for log records that any client can cause.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Limits the log lines of each period, and counts the dropped ones.
#[derive(Debug)]
pub(crate) struct LogLimit {
    lines: u32,
    period: Duration,
    state: Mutex<LogLimitState>,
}

#[derive(Debug, Default)]
struct LogLimitState {
    begun: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

impl LogLimit {
    pub(crate) fn new(lines: u32, period: Duration) -> Self {
        Self {
            lines,
            period,
            state: Mutex::default(),
        }
    }

    /// Returns the number of lines that were suppressed since the last one, if this line may be logged.
    pub(crate) fn admit(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state
            .begun
            .is_none_or(|begun| now.duration_since(begun) >= self.period)
        {
            (state.begun, state.lines) = (Some(now), 0);
        }
        if state.lines >= self.lines {
            state.suppressed += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_beyond_the_limit_are_counted_and_the_next_period_reports_them() {
        let limit = LogLimit::new(2, Duration::from_secs(10));
        let admitted: Vec<_> = (0..5).map(|_| limit.admit()).collect();
        assert_eq!(admitted, [Some(0), Some(0), None, None, None]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(
            (limit.admit(), limit.admit(), limit.admit()),
            (Some(3), Some(0), None)
        );
    }
}
