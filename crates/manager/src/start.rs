//! Start-up: from flags to running controllers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cloud_provider::{CloudProvider, Cluster, Context, Registry};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use runtime::api_error::{api_error, is_answer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clients::ForProvider;
use crate::controllers_task::{Handles, start_controllers};
use crate::flags::Flags;

/// How long the API server may take to answer at all (D-15).
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between attempts to reach it.
const PAUSE: Duration = Duration::from_secs(2);

/// Runs until `shutdown`, or until something that cannot be mended.
pub(crate) async fn start(flags: &Flags, providers: &Registry, shutdown: CancellationToken) -> Result<()> {
    let handles = launch(flags, providers, shutdown.clone()).await?;
    shutdown.cancelled().await;
    handles.wait().await;
    Ok(())
}

/// Starts what `flags` ask for, as the program does: the provider with its configuration, then the controllers. Returns
/// as soon as they run; they end with `shutdown`.
///
/// # Errors
/// A provider that cannot start, or an API server that does not answer.
pub async fn launch(flags: &Flags, providers: &Registry, shutdown: CancellationToken) -> Result<Handles> {
    let provider = provider(flags, providers)?;
    let settings = flags.settings();
    let client = settings.clients.client("cloud-provider").await?;
    let cluster = Cluster { name: flags.cluster_name.clone(), id: cluster_id(&client, &shutdown).await? };
    tracing::info!(provider = provider.name(), cluster = cluster.name, id = cluster.id, "starting");
    let context = Context { cluster, clients: Arc::new(ForProvider(client)), shutdown: shutdown.clone() };
    provider
        .initialize(&context)
        .await
        .map_err(|error| anyhow::anyhow!("cloud provider {:?} cannot start: {error}", provider.name()))?;
    start_controllers(&settings, provider, shutdown).await
}

/// PROV-4 … PROV-7.
fn provider(flags: &Flags, providers: &Registry) -> Result<Arc<dyn CloudProvider>> {
    let name = &flags.cloud_provider;
    let Some(provider) = providers.init(name, flags.cloud_config.as_deref())? else {
        let known: Vec<_> = providers.names().collect();
        bail!(
            "cloud provider is nil: --cloud-provider={name} names nothing that this binary runs; it has: {}",
            known.join(", ")
        );
    };
    if !provider.has_cluster_id() {
        if !flags.allow_untagged_cloud {
            bail!(
                "no ClusterID found: the cloud's resources cannot be told from another cluster's; mark them as the provider's documentation says, or pass --allow-untagged-cloud"
            );
        }
        tracing::warn!("the cloud provider has no cluster id; going on because of --allow-untagged-cloud");
    }
    Ok(provider)
}

/// UID of namespace `kube-system` (D-11); waits for the API server (D-15).
async fn cluster_id(client: &kube::Client, shutdown: &CancellationToken) -> Result<Option<String>> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error = match namespaces.get("kube-system").await {
            Ok(namespace) => return Ok(namespace.metadata.uid),
            Err(error) => error,
        };
        if is_answer(&error) && !matches!(&error, kube::Error::Api(status) if status.code >= 500 || status.code == 429)
        {
            tracing::warn!(error = %api_error(&error), "namespace kube-system cannot be read; the cluster is known by its name alone");
            return Ok(None);
        }
        if Instant::now() >= deadline {
            return Err(error).context(
                "the Kubernetes API server did not answer for two minutes; check its address, the network and the DNS",
            );
        }
        tracing::warn!(error = %api_error(&error), "waiting for the Kubernetes API server");
        tokio::select! {
            () = shutdown.cancelled() => bail!("stopped while waiting for the Kubernetes API server"),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
