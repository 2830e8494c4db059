//! Limits of requests: those that the user or the documentation of Azure states, and those that answers report.

use std::cmp::Reverse;
use std::time::Duration;

use http::HeaderMap;
use provider_kit::transport::{Budget, RateLimitReport, Refill};
use serde::Deserialize;

/// A limit of requests that the user states: reads, and changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "docs/providers/azure.md explains each key")]
pub struct RateLimit {
    pub cloud_provider_rate_limit: Option<bool>,
    #[serde(rename = "cloudProviderRateLimitQPS")]
    pub qps: Option<f64>,
    #[serde(rename = "cloudProviderRateLimitBucket")]
    pub bucket: Option<u32>,
    #[serde(rename = "cloudProviderRateLimitQPSWrite")]
    pub qps_write: Option<f64>,
    #[serde(rename = "cloudProviderRateLimitBucketWrite")]
    pub bucket_write: Option<u32>,
}

/// Requests for each second and at once that Azure documents for a subscription: reads, and changes.
const DOCUMENTED: [(f64, u32); 2] = [(25.0, 250), (10.0, 200)];

impl RateLimit {
    /// Returns the budget of requests for one type of resources, with the values of all types where it has none.
    #[must_use]
    pub fn budget(&self, all: &Self, writes: bool) -> Budget {
        let is_on = self
            .cloud_provider_rate_limit
            .or(all.cloud_provider_rate_limit)
            .unwrap_or_default();
        let reads = (
            self.qps.or(all.qps).unwrap_or(1.0),
            self.bucket.or(all.bucket).unwrap_or(5),
        );
        let changes = || {
            (
                self.qps_write.or(all.qps_write),
                self.bucket_write.or(all.bucket_write),
            )
        };
        let (rate, burst) = match (is_on, writes) {
            (false, _) => DOCUMENTED[usize::from(writes)],
            (true, false) => reads,
            (true, true) => (
                changes().0.unwrap_or(reads.0),
                changes().1.unwrap_or(reads.1),
            ),
        };
        let interval = Duration::from_secs_f64(1.0 / rate.clamp(0.01, 1000.0));
        Budget {
            share_left_to_others: 0.0,
            refill: Refill::Stated {
                interval,
                burst: burst.max(1),
            },
        }
    }
}

/// The beginning of the names of headers that report how many requests are left: of a subscription, of a tenant, and of
/// the operations of a resource provider.
const REMAINING: &str = "x-ms-ratelimit-remaining-";

/// Returns the limit that has the fewest requests left, of those that an answer reports: `1199`, or
/// `Microsoft.Compute/PutVM3Min;117,Microsoft.Compute/PutVM30Min;614`.
pub(crate) fn reported(headers: &HeaderMap) -> RateLimitReport {
    let values = headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with(REMAINING));
    let limits = values
        .filter_map(|(_, value)| value.to_str().ok())
        .flat_map(|text| text.split(','));
    let limit = |text: &str| {
        let (name, remaining) = text.trim().rsplit_once(';').unwrap_or(("", text.trim()));
        Some((remaining.trim().parse::<u64>().ok()?, minutes(name)))
    };
    let fewest = limits
        .filter_map(limit)
        .min_by_key(|(remaining, minutes)| (*remaining, Reverse(*minutes)));
    RateLimitReport {
        remaining: fewest.map(|(remaining, _)| remaining),
        reset: fewest.and_then(|(_, minutes)| Some(Duration::from_secs(60 * minutes?))),
        limit: None,
    }
}

/// Returns the minutes at the end of a limit's name.
fn minutes(name: &str) -> Option<u64> {
    let name = name.strip_suffix("Min")?;
    name[name
        .trim_end_matches(|character: char| character.is_ascii_digit())
        .len()..]
        .parse()
        .ok()
        .filter(|number| *number <= 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_requests_that_are_left_count_with_their_window() {
        const RESOURCE: &str = "x-ms-ratelimit-remaining-resource";
        const WRITES: &str = "x-ms-ratelimit-remaining-subscription-writes";
        for (reported_limits, remaining, minutes) in [
            (&[][..], None, None),
            (&[(WRITES, "199")], Some(199), None),
            (
                &[(
                    RESOURCE,
                    "Microsoft.Compute/PutVM3Min;117,Microsoft.Compute/PutVM30Min;614",
                )],
                Some(117),
                Some(3),
            ),
            (
                &[(
                    RESOURCE,
                    "Microsoft.Compute/PutVM3Min;9, Microsoft.Compute/PutVM30Min;9",
                )],
                Some(9),
                Some(30),
            ),
            (
                &[
                    (RESOURCE, "Microsoft.Compute/GetOperationResource;44"),
                    (WRITES, "7"),
                ],
                Some(7),
                None,
            ),
            (&[(RESOURCE, "odd"), (WRITES, "x")], None, None),
            (&[("x-ratelimit-remaining", "1")], None, None),
        ] {
            let headers = reported_limits
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let expected = RateLimitReport {
                remaining,
                reset: minutes.map(|minutes| Duration::from_secs(60 * minutes)),
                limit: None,
            };
            assert_eq!(
                reported(&headers.collect()),
                expected,
                "{reported_limits:?}"
            );
        }
    }
}
