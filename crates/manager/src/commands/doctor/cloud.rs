//! Checks of the provider: its configuration, its credential and its own checks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, Cluster, Finding, NoEvents, Severity};
use futures::FutureExt as _;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::Subject;
use super::report::Findings;
use crate::controller_set::Settings;
use crate::kubernetes::ProviderClients;
use crate::provider;

/// The provider's own checks fail if they take longer than this many requests.
const REQUESTS: u32 = 3;

/// Checks the provider. Returns `true` if a check failed.
pub(super) async fn check(
    subject: &Subject<'_>,
    cluster: Option<(&Client, &Cluster)>,
    report: &mut Findings<'_>,
) -> bool {
    let provider = match &subject.provider {
        Ok(provider) => provider,
        Err(error) => {
            let remedy = "correct --cloud-provider, the file that --cloud-config names, or the variables that the provider reads";
            report.add(Finding::failure("cloud configuration", error.clone(), remedy));
            return true;
        }
    };
    let name = provider.name();
    if let Some(refusal) = &subject.refusal {
        let remedy = "the manager does not start until this is corrected";
        report.add(Finding::failure("cloud configuration", refusal.clone(), remedy));
    } else if provider.needs_cluster_id() && !provider.has_cluster_id() {
        report.add(Finding::warning(
            "cloud configuration",
            format!("cloud provider {name:?} cannot tell this cluster's resources from another's"),
            "tag them as the provider's documentation says, or start the manager with --allow-untagged-cloud",
        ));
    }
    let deadline = subject.timeout * REQUESTS;
    let findings = guarded(deadline, provider.diagnose()).await;
    let failed = findings.is_err()
        || findings.as_ref().is_ok_and(|it| it.iter().any(|finding| finding.severity == Severity::Failure));
    match findings {
        Ok(findings) => {
            report.extend(findings.into_iter().map(|it| Finding { check: format!("cloud {}", it.check), ..it }));
        }
        Err(error) => report.add(Finding::failure("cloud", error, "report this to the provider's authors")),
    }
    // The provider's messages at a start, unless they have just been reported.
    if !failed && let Some((client, cluster)) = cluster {
        report.add(initialize(subject.settings, deadline, provider, client, cluster).await);
    }
    failed
}

async fn initialize(
    settings: &Settings,
    deadline: Duration,
    provider: &Arc<dyn CloudProvider>,
    client: &Client,
    cluster: &Cluster,
) -> Finding {
    let shutdown = CancellationToken::new();
    let clients = Arc::new(ProviderClients::Shared(client.clone()));
    let context = provider::context(settings, cluster, clients, Arc::new(NoEvents), &shutdown);
    let initialized = guarded(deadline, provider.initialize(&context)).await;
    shutdown.cancel();
    let name = provider.name();
    match initialized {
        Ok(Ok(())) => Finding::ok("cloud", format!("provider {name:?} can start")),
        Ok(Err(error)) => Finding::failure(
            "cloud",
            format!("provider {name:?} cannot start: {error}"),
            "correct what it names, in the file of --cloud-config or in the environment",
        ),
        Err(error) => Finding::failure("cloud", error, "report this to the provider's authors"),
    }
}

/// Awaits a call of the provider with a deadline, and turns a time-out or a panic into an error text.
async fn guarded<T>(deadline: Duration, call: impl Future<Output = T>) -> Result<T, String> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err("the provider panicked".to_owned()),
        Err(_) => Err(format!("the provider gave no answer within {deadline:?}")),
    }
}
