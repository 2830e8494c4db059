//! The cloud provider as the process sees it: its creation from flags, its initialization by the leader, its events,
//! its credential and its configuration file.

mod cloud_config;
mod credential_watch;
mod events;
mod initialization;

use std::sync::Arc;

use anyhow::{Result, bail};
use cloud_provider::names::ROUTE_CONTROLLER;
use cloud_provider::{CloudProvider, Cluster, Context, Environment, Events, Registry, Setup};
use tokio_util::sync::CancellationToken;

use self::credential_watch::CredentialWatch;
use crate::controller_set::Settings;
use crate::flags::Configuration;
use crate::kubernetes::ProviderClients;
pub(crate) use cloud_config::CloudConfigWatch;
pub(crate) use events::recorder;
pub(crate) use initialization::ProviderInitialization;

/// Name of the provider's client (PROV-10).
pub(crate) const PROVIDER_CLIENT: &str = "cloud-provider";

/// Creates the provider (PROV-4 … PROV-6) and checks the flags that depend on it (FLAG-21). Sends no request, so the
/// cluster ID is checked only by [`initialize`].
///
/// # Errors
/// The reason why the manager does not start.
pub(crate) fn create(
    configuration: &Configuration,
    settings: &Settings,
    providers: &Registry,
) -> Result<Arc<dyn CloudProvider>> {
    let name = &configuration.cloud.provider;
    let setup = Setup {
        fence: settings.fence.clone().unwrap_or_default(),
        metrics: Arc::new(CredentialWatch::over(
            settings.metrics.cloud(name),
            Arc::clone(&settings.credential_accepted),
        )),
        environment: Environment::of_process(),
        cluster_cidr: Some(configuration.route.cluster_cidr.clone()),
        user_agent: configuration.cloud.user_agent.clone(),
        adoptable_tag: configuration.cloud.adoptable_tag.clone(),
        call_timeout: settings.call_timeout,
        flags: configuration.cloud.flags.clone(),
        ..Setup::default()
    };
    let Some(provider) = providers.init(name, configuration.cloud.config_file.as_deref(), setup)?
    else {
        let known: Vec<_> = providers.names().collect();
        bail!(
            "cloud provider is nil: --cloud-provider={name} is not a provider of this binary; valid providers are {}",
            known.join(", ")
        );
    };
    check(configuration, settings, &*provider)?;
    Ok(provider)
}

/// Checks the flags that depend on the provider.
///
/// # Errors
/// The reason why the manager does not start.
pub(crate) fn check(
    configuration: &Configuration,
    settings: &Settings,
    provider: &dyn CloudProvider,
) -> Result<()> {
    match &configuration.route.cidr_error {
        Some(error) if settings.wants(ROUTE_CONTROLLER) && provider.routes().is_some() => {
            bail!("{error}")
        }
        _ => Ok(()),
    }
}

/// Refuses an initialized provider that identifies its resources by a cluster ID but has none (PROV-7).
///
/// # Errors
/// The reason why the manager does not start.
pub(crate) fn check_cluster_id(settings: &Settings, provider: &dyn CloudProvider) -> Result<()> {
    if !lacks_cluster_id(provider) {
        return Ok(());
    }
    if !settings.allow_untagged_cloud {
        bail!(
            "no ClusterID found: the cloud's resources cannot be told from another cluster's; mark them as the provider's documentation says, or pass --allow-untagged-cloud"
        );
    }
    tracing::warn!(
        "the cloud provider has no cluster ID; continuing because --allow-untagged-cloud is set"
    );
    Ok(())
}

/// Returns `true` if the provider needs a cluster ID and has none (PROV-7). Only an initialized provider knows.
pub(crate) fn lacks_cluster_id(provider: &dyn CloudProvider) -> bool {
    provider.needs_cluster_id() && !provider.has_cluster_id()
}

/// Returns the context that the provider is initialized with.
pub(crate) fn context(
    settings: &Settings,
    cluster: &Cluster,
    clients: Arc<ProviderClients>,
    events: Arc<dyn Events>,
    shutdown: &CancellationToken,
) -> Context {
    let cluster_cidrs = settings
        .options
        .route
        .cluster_cidrs
        .iter()
        .map(ToString::to_string)
        .collect();
    Context {
        cluster: cluster.clone(),
        cluster_cidrs,
        clients,
        events,
        shutdown: shutdown.clone(),
    }
}

/// Initializes the provider, which checks that it can work (PROV-10), and then checks its cluster ID: a provider may
/// find the ID only in the cloud, such as in the tags of the machine that the program runs on (PROV-7).
///
/// # Errors
/// The reason why the manager does not start.
pub(crate) async fn initialize(
    settings: &Settings,
    provider: &dyn CloudProvider,
    context: &Context,
) -> Result<()> {
    let initialized = provider.initialize(context).await;
    initialized.map_err(|error| {
        anyhow::anyhow!("cloud provider {:?} cannot start: {error}", provider.name())
    })?;
    check_cluster_id(settings, provider)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use cloud_provider::async_trait;
    use cloud_provider::scripted::ScriptedProvider;
    use controllers::Options;

    use super::*;
    use crate::kubernetes::Clients;

    /// A provider whose resources are tagged with the UID of their Service.
    struct OwnedByService;

    impl CloudProvider for OwnedByService {
        fn name(&self) -> &str {
            "owned-by-service"
        }
        fn has_cluster_id(&self) -> bool {
            false
        }
        fn needs_cluster_id(&self) -> bool {
            false
        }
    }

    /// A provider that reads its cluster ID from the cloud.
    #[derive(Default)]
    struct FoundInCloud(AtomicBool);

    #[async_trait]
    impl CloudProvider for FoundInCloud {
        fn name(&self) -> &str {
            "found-in-cloud"
        }
        fn has_cluster_id(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
        async fn initialize(&self, _: &Context) -> cloud_provider::Result<()> {
            self.0.store(true, Ordering::Relaxed);
            Ok(())
        }
    }

    fn settings(allow_untagged_cloud: bool) -> Settings {
        Settings {
            allow_untagged_cloud,
            ..Settings::new(Options::default(), Clients::Configured(Box::default()))
        }
    }

    #[test]
    fn a_missing_cluster_id_stops_only_a_provider_that_needs_it() {
        let untagged = ScriptedProvider::new();
        untagged.set_has_cluster_id(false);
        let refused = check_cluster_id(&settings(false), &untagged)
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with("no ClusterID found"), "{refused}");
        assert!(
            check_cluster_id(&settings(true), &untagged).is_ok(),
            "--allow-untagged-cloud"
        );
        assert!(
            check_cluster_id(&settings(false), &ScriptedProvider::new()).is_ok(),
            "it has one"
        );
        assert!(check_cluster_id(&settings(false), &OwnedByService).is_ok());
    }

    #[tokio::test]
    async fn cluster_id_may_be_found_by_the_initialization() {
        let cluster = cloud_provider::scripted::ScriptedCluster::default();
        let context = cluster.context(Cluster {
            name: "kubernetes".into(),
            id: None,
        });
        let provider = FoundInCloud::default();
        initialize(&settings(false), &provider, &context)
            .await
            .unwrap();
        let untagged = ScriptedProvider::new();
        untagged.set_has_cluster_id(false);
        let refused = initialize(&settings(false), &untagged, &context)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.starts_with("no ClusterID found"), "{refused}");
    }
}
