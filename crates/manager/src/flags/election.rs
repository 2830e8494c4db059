//! Flags of leader election and leader migration.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use runtime::election::{self, ElectionConfig};
use runtime::go_duration::GoDuration;

use super::values::{PathFlag, duration, go_bool, path};

/// The only supported kind of lock.
const LEASES: &str = "leases";
/// Default namespace of the lease.
pub(crate) const LEASE_NAMESPACE: &str = "kube-system";

/// Returns a configuration with the default timings.
fn timings() -> ElectionConfig {
    ElectionConfig::new(LEASE_NAMESPACE, cloud_provider::names::MANAGER_NAME)
}

/// Flags of leader migration.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Leader-migration")]
pub struct LeaderMigrationFlags {
    /// Migrate controllers between kube-controller-manager and this program with a second lease; requires
    /// --leader-elect.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub enable_leader_migration: bool,
    /// File that assigns controllers to leases; the built-in assignment if empty.
    #[arg(long, default_value = "", value_parser = path())]
    pub leader_migration_config: PathFlag,
}

/// Flags of leader election.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct LeaderElectionFlags {
    /// Run the controllers only while holding a lease, so that only one of several replicas works.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub leader_elect: bool,
    /// Time after which a lease that was not renewed may be acquired by another replica.
    #[arg(long, default_value_t = timings().lease_duration.into(), value_parser = duration)]
    pub leader_elect_lease_duration: GoDuration,
    /// Time after which the holder gives up renewing the lease; must be less than --leader-elect-lease-duration.
    #[arg(long, default_value_t = timings().renew_deadline.into(), value_parser = duration)]
    pub leader_elect_renew_deadline: GoDuration,
    /// Interval between attempts to acquire or renew the lease.
    #[arg(long, default_value_t = timings().retry_period.into(), value_parser = duration)]
    pub leader_elect_retry_period: GoDuration,
    /// Kind of the lock; only leases is supported.
    #[arg(long, default_value = LEASES, value_name = "KIND")]
    pub leader_elect_resource_lock: String,
    /// Name of the lease.
    #[arg(long, default_value = cloud_provider::names::MANAGER_NAME, value_name = "NAME")]
    pub leader_elect_resource_name: String,
    /// Namespace of the lease.
    #[arg(long, default_value = LEASE_NAMESPACE, value_name = "NAME")]
    pub leader_elect_resource_namespace: String,
}

/// The settings of leader election, as the flags set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Time after which a lease that was not renewed may be acquired by another replica.
    pub lease_duration: Duration,
    /// Time after which the holder gives up renewing the lease.
    pub renew_deadline: Duration,
    /// Interval between attempts to acquire or renew the lease.
    pub retry_period: Duration,
    /// If set, the lease is released at a graceful stop (D-13).
    pub release_on_stop: bool,
    /// Leader migration with a second lease; `None` if it is disabled.
    pub migration: Option<MigrationSettings>,
}

/// The settings of leader migration, as the flags set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationSettings {
    /// File of `--leader-migration-config`; `None` for the built-in assignment (APP-78).
    pub file: Option<PathBuf>,
}

impl LeaderElectionFlags {
    /// Returns the settings of leader election; `None` without `--leader-elect`.
    pub(super) fn settings(
        &self,
        migration: &LeaderMigrationFlags,
        release_on_stop: bool,
    ) -> Option<ElectionSettings> {
        let LeaderElectionFlags {
            leader_elect,
            leader_elect_lease_duration,
            leader_elect_renew_deadline,
            leader_elect_retry_period,
            // Checked by `validate`; the only valid value is the only kind of lock.
            leader_elect_resource_lock: _,
            leader_elect_resource_name,
            leader_elect_resource_namespace,
        } = self;
        let LeaderMigrationFlags {
            enable_leader_migration,
            leader_migration_config,
        } = migration;
        leader_elect.then(|| ElectionSettings {
            namespace: leader_elect_resource_namespace.clone(),
            name: leader_elect_resource_name.clone(),
            lease_duration: leader_elect_lease_duration.to_std_or_zero(),
            renew_deadline: leader_elect_renew_deadline.to_std_or_zero(),
            retry_period: leader_elect_retry_period.to_std_or_zero(),
            release_on_stop,
            migration: enable_leader_migration.then(|| MigrationSettings {
                file: leader_migration_config.to_path_buf(),
            }),
        })
    }

    /// Validates the kind of lock and the timings (FLAG-20). Nothing is validated without leader election.
    pub(super) fn validate(&self) -> Vec<String> {
        if !self.leader_elect {
            return Vec::new();
        }
        let mut errors = Vec::new();
        if self.leader_elect_resource_lock != LEASES {
            errors.push(format!(
                "resourceLock value must be {LEASES:?}: --leader-elect-resource-lock is {:?}",
                self.leader_elect_resource_lock
            ));
        }
        for (flag, value) in [
            (
                "--leader-elect-resource-name",
                &self.leader_elect_resource_name,
            ),
            (
                "--leader-elect-resource-namespace",
                &self.leader_elect_resource_namespace,
            ),
        ] {
            if value.is_empty() {
                errors.push(format!(
                    "{flag} must not be empty while electing; pass a name, or --leader-elect=false"
                ));
            }
        }
        errors.extend(self.timing_errors());
        errors
    }

    /// Returns the errors of the timings, with the names of their flags (FLAG-20).
    fn timing_errors(&self) -> Vec<String> {
        let config = ElectionConfig {
            lease_duration: self.leader_elect_lease_duration.to_std_or_zero(),
            renew_deadline: self.leader_elect_renew_deadline.to_std_or_zero(),
            retry_period: self.leader_elect_retry_period.to_std_or_zero(),
            ..ElectionConfig::new(
                &self.leader_elect_resource_namespace,
                &self.leader_elect_resource_name,
            )
        };
        let given = format!(
            "--leader-elect-lease-duration={} --leader-elect-renew-deadline={} --leader-elect-retry-period={}",
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period
        );
        election::validate(&config)
            .into_iter()
            .map(|error| format!("{error}: {given}"))
            .collect()
    }
}
