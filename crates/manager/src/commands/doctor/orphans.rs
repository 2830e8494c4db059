//! Load balancers and routes whose Service or Node no longer exists.

use std::time::Duration;

use cloud_provider::{Cluster, Finding};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::Subject;
use super::nodes::add_some;
use super::report::Findings;
use crate::commands::orphans::{Orphan, OrphanReport, find};
use crate::commands::seconds;

/// The search is cancelled after the time of this many requests.
const REQUESTS: u32 = 3;

pub(super) async fn check(
    subject: &Subject<'_>,
    client: &Client,
    cluster: &Cluster,
    now: Timestamp,
    report: &mut Findings<'_>,
) {
    let Ok(provider) = &subject.provider else {
        return;
    };
    if provider.load_balancers().is_none() {
        return;
    }
    let deadline = subject.timeout * REQUESTS;
    match tokio::time::timeout(deadline, find(client, &**provider, cluster, now)).await {
        Ok(found) if found.is_supported => add_some(judge(&found), "orphan", report),
        Ok(_) => {}
        Err(_) => {
            let text = format!(
                "resources of deleted Services and Nodes could not be listed within {} s",
                deadline.as_secs()
            );
            report.add(Finding::warning("orphans", text, "raise --timeout"));
        }
    }
}

fn judge(found: &OrphanReport) -> Vec<Finding> {
    if let Some(error) = found.errors.first() {
        return vec![Finding::warning(
            "orphans",
            error.clone(),
            "fix the other failures in this report first",
        )];
    }
    if found.orphans.is_empty() {
        return vec![Finding::ok(
            "orphans",
            "no load balancer of a deleted Service is left",
        )];
    }
    found
        .orphans
        .iter()
        .map(|orphan| finding(orphan, found.time))
        .collect()
}

fn finding(Orphan { resource, .. }: &Orphan, now: Timestamp) -> Finding {
    let age = resource
        .created
        .map(|created| Duration::try_from(now.duration_since(created)).unwrap_or_default());
    let age = age
        .map(|age| format!(", created {} ago", seconds(age)))
        .unwrap_or_default();
    let text = format!(
        "{resource} carries owner tags of this cluster, and its owner no longer exists{age}"
    );
    Finding::warning(
        "orphans",
        text,
        "run the subcommand orphans to list them, and orphans --delete to delete them",
    )
}
