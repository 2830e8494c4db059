//! Reports permissions that the identity lacks (DEP-31).

use cloud_provider::Finding;
use kube::Client;

use crate::permissions::{Checked, Features, check as ask};

pub(super) async fn check(client: &Client, features: &Features) -> Vec<Finding> {
    let Checked {
        missing,
        asked,
        unknown,
        error,
    } = ask(client, features).await;
    let mut findings: Vec<_> = missing
        .iter()
        .map(|missing| {
            let text = format!(
                "may not {} ({})",
                missing.what(),
                missing.reasons.join("; ")
            );
            match missing.rule.optional {
                true => Finding::warning("permissions", text, missing.remedy()),
                false => Finding::failure("permissions", text, missing.remedy()),
            }
        })
        .collect();
    if unknown > 0 {
        findings.push(Finding::warning(
            "permissions",
            format!("{unknown} of {asked} could not be checked: {}", error.unwrap_or_default()),
            "let this identity create selfsubjectaccessreviews (ClusterRole system:basic-user), or run as one that may",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "permissions",
            format!("all {asked} are granted"),
        ));
    }
    findings
}
