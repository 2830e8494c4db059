//! Configuration of an election: the Lease, the identity and the timings.

use std::time::Duration;

use crate::client::ClientOptions;

/// Pauses between attempts are lengthened by up to this share of the retry period.
pub(super) const JITTER: f64 = 1.2;

/// Configuration of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of the candidate; unique for each process ([`identity`]).
    pub identity: String,
    /// Time for which candidates wait for a holder that does not renew the Lease.
    pub lease_duration: Duration,
    /// Time after which a holder that cannot renew the Lease stops leading.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
    /// If set, a graceful stop releases the Lease (APP-67).
    pub release_on_stop: bool,
}

impl ElectionConfig {
    /// Creates a configuration with a new identity and the timings of the Go cloud-controller-manager: 15 s, 10 s, 2 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_stop: true,
        }
    }

    /// Returns the options of the election's own client (APP-40): `general`, but with a time-out that leaves room for a
    /// second request before the renew deadline, without retries, and without a fence.
    #[must_use]
    pub fn client_options(&self, general: &ClientOptions) -> ClientOptions {
        ClientOptions {
            request_timeout: Some((self.renew_deadline / 2).max(Duration::from_secs(1))),
            single_attempt: true,
            fence: cloud_provider::Fence::open(),
            ..general.clone()
        }
    }

    /// Returns `NAMESPACE/NAME`, as logs show it.
    #[must_use]
    pub fn lock(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the lease duration in seconds as the Lease has it, rounded up: a candidate that waited for less would
    /// not wait for the fence.
    pub(super) fn lease_seconds(&self) -> i64 {
        let whole =
            self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i64::try_from(whole).unwrap_or(i64::MAX)
    }
}

/// Returns a new identity, `<host name>_<random UUID>` (APP-61): unique for each process, and people see the host.
#[must_use]
pub fn identity() -> String {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// Returns the errors of these timings in the words of the Go cloud-controller-manager (FLAG-20); empty if they are
/// valid.
///
/// ```
/// use runtime::election::{ElectionConfig, validate};
/// use std::time::Duration;
///
/// let mut config = ElectionConfig::new("kube-system", "cloud-controller-manager");
/// assert!(validate(&config).is_empty());
/// config.renew_deadline = Duration::from_secs(20);
/// assert_eq!(validate(&config), ["leaseDuration must be greater than renewDeadline"]);
/// ```
#[must_use]
pub fn validate(config: &ElectionConfig) -> Vec<String> {
    let ElectionConfig {
        lease_duration,
        renew_deadline,
        retry_period,
        ..
    } = config;
    let table = [
        (
            lease_duration.is_zero(),
            "leaseDuration must be greater than zero",
        ),
        (
            renew_deadline.is_zero(),
            "renewDeadline must be greater than zero",
        ),
        (
            retry_period.is_zero(),
            "retryPeriod must be greater than zero",
        ),
        (
            lease_duration <= renew_deadline,
            "leaseDuration must be greater than renewDeadline",
        ),
        (
            renew_deadline.as_secs_f64() <= JITTER * retry_period.as_secs_f64(),
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
    ];
    table
        .into_iter()
        .filter(|(wrong, _)| *wrong)
        .map(|(_, text)| text.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_timings_are_reported_all_at_once() {
        let config = |lease: f64, renew: f64, retry: f64| ElectionConfig {
            lease_duration: Duration::from_secs_f64(lease),
            renew_deadline: Duration::from_secs_f64(renew),
            retry_period: Duration::from_secs_f64(retry),
            ..ElectionConfig::new("kube-system", "x")
        };
        let greater = "leaseDuration must be greater than renewDeadline";
        let jitter = "renewDeadline must be greater than retryPeriod*JitterFactor";
        let zero = |name: &str| format!("{name} must be greater than zero");
        let table: [(f64, f64, f64, Vec<String>); 6] = [
            (15.0, 10.0, 2.0, vec![]),
            (10.0, 10.0, 2.0, vec![greater.into()]),
            (15.0, 2.4, 2.0, vec![jitter.into()]),
            (15.0, 2.5, 2.0, vec![]),
            (5.0, 10.0, 9.0, vec![greater.into(), jitter.into()]),
            (
                0.0,
                0.0,
                0.0,
                vec![
                    zero("leaseDuration"),
                    zero("renewDeadline"),
                    zero("retryPeriod"),
                    greater.into(),
                    jitter.into(),
                ],
            ),
        ];
        for (lease, renew, retry, expected) in table {
            assert_eq!(
                validate(&config(lease, renew, retry)),
                expected,
                "{lease} {renew} {retry}"
            );
        }
    }

    #[test]
    fn identities_name_the_host_and_are_never_alike() {
        let one = identity();
        let other = identity();
        let (host, id) = one.rsplit_once('_').unwrap();
        assert!(
            !host.is_empty() && id.len() == 36 && one != other,
            "{one} {other}"
        );
    }

    #[test]
    fn a_lease_lasts_at_least_as_long_as_it_should() {
        let table = [(15_000, 15), (1_500, 2), (1, 1), (14_999, 15)];
        for (millis, seconds) in table {
            let lease_duration = Duration::from_millis(millis);
            let config = ElectionConfig {
                lease_duration,
                ..ElectionConfig::new("kube-system", "x")
            };
            assert_eq!(config.lease_seconds(), seconds, "{millis}");
        }
    }
}
