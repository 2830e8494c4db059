//! The checks of `doctor`, in their order.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, Cluster, Finding};
use kube::Client;
use runtime::client::{Attempt, ClientError};
use runtime::clock::Clock;

use super::lease::ElectedBy;
use super::report::Findings;
use super::{
    Names, Report, api, clock, cloud, dns, lease, nodes, orphans, permissions, rivals, services,
};
use crate::commands::read_only_client;
use crate::controller_set::Settings;
use crate::diagnosis::Situation;
use crate::kubernetes;
use crate::permissions::{Features, controllers_that_run};

/// The installation to examine, and the interfaces to examine it through.
pub struct Subject<'a> {
    /// Settings that the manager would start with.
    pub settings: &'a Settings,
    /// Name of the cluster (`--cluster-name`).
    pub cluster_name: &'a str,
    /// Features that are enabled. The controllers in it are replaced by those of the settings and the provider.
    pub features: Features,
    /// The lease of leader election; `None` without leader election.
    pub lease: Option<ElectedBy>,
    /// The provider, or the reason why it could not be created.
    pub provider: Result<Arc<dyn CloudProvider>, String>,
    /// Reason why the manager would not start with this provider and these flags.
    pub refusal: Option<String>,
    /// Timeout of a request to the API server or the cloud.
    pub timeout: Duration,
    /// The environment of the process, for explanations of connection errors.
    pub situation: Situation,
    /// Resolver of host names.
    pub names: &'a dyn Names,
    /// The clock for the time of day.
    pub clock: &'a dyn Clock,
}

/// Runs all checks, and calls `told` with each finding as soon as the finding is available.
pub async fn examine(subject: &Subject<'_>, told: &mut (dyn FnMut(&Finding) + Send)) -> Report {
    let mut report = Findings::new(told);
    let clients = clients(subject).await;
    let api = match &clients {
        Err(error) => {
            report.add(Finding::failure(
                "kubeconfig",
                error.clone(),
                "without it nothing of the cluster can be checked",
            ));
            None
        }
        Ok(clients) => match api::ask(&clients.read_only, subject.clock).await {
            Ok(version) => {
                report.extend(api::judge(&version, &situation(subject)));
                report.extend(api::unused(&failed_candidates(subject)));
                Some((clients, version))
            }
            Err(error) => {
                report.add(api::unreachable(&error, &situation(subject)));
                None
            }
        },
    };
    if let Some((clients, _)) = &api {
        report.extend(permissions::check(&clients.any, &features(subject)).await);
    }
    report.add(dns::check(&subject.situation, subject.names, subject.timeout).await);
    if let Some((clients, version)) = &api {
        report.add(clock::judge(
            version.skew,
            subject.lease.as_ref().map(|lease| lease.duration),
        ));
        // The server's clock is closer to that of the lease's holder than the local clock.
        let now = version.server_time;
        report.add(lease::check(&clients.read_only, subject.lease.as_ref(), now).await);
        let cluster = cluster(subject, &clients.read_only).await;
        let has_failed =
            cloud::check(subject, Some((&clients.read_only, &cluster)), &mut report).await;
        nodes::check(subject, &clients.read_only, now, has_failed, &mut report).await;
        services::check(
            subject,
            (&clients.read_only, &cluster),
            now,
            has_failed,
            &mut report,
        )
        .await;
        if !has_failed {
            orphans::check(subject, &clients.read_only, &cluster, now, &mut report).await;
        }
        report.extend(rivals::check(&clients.read_only, subject.lease.as_ref(), now).await);
    } else {
        cloud::check(subject, None, &mut report).await;
        report.add(Finding::warning(
            "cluster",
            "permissions, clock, lease, Nodes and Services were not checked",
            "they need the API server",
        ));
    }
    report.into_report()
}

struct Clients {
    /// Client that refuses every request that is not a read.
    read_only: Client,
    /// Client for access reviews, which are POST requests that change nothing.
    any: Client,
}

async fn clients(subject: &Subject<'_>) -> Result<Clients, String> {
    // A client's error includes its causes.
    let text = |error: anyhow::Error| {
        error
            .downcast_ref::<ClientError>()
            .map_or_else(|| format!("{error:#}"), ToString::to_string)
    };
    let any = subject
        .settings
        .client(super::SUBCOMMAND)
        .await
        .map_err(text)?;
    Ok(Clients {
        read_only: read_only_client(subject.settings, super::SUBCOMMAND)
            .await
            .map_err(text)?,
        any,
    })
}

/// Returns the environment, with the API server that was chosen, if there was a choice (APP-175).
fn situation(subject: &Subject<'_>) -> Situation {
    match &subject.settings.clients {
        kubernetes::Clients::Configured(options) if options.api_servers.in_use().is_some() => {
            Situation::find(options)
        }
        _ => subject.situation.clone(),
    }
}

/// Returns the candidates for the API server that could not be used.
fn failed_candidates(subject: &Subject<'_>) -> Vec<Attempt> {
    match &subject.settings.clients {
        kubernetes::Clients::Configured(options) => options.api_servers.failed(),
        kubernetes::Clients::Shared(_) => Vec::new(),
    }
}

fn features(subject: &Subject<'_>) -> Features {
    let controllers = match &subject.provider {
        Ok(provider) => controllers_that_run(subject.settings, &**provider),
        Err(_) => subject.features.controllers.clone(),
    };
    Features {
        controllers,
        ..subject.features.clone()
    }
}

/// Returns the identity of the cluster, as the manager reads it (D-11).
async fn cluster(subject: &Subject<'_>, client: &Client) -> Cluster {
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
        kube::Api::all(client.clone());
    let id = namespaces
        .get("kube-system")
        .await
        .ok()
        .and_then(|namespace| namespace.metadata.uid);
    Cluster {
        name: subject.cluster_name.to_owned(),
        id,
    }
}
