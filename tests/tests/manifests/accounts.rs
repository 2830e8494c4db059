//! ServiceAccounts: their tokens, and what they may.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::atom::{Atom, of_rules};
use crate::environment::Environment;

/// Returns a token of an account (`namespace/name`) that lasts for these tests.
pub(crate) async fn token(admin: &Client, account: &str) -> Result<String> {
    let (namespace, name) = account
        .split_once('/')
        .context("an account is NAMESPACE/NAME")?;
    let api: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let spec = TokenRequestSpec {
        expiration_seconds: Some(7200),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec,
        ..TokenRequest::default()
    };
    let answer = api
        .create_token_request(name, &PostParams::default(), &request)
        .await;
    let status = answer
        .with_context(|| format!("a token for {account}"))?
        .status;
    Ok(status.context("no token in the answer")?.token)
}

/// Returns a configuration for the cluster without a credential.
pub(crate) async fn anonymous(environment: &Environment) -> Result<Config> {
    let path = environment.kubeconfig()?;
    let file =
        Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.auth_info = AuthInfo::default();
    Ok(config)
}

/// Returns a client that is this account.
pub(crate) async fn client(
    environment: &Environment,
    admin: &Client,
    account: &str,
) -> Result<Client> {
    let mut config = anonymous(environment).await?;
    config.auth_info.token = Some(token(admin, account).await?.into());
    Ok(Client::try_from(config)?)
}

/// Returns a client that acts as this account, which need not exist yet.
pub(crate) async fn acting_as(environment: &Environment, account: &str) -> Result<Client> {
    let (namespace, name) = account
        .split_once('/')
        .context("an account is NAMESPACE/NAME")?;
    let file = Kubeconfig::read_from(environment.kubeconfig()?)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{namespace}:{name}"));
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ];
    config.auth_info.impersonate_groups = Some(groups.into());
    Ok(Client::try_from(config)?)
}

/// Returns an account of this name.
pub(crate) fn document(account: &str) -> Value {
    let (namespace, name) = account.split_once('/').unwrap_or_default();
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": name}})
}

/// Returns the permissions of `client` in a namespace, as `kubectl auth can-i --list` reads them. The result does not
/// name the namespace.
pub(crate) async fn may(client: &Client, namespace: &str) -> Result<BTreeSet<Atom>> {
    let spec = SelfSubjectRulesReviewSpec {
        namespace: Some(namespace.to_owned()),
    };
    let review = SelfSubjectRulesReview {
        spec,
        ..SelfSubjectRulesReview::default()
    };
    let api: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let status = api
        .create(&PostParams::default(), &review)
        .await?
        .status
        .context("an answer without rules")?;
    ensure!(
        status.evaluation_error.is_none(),
        "not all rules are known: {:?}",
        status.evaluation_error
    );
    let mut rules = serde_json::to_value(&status.resource_rules)?;
    if let (Some(all), Value::Array(paths)) = (
        rules.as_array_mut(),
        serde_json::to_value(&status.non_resource_rules)?,
    ) {
        all.extend(paths);
    }
    Ok(of_rules(&rules, ""))
}
