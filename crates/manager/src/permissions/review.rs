//! Access reviews: asks the API server which permissions an identity has (DEP-31).

use std::collections::BTreeSet;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec, SubjectAccessReview, SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
};
use kube::api::PostParams;
use kube::{Api, Client};
use runtime::api_error::api_error;

use super::{Features, Grant, Identity, Missing, Rule, Scope, grants, needed};

/// Maximum number of access reviews in flight.
const AT_A_TIME: usize = 8;

/// The result of reviewing all needed permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The missing rules, each reduced to the permissions that are missing.
    pub missing: Vec<Missing>,
    /// Number of permissions that were reviewed.
    pub asked: usize,
    /// Number of permissions without a result, because the review itself was refused or failed.
    pub unknown: usize,
    /// Error of the first review that was refused or failed.
    pub error: Option<String>,
}

impl Checked {
    /// Returns the missing rules without which nothing works.
    pub fn vital(&self) -> impl Iterator<Item = &Missing> {
        self.missing.iter().filter(|missing| missing.rule.vital)
    }

    /// Logs each missing rule once, with the YAML that grants it. Reviews that failed are logged at debug level only,
    /// because the permission may be granted.
    pub fn log(&self) {
        for missing in &self.missing {
            tracing::warn!("missing permission: {missing}");
        }
        if let Some(error) = &self.error {
            let Self { asked, unknown, .. } = self;
            tracing::debug!(
                asked,
                unknown,
                error,
                "some permissions could not be checked"
            );
        }
    }
}

/// Reviews every permission that the features need.
pub async fn check(client: &Client, features: &Features) -> Checked {
    check_rules(client, &needed(features)).await
}

/// Reviews every permission that the rules allow. The process's own identity is reviewed with a
/// SelfSubjectAccessReview, a controller's ServiceAccount with a SubjectAccessReview, which needs no token of that
/// account.
pub async fn check_rules(client: &Client, rules: &[Rule]) -> Checked {
    let wanted = grants(rules);
    let asked = wanted.len();
    let answers = stream::iter(wanted).map(|grant| async move {
        let answer = is_allowed(client, &grant).await;
        (grant, answer)
    });
    let mut denied = BTreeSet::new();
    let mut unknown = 0;
    let mut error = None;
    for (grant, answer) in answers.buffered(AT_A_TIME).collect::<Vec<_>>().await {
        match answer {
            Ok(true) => {}
            Ok(false) => _ = denied.insert(grant),
            Err(failed) => {
                unknown += 1;
                error.get_or_insert_with(|| api_error(&failed).to_string());
            }
        }
    }
    Checked {
        missing: Missing::of(rules, &denied),
        asked,
        unknown,
        error,
    }
}

async fn is_allowed(client: &Client, grant: &Grant) -> Result<bool, kube::Error> {
    let (resource_attributes, non_resource_attributes) = attributes(grant);
    let params = PostParams::default();
    let status = match grant.identity {
        Identity::Process => {
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes,
                non_resource_attributes,
            };
            let review = SelfSubjectAccessReview {
                spec,
                ..SelfSubjectAccessReview::default()
            };
            Api::<SelfSubjectAccessReview>::all(client.clone())
                .create(&params, &review)
                .await?
                .status
        }
        Identity::Controller(name) => {
            let groups = [
                "system:serviceaccounts",
                "system:serviceaccounts:kube-system",
                "system:authenticated",
            ];
            let spec = SubjectAccessReviewSpec {
                resource_attributes,
                non_resource_attributes,
                user: Some(format!("system:serviceaccount:kube-system:{name}")),
                groups: Some(groups.map(str::to_owned).to_vec()),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview {
                spec,
                ..SubjectAccessReview::default()
            };
            Api::<SubjectAccessReview>::all(client.clone())
                .create(&params, &review)
                .await?
                .status
        }
    };
    Ok(status.is_some_and(|status: SubjectAccessReviewStatus| status.allowed))
}

fn attributes(grant: &Grant) -> (Option<ResourceAttributes>, Option<NonResourceAttributes>) {
    let verb = Some(grant.verb.to_owned());
    if grant.scope == Scope::NonResource {
        return (
            None,
            Some(NonResourceAttributes {
                path: Some(grant.resource.to_owned()),
                verb,
            }),
        );
    }
    let (resource, subresource) = match grant.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (grant.resource, None),
    };
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let resource = ResourceAttributes {
        group: given(grant.group),
        resource: Some(resource.to_owned()),
        subresource,
        verb,
        name: given(&grant.name),
        namespace: given(&grant.namespace),
        ..ResourceAttributes::default()
    };
    (Some(resource), None)
}

#[cfg(test)]
mod tests;
