//! Ages as kubectl shows them.

use serde_json::Value;

/// Returns the time since `timestamp`, or `<unknown>`.
pub(super) fn since(timestamp: &Value, now: i64) -> String {
    let parsed = timestamp
        .as_str()
        .and_then(|text| text.parse::<jiff::Timestamp>().ok());
    parsed.map_or_else(
        || "<unknown>".to_owned(),
        |time| human(now - time.as_second()),
    )
}

/// Formats a duration with two units at most, fewer as it grows.
fn human(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = seconds / 86400;
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn ages_have_at_most_two_units() {
        for (seconds, shown) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (700, "11m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600 + 60, "9h"),
            (50 * 3600, "2d2h"),
            (10 * 86400, "10d"),
            (800 * 86400, "2y70d"),
        ] {
            assert_eq!(human(seconds), shown);
        }
    }
}
