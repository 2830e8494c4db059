//! Start-up: from flags to running controllers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cloud_provider::names::ROUTE_CONTROLLER;
use cloud_provider::{CloudProvider, Cluster, Context, Environment, Events, Registry, Setup};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use runtime::api_error::{api_error, is_answer, is_forbidden, is_not_found};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clients::ForProvider;
use crate::controllers_task::{Fleet, Handles, Settings};
use crate::credential_watch::CredentialWatch;
use crate::flags::Flags;
use crate::provider_events;

/// Maximum time to wait for the API server at the start (D-15).
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Name of the provider's client (PROV-10).
pub(crate) const PROVIDER_CLIENT: &str = "cloud-provider";
/// Pause between attempts to reach the API server.
const PAUSE: Duration = Duration::from_secs(2);

/// Starts the provider with its configuration, then the controllers, as the program does. Returns as soon as the
/// controllers run; they run until `shutdown`.
///
/// # Errors
/// If the provider cannot start, or if the API server does not answer.
pub async fn launch(flags: &Flags, providers: &Registry, shutdown: CancellationToken) -> Result<Handles> {
    let settings = flags.settings();
    let provider = provider(flags, &settings, providers)?;
    flags.log_inert();
    let client = settings.client(PROVIDER_CLIENT).await?;
    let cluster = cluster(flags, &client, PATIENCE, &shutdown).await?;
    tracing::info!(provider = provider.name(), cluster = cluster.name, id = cluster.id, "starting");
    let (events, sender) = provider_events::recorder(client.clone());
    let clients = Arc::new(ForProvider::Given(client));
    initialize(&*provider, &context(&settings, &cluster, clients, events, &shutdown)).await?;
    let fleet = Fleet::new(settings, provider, cluster, shutdown);
    fleet.send_events(sender);
    fleet.start_everything().await
}

/// Returns the context that the provider is initialized with.
pub(crate) fn context(
    settings: &Settings,
    cluster: &Cluster,
    clients: Arc<ForProvider>,
    events: Arc<dyn Events>,
    shutdown: &CancellationToken,
) -> Context {
    let cluster_cidrs = settings.options.route.cluster_cidrs.iter().map(ToString::to_string).collect();
    Context { cluster: cluster.clone(), cluster_cidrs, clients, events, shutdown: shutdown.clone() }
}

/// Initializes the provider, which checks that it can work (PROV-10).
pub(crate) async fn initialize(provider: &dyn CloudProvider, context: &Context) -> Result<()> {
    let initialized = provider.initialize(context).await;
    initialized.map_err(|error| anyhow::anyhow!("cloud provider {:?} cannot start: {error}", provider.name()))
}

/// Creates the provider (PROV-4 … PROV-7) and checks the flags that depend on it (FLAG-21).
pub(crate) fn provider(flags: &Flags, settings: &Settings, providers: &Registry) -> Result<Arc<dyn CloudProvider>> {
    let name = &flags.cloud.cloud_provider;
    let setup = Setup {
        fence: settings.fence.clone().unwrap_or_default(),
        metrics: Arc::new(CredentialWatch::over(
            settings.metrics.cloud(name),
            Arc::clone(&settings.credential_accepted),
        )),
        environment: Environment::of_process(),
        cluster_cidr: Some(flags.route.cluster_cidr.clone()),
        user_agent: flags.cloud_user_agent(),
        call_timeout: settings.call_timeout,
        flags: flags.cloud_flags(),
        ..Setup::default()
    };
    let Some(provider) = providers.init(name, flags.cloud.cloud_config.as_deref(), setup)? else {
        let known: Vec<_> = providers.names().collect();
        bail!(
            "cloud provider is nil: --cloud-provider={name} is not a provider of this binary; valid providers are {}",
            known.join(", ")
        );
    };
    check(flags, settings, &*provider)?;
    Ok(provider)
}

/// Checks the flags that depend on the provider.
///
/// # Errors
/// The reason why the manager does not start.
pub(crate) fn check(flags: &Flags, settings: &Settings, provider: &dyn CloudProvider) -> Result<()> {
    check_cluster_id(provider, flags.cloud.allow_untagged_cloud)?;
    if settings.wants(ROUTE_CONTROLLER) && provider.routes().is_some() {
        flags.route.cluster_cidrs().map_err(anyhow::Error::msg)?;
    }
    Ok(())
}

/// Refuses a provider that identifies its resources by a cluster ID but has none (PROV-7).
fn check_cluster_id(provider: &dyn CloudProvider, is_allowed: bool) -> Result<()> {
    if provider.has_cluster_id() || !provider.needs_cluster_id() {
        return Ok(());
    }
    if !is_allowed {
        bail!(
            "no ClusterID found: the cloud's resources cannot be told from another cluster's; mark them as the provider's documentation says, or pass --allow-untagged-cloud"
        );
    }
    tracing::warn!("the cloud provider has no cluster ID; continuing because --allow-untagged-cloud is set");
    Ok(())
}

/// Returns the cluster: `--cluster-name` and the UID of namespace `kube-system` (D-11). Waits up to `patience` for the
/// API server (D-15).
pub(crate) async fn cluster(
    flags: &Flags,
    client: &kube::Client,
    patience: Duration,
    shutdown: &CancellationToken,
) -> Result<Cluster> {
    cluster_of(&flags.cloud.cluster_name, client, patience, shutdown).await
}

/// Returns the cluster of this name, with the UID of namespace `kube-system`.
pub(crate) async fn cluster_of(
    name: &str,
    client: &kube::Client,
    patience: Duration,
    shutdown: &CancellationToken,
) -> Result<Cluster> {
    let named = |id| Cluster { name: name.to_owned(), id };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let deadline = Instant::now() + patience;
    loop {
        let error = match namespaces.get("kube-system").await {
            Ok(namespace) => return Ok(named(namespace.metadata.uid)),
            Err(error) => error,
        };
        // Any other error may be temporary, because a starting API server or a proxy in front of it returns many kinds.
        if is_forbidden(&error) || is_not_found(&error) {
            tracing::warn!(
                error = %api_error(&error), name,
                "namespace kube-system cannot be read, so only --cluster-name identifies this cluster, and the \
                 resources of another cluster of that name in the same account count as its own: allow this identity \
                 to get the namespace, or give each cluster a different --cluster-name"
            );
            return Ok(named(None));
        }
        if Instant::now() >= deadline {
            let asked = if patience.is_zero() { String::new() } else { format!(" within {} s", patience.as_secs()) };
            let problem = if is_answer(&error) {
                format!(
                    "namespace kube-system, whose UID tells clusters apart, could not be read{asked}; check the \
                     permissions of this process, and any proxy between it and the API server"
                )
            } else {
                format!("the Kubernetes API server gave no answer{asked}; check its address, the network and the DNS")
            };
            return Err(error).context(problem);
        }
        tracing::warn!(error = %api_error(&error), "waiting for the Kubernetes API server");
        tokio::select! {
            () = shutdown.cancelled() => bail!("stopped while waiting for the Kubernetes API server"),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use cloud_provider::scripted::ScriptedProvider;

    use super::*;

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

    #[test]
    fn a_missing_cluster_id_stops_only_a_provider_that_needs_it() {
        let untagged = ScriptedProvider::new();
        untagged.set_has_cluster_id(false);
        let refused = check_cluster_id(&untagged, false).unwrap_err().to_string();
        assert!(refused.starts_with("no ClusterID found"), "{refused}");
        assert!(check_cluster_id(&untagged, true).is_ok(), "--allow-untagged-cloud");
        assert!(check_cluster_id(&ScriptedProvider::new(), false).is_ok(), "it has one");
        assert!(check_cluster_id(&OwnedByService, false).is_ok());
    }
}
