//! The controllers without the process around them: no ports, no leader election, no signals.

use std::sync::Arc;

use anyhow::Result;
use cloud_provider::Registry;
use tokio_util::sync::CancellationToken;

use crate::controller_set::{ControllerSet, Handles};
use crate::flags::Flags;
use crate::kubernetes::{API_SERVER_TIMEOUT, ProviderClients, read_cluster};
use crate::provider::{self, PROVIDER_CLIENT};

/// Starts the provider with its configuration, then the controllers, as the program does. Returns as soon as the
/// controllers run; they run until `shutdown`.
///
/// # Errors
/// If the provider cannot start, or if the API server does not answer.
pub async fn launch(
    flags: &Flags,
    providers: &Registry,
    shutdown: CancellationToken,
) -> Result<Handles> {
    let configuration = flags.configuration();
    let settings = configuration.settings();
    let provider = provider::create(&configuration, &settings, providers)?;
    flags.log_notices();
    let client = settings.client(PROVIDER_CLIENT).await?;
    let cluster = read_cluster(
        &configuration.cloud.cluster_name,
        &client,
        API_SERVER_TIMEOUT,
        &shutdown,
    )
    .await?;
    tracing::info!(
        provider = provider.name(),
        cluster = cluster.name,
        id = cluster.id,
        "starting"
    );
    let (events, sender) = provider::recorder(client.clone());
    let clients = Arc::new(ProviderClients::Shared(client));
    let context = provider::context(&settings, &cluster, clients, events, &shutdown);
    provider::initialize(&settings, &*provider, &context).await?;
    let controllers = ControllerSet::new(settings, provider, cluster, shutdown);
    controllers.send_events(sender);
    controllers.start_all().await
}
