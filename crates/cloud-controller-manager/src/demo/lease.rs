//! The Lease of the demo's controllers while the demo serves, so that `explain` and `doctor` see a leader, and a manager
//! that the user starts becomes a standby replica.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use cloud_provider::names::MANAGER_NAME;
use runtime::client::{ClientOptions, NoRequestMetrics, UserAgent, connect};
use runtime::clock::SystemClock;
use runtime::election::{ElectionConfig, Elector, Leadership, NoElectionMetrics};
use runtime::events::recorder;
use tokio_util::sync::CancellationToken;

/// Namespace of the Lease, as the manager's flags have it by default.
const NAMESPACE: &str = "kube-system";
/// Time within which a free Lease is acquired. If this takes longer, another manager holds the Lease.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// Competes for the Lease of cloud controller managers until it is lost or `shutdown` is cancelled.
///
/// # Errors
/// If the kubeconfig cannot be used.
pub(super) async fn compete(kubeconfig: &Path, shutdown: &CancellationToken) -> Result<Leadership> {
    let config = ElectionConfig::new(NAMESPACE, MANAGER_NAME);
    let options = config.client_options(&ClientOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        user_agent: UserAgent {
            binary: "demo-lease".to_owned(),
            ..UserAgent::default()
        },
        ..ClientOptions::default()
    });
    let client = connect(&options, "", Arc::new(NoRequestMetrics)).await?;
    let (events, sender) = recorder(client.clone(), MANAGER_NAME, Arc::new(SystemClock));
    tokio::spawn(sender.run(shutdown.clone()));
    let elector = Elector::new(client, config, events, Arc::new(NoElectionMetrics));
    let leadership = elector.leadership();
    tokio::spawn(elector.run(shutdown.clone()));
    Ok(leadership)
}
