//! The features that determine which permissions the program needs.

use cloud_provider::CloudProvider;
use cloud_provider::names::{
    CONTROLLERS, ControllerNames, MANAGER_NAME, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER,
    ROUTE_CONTROLLER, SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER,
};
use runtime::election::migration::LeaderMigration;

use crate::controller_set::Settings;
use crate::flags::{Configuration, LEASE_NAMESPACE};

/// The features that determine which permissions the program needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The controllers that run.
    pub controllers: Vec<ControllerNames>,
    /// Settings of leader election (`--leader-elect`); `None` without leader election.
    pub election: Option<Election>,
    /// Value of the flag `--use-service-account-credentials`.
    pub service_account_credentials: bool,
    /// If set, the API server authenticates and authorizes callers of the secure port: `--secure-port` is not 0.
    pub caller_reviews: bool,
    /// If set, the ConfigMap `extension-apiserver-authentication` is read, which `--authentication-skip-lookup`
    /// prevents.
    pub authentication_lookup: bool,
    /// Value of `--authentication-tolerate-lookup-failure`: an unreadable ConfigMap is only a warning.
    pub tolerate_lookup_failure: bool,
}

/// The settings of leader election that permissions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Namespace of the lease (`--leader-elect-resource-namespace`).
    pub namespace: String,
    /// Names of the leases: `--leader-elect-resource-name` and, with leader migration, the lease of the migration.
    pub leases: Vec<String>,
    /// If set, candidates watch the lease if RBAC permits (D-13).
    pub watch: bool,
}

impl Default for Election {
    fn default() -> Self {
        Self {
            namespace: LEASE_NAMESPACE.to_owned(),
            leases: vec![MANAGER_NAME.to_owned()],
            watch: true,
        }
    }
}

impl Default for Features {
    /// Returns the features of the default flags with a provider that supports every controller.
    fn default() -> Self {
        Self {
            controllers: vec![
                NODE_CONTROLLER,
                NODE_LIFECYCLE_CONTROLLER,
                ROUTE_CONTROLLER,
                SERVICE_CONTROLLER,
            ],
            election: Some(Election::default()),
            service_account_credentials: false,
            caller_reviews: true,
            authentication_lookup: true,
            tolerate_lookup_failure: false,
        }
    }
}

impl Features {
    /// Returns the features that the flags enable, with the lease of `migration`. The controllers are the standard
    /// ones; see [`controllers_that_run`] for those of a provider.
    #[must_use]
    pub fn of(configuration: &Configuration, migration: Option<&LeaderMigration>) -> Self {
        let authentication = &configuration.authentication;
        let has_port = configuration.serving.port != 0;
        let election = configuration
            .election
            .clone()
            .map(|election_settings| Election {
                namespace: election_settings.namespace,
                leases: [
                    Some(election_settings.name),
                    migration.map(|leader_migration| leader_migration.leader_name.clone()),
                ]
                .into_iter()
                .flatten()
                .collect(),
                ..Election::default()
            });
        Self {
            election,
            service_account_credentials: configuration.use_service_account_credentials,
            caller_reviews: has_port,
            authentication_lookup: has_port && !authentication.skip_lookup,
            tolerate_lookup_failure: authentication.tolerate_lookup_failure,
            ..Self::default()
        }
    }

    /// Returns `true` if this controller runs.
    #[must_use]
    pub fn runs(&self, names: ControllerNames) -> bool {
        self.controllers.contains(&names)
    }
}

/// Returns the controllers that the flags select and the provider supports (NODE-2, LIFE-2, SVC-2, ROUTE-2).
#[must_use]
pub fn controllers_that_run(
    settings: &Settings,
    provider: &dyn CloudProvider,
) -> Vec<ControllerNames> {
    let can = |names| match names {
        NODE_CONTROLLER | NODE_LIFECYCLE_CONTROLLER => provider.instances().is_some(),
        ROUTE_CONTROLLER => provider.routes().is_some(),
        SERVICE_CONTROLLER => provider.load_balancers().is_some(),
        VOLUME_LABEL_CONTROLLER => provider.volumes().is_some(),
        _ => false,
    };
    CONTROLLERS
        .into_iter()
        .filter(|names| settings.wants(*names) && can(*names))
        .collect()
}
