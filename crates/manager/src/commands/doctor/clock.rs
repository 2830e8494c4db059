//! Compares the clocks of this machine and the API server.

use std::time::Duration;

use cloud_provider::Finding;
use k8s_openapi::jiff::SignedDuration;

/// Clock skew that is not reported.
const TOLERATED: Duration = Duration::from_secs(2);
/// Clock skew above which the finding is a failure, without leader election; with leader election, the lease duration
/// is the limit.
const MARGIN: Duration = Duration::from_secs(15);

/// Judges the clock skew. Leader election tolerates a wrong clock; certificates, tokens, leases of other programs and
/// readers of logs do not.
pub(super) fn judge(skew: Option<SignedDuration>, lease: Option<Duration>) -> Finding {
    let margin = lease.unwrap_or(MARGIN);
    let Some(skew) = skew else {
        return Finding::ok(
            "clock",
            "not compared: the API server's answer has no Date header",
        );
    };
    let size = skew.unsigned_abs();
    if size <= TOLERATED {
        return Finding::ok("clock", "equal to the API server's");
    }
    let seconds = size.as_secs_f64();
    let side = if skew.is_negative() {
        "ahead of"
    } else {
        "behind"
    };
    let text = format!("this machine's clock is {seconds:.0} s {side} the API server's");
    let remedy = "run a time service (chrony, systemd-timesyncd) on both";
    if size > margin {
        let text = format!("{text}, more than a lease lasts ({} s)", margin.as_secs());
        return Finding::failure(
            "clock",
            text,
            format!(
                "{remedy}: certificates and tokens are refused, times in leases, events and logs are wrong"
            ),
        );
    }
    Finding::warning("clock", text, remedy)
}

#[cfg(test)]
mod tests {
    use cloud_provider::Severity;

    use super::*;

    #[test]
    fn a_few_seconds_warn_and_more_than_a_lease_fails() {
        let judged = |seconds| {
            judge(
                Some(SignedDuration::from_secs(seconds)),
                Some(Duration::from_secs(15)),
            )
        };
        for (seconds, severity) in [
            (0, Severity::Ok),
            (-2, Severity::Ok),
            (3, Severity::Warning),
            (15, Severity::Warning),
            (-16, Severity::Failure),
        ] {
            assert_eq!(judged(seconds).severity, severity, "{seconds}");
        }
        assert!(judged(3).text.contains("3 s behind the API server's"));
        assert!(
            judged(-16)
                .text
                .contains("16 s ahead of the API server's, more than a lease lasts (15 s)")
        );
        assert_eq!(judge(None, None).severity, Severity::Ok);
    }
}
