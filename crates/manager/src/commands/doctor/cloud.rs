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
/// Remedy of a mistake that the text explains.
const BEFORE_A_START: &str = "the manager does not start until this is corrected";

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
            report.add(Finding::failure(
                "cloud configuration",
                error.clone(),
                remedy,
            ));
            return true;
        }
    };
    if let Some(refusal) = &subject.refusal {
        report.add(Finding::failure(
            "cloud configuration",
            refusal.clone(),
            BEFORE_A_START,
        ));
    }
    let deadline = subject.timeout * REQUESTS;
    let shutdown = CancellationToken::new();
    let start = async {
        let (client, cluster) = cluster?;
        Some(
            initialize(
                subject.settings,
                deadline,
                provider,
                client,
                cluster,
                &shutdown,
            )
            .await,
        )
    };
    // The start begins first, which gives the provider its context: its own checks may read Kubernetes objects. Both run
    // at once, so that the findings about a cloud that hangs are as early as without a start.
    let mut start = std::pin::pin!(start);
    let mut checks = std::pin::pin!(guarded(deadline, provider.diagnose()));
    let mut started = None;
    let findings = loop {
        tokio::select! {
            biased;
            result = &mut start, if started.is_none() => started = Some(result),
            findings = &mut checks => break findings,
        }
    };
    let failed = findings.is_err()
        || findings.as_ref().is_ok_and(|findings| {
            findings
                .iter()
                .any(|finding| finding.severity == Severity::Failure)
        });
    match findings {
        Ok(findings) => {
            report.extend(findings.into_iter().map(|finding| Finding {
                check: format!("cloud {}", finding.check),
                ..finding
            }));
        }
        Err(error) => report.add(Finding::failure(
            "cloud",
            error,
            "report this to the provider's authors",
        )),
    }
    // The provider's messages at a start, unless they have just been reported.
    if !failed {
        let started = match started {
            Some(started) => started,
            None => start.await,
        };
        report.extend(started.into_iter().flatten());
    }
    shutdown.cancel();
    failed
}

/// Initializes the provider as a start does, and then judges its cluster ID, which it may have found only now (PROV-7).
async fn initialize(
    settings: &Settings,
    deadline: Duration,
    provider: &Arc<dyn CloudProvider>,
    client: &Client,
    cluster: &Cluster,
    shutdown: &CancellationToken,
) -> Vec<Finding> {
    let clients = Arc::new(ProviderClients::Shared(client.clone()));
    let context = provider::context(settings, cluster, clients, Arc::new(NoEvents), shutdown);
    let initialized = guarded(deadline, provider.initialize(&context)).await;
    let name = provider.name();
    match initialized {
        Ok(Ok(())) => match provider::check_cluster_id(settings, &**provider) {
            Err(refusal) => vec![Finding::failure(
                "cluster ID",
                refusal.to_string(),
                BEFORE_A_START,
            )],
            Ok(()) => {
                let untagged = provider::lacks_cluster_id(&**provider).then(|| untagged(name));
                let ok = Finding::ok("cloud", format!("provider {name:?} can start"));
                untagged.into_iter().chain([ok]).collect()
            }
        },
        Ok(Err(error)) => vec![Finding::failure(
            "cloud",
            format!("provider {name:?} cannot start: {error}"),
            "correct what it names, in the file of --cloud-config or in the environment",
        )],
        Err(error) => vec![Finding::failure(
            "cloud",
            error,
            "report this to the provider's authors",
        )],
    }
}

fn untagged(provider: &str) -> Finding {
    Finding::warning(
        "cluster ID",
        format!("cloud provider {provider:?} cannot tell this cluster's resources from another's"),
        "tag them as the provider's documentation says, and remove --allow-untagged-cloud",
    )
}

/// Awaits a call of the provider with a deadline, and turns a time-out or a panic into an error text.
async fn guarded<T>(deadline: Duration, call: impl Future<Output = T>) -> Result<T, String> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err("the provider panicked".to_owned()),
        Err(_) => Err(format!("the provider gave no answer within {deadline:?}")),
    }
}
