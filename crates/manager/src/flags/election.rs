//! Leader election and migration.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use runtime::election::{self, ElectionConfig};
use runtime::go_duration::GoDuration;

use super::values::{PathFlag, duration, go_bool, path};

/// The only kind of lock that is left.
const LEASES: &str = "leases";

/// A second lease that is shared with the kube-controller-manager.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Leader-migration")]
pub struct LeaderMigrationFlags {
    /// Move controllers between kube-controller-manager and this program by a second lease; needs --leader-elect.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub enable_leader_migration: bool,
    /// File that says which controller runs under which lease; without it the built-in assignment holds.
    #[arg(long, default_value = "", value_parser = path())]
    pub leader_migration_config: PathFlag,
}

/// Which of several replicas runs the controllers.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Generic")]
pub struct LeaderElectionFlags {
    /// Run the controllers only while holding a lease, so that of several replicas one works.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub leader_elect: bool,
    /// A lease that was not renewed for this long may be taken over.
    #[arg(long, default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: GoDuration,
    /// The holder gives up after failing to renew for this long; less than the lease's duration.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: GoDuration,
    /// Pause between two attempts to take or to renew the lease.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: GoDuration,
    /// Kind of the lock; only leases.
    #[arg(long, default_value = LEASES, value_name = "KIND")]
    pub leader_elect_resource_lock: String,
    /// Name of the lease.
    #[arg(long, default_value = cloud_provider::names::MANAGER_NAME, value_name = "NAME")]
    pub leader_elect_resource_name: String,
    /// Namespace of the lease.
    #[arg(long, default_value = "kube-system", value_name = "NAME")]
    pub leader_elect_resource_namespace: String,
}

/// How the leader is elected, as flags have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionSettings {
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// A lease that was not renewed for this long may be taken over.
    pub lease_duration: Duration,
    /// The holder gives up after failing to renew for this long.
    pub renew_deadline: Duration,
    /// Pause between attempts.
    pub retry_period: Duration,
    /// Hand the lease over at a graceful stop (D-13).
    pub release_on_stop: bool,
    /// The second lease, if there is to be one.
    pub migration: Option<MigrationSettings>,
}

/// Leader migration, as flags have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationSettings {
    /// The file of `--leader-migration-config`; `None`: the built-in assignment (APP-78).
    pub file: Option<PathBuf>,
}

impl LeaderElectionFlags {
    /// `None` without `--leader-elect`.
    pub(super) fn settings(&self, migration: &LeaderMigrationFlags, release_on_stop: bool) -> Option<ElectionSettings> {
        self.leader_elect.then(|| ElectionSettings {
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone(),
            lease_duration: self.leader_elect_lease_duration.to_std_or_zero(),
            renew_deadline: self.leader_elect_renew_deadline.to_std_or_zero(),
            retry_period: self.leader_elect_retry_period.to_std_or_zero(),
            release_on_stop,
            migration: migration
                .enable_leader_migration
                .then(|| MigrationSettings { file: migration.leader_migration_config.to_path_buf() }),
        })
    }

    /// The lock and FLAG-20. Nothing is checked where nothing is elected.
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
            ("--leader-elect-resource-name", &self.leader_elect_resource_name),
            ("--leader-elect-resource-namespace", &self.leader_elect_resource_namespace),
        ] {
            if value.is_empty() {
                errors.push(format!("{flag} must not be empty while electing; pass a name, or --leader-elect=false"));
            }
        }
        errors.extend(self.timing_errors());
        errors
    }

    /// FLAG-20, with the flags that it is about.
    fn timing_errors(&self) -> Vec<String> {
        let config = ElectionConfig {
            lease_duration: self.leader_elect_lease_duration.to_std_or_zero(),
            renew_deadline: self.leader_elect_renew_deadline.to_std_or_zero(),
            retry_period: self.leader_elect_retry_period.to_std_or_zero(),
            ..ElectionConfig::new(&self.leader_elect_resource_namespace, &self.leader_elect_resource_name)
        };
        let given = format!(
            "--leader-elect-lease-duration={} --leader-elect-renew-deadline={} --leader-elect-retry-period={}",
            self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period
        );
        election::validate(&config).into_iter().map(|error| format!("{error}: {given}")).collect()
    }
}
