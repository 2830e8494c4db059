//! The admission policy for clusters with several tenants, as the API server evaluates it.

use std::fmt::Debug;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ccm_tests::service_object::load_balancer;
use ccm_tests::wait::until;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::environment::Environment;
use crate::kubelets::OURS;
use crate::scene::{SOON, Scene, play};

const TENANT: &str = "e2e-tenant";
const MANAGER: &str = "system:serviceaccount:kube-system:cloud-controller-manager";
const ADMINISTRATORS: &str = "ccm-rs:load-balancer-admins";
/// A key of the policy, and one that is harmless.
const NAME: &str = "service.beta.kubernetes.io/do-loadbalancer-name";
const ALGORITHM: &str = "service.beta.kubernetes.io/do-loadbalancer-algorithm";

/// Returns Services as a user with these groups sees them.
async fn services_as(
    environment: &Environment,
    user: &str,
    groups: &[&str],
) -> Result<Api<Service>> {
    let file = Kubeconfig::read_from(environment.kubeconfig()?)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups =
        Some(groups.iter().map(|group| (*group).to_owned()).collect());
    Ok(Api::default_namespaced(Client::try_from(config)?))
}

/// Applies one document of the policy, labelled as the tests' own.
async fn apply<K>(client: &Client, document: &Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
{
    let mut document = document.clone();
    document["metadata"]["labels"][OURS] = json!("true");
    let name = document["metadata"]["name"]
        .as_str()
        .context("a name")?
        .to_owned();
    let parameters = PatchParams::apply("e2e").force();
    Api::<K>::all(client.clone())
        .patch(&name, &parameters, &Patch::Apply(&document))
        .await?;
    Ok(())
}

/// Applies the policy, allows the users to write Services, and returns the keys of the policy.
async fn install(client: &Client) -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy/policies/load-balancer-annotations.yaml");
    let text = std::fs::read_to_string(path)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    ensure!(
        documents.len() == 2,
        "a policy and its binding: {}",
        documents.len()
    );
    apply::<ValidatingAdmissionPolicy>(client, &documents[0])
        .await
        .context("the policy")?;
    apply::<ValidatingAdmissionPolicyBinding>(client, &documents[1])
        .await
        .context("the binding")?;
    let subject =
        |name: &str| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": TENANT, "labels": {OURS: "true"}},
        "roleRef": {"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [subject(TENANT), subject(MANAGER)],
    });
    let bindings = Api::<RoleBinding>::default_namespaced(client.clone());
    bindings
        .patch(
            TENANT,
            &PatchParams::apply("e2e").force(),
            &Patch::Apply(&binding),
        )
        .await?;
    let variables = documents[0]["spec"]["variables"]
        .as_array()
        .context("variables")?;
    let expressions = variables
        .iter()
        .filter_map(|variable| variable["expression"].as_str());
    let keys = expressions.flat_map(|text| text.split('\'').skip(1).step_by(2).map(str::to_owned));
    Ok(keys.collect())
}

fn object(name: &str, kind: &str, key: &str, value: &str) -> Result<Service> {
    let mut object = load_balancer(name, &[80]);
    object["metadata"]["labels"][OURS] = json!("true");
    object["metadata"]["annotations"] = json!({key: value});
    object["spec"]["type"] = json!(kind);
    Ok(serde_json::from_value(object)?)
}

/// Checks the answer to a creation that the API server tries without carrying it out.
async fn tries(
    services: &Api<Service>,
    service: &Service,
    refused_for: Option<&str>,
) -> Result<()> {
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    check(services.create(&parameters, service).await, refused_for)
}

fn check(answer: kube::Result<Service>, refused_for: Option<&str>) -> Result<()> {
    match (answer, refused_for) {
        (Ok(_), None) => Ok(()),
        (Err(kube::Error::Api(status)), Some(expected)) => {
            let is_right = status.code == 403 && status.message.contains(expected);
            ensure!(
                is_right,
                "expected a refusal because of {expected}: {status:?}"
            );
            Ok(())
        }
        (answer, expected) => {
            anyhow::bail!("expected a refusal because of {expected:?}: {answer:?}")
        }
    }
}

/// The policy keeps every annotation that reaches beyond a Service for administrators and the manager, on Services of all types.
pub(crate) async fn policy_keeps_annotations_that_reach_beyond_a_service_for_administrators(
    environment: &Environment,
) -> Result<()> {
    play(environment, "tenants", &[], async |scene| {
        let keys = install(&scene.client).await?;
        ensure!(
            keys.len() > 100,
            "the policy has keys of all clouds: {}",
            keys.len()
        );
        let all = ["system:authenticated"];
        let tenant = services_as(environment, TENANT, &all).await?;
        let administrator = services_as(environment, TENANT, &[all[0], ADMINISTRATORS]).await?;
        let manager = services_as(environment, MANAGER, &all).await?;
        let name = scene.names(1).remove(0);
        until("the API server evaluates the policy", SOON, async || {
            tries(
                &tenant,
                &object(&name, "LoadBalancer", NAME, "x")?,
                Some(NAME),
            )
            .await
        })
        .await?;
        is_typed_well(scene).await?;
        for key in &keys {
            let key = if key.ends_with(['/', '.']) {
                &format!("{key}80")
            } else {
                key
            };
            let service = object(&name, "LoadBalancer", key, "x")?;
            tries(&tenant, &service, Some(key)).await?;
            tries(&administrator, &service, None)
                .await
                .with_context(|| key.clone())?;
        }
        tries(&manager, &object(&name, "LoadBalancer", NAME, "x")?, None).await?;
        tries(&tenant, &object(&name, "ClusterIP", NAME, "x")?, Some(NAME)).await?;
        tries(
            &tenant,
            &object(&name, "LoadBalancer", ALGORITHM, "round_robin")?,
            None,
        )
        .await?;
        for (field, value) in [
            ("loadBalancerIP", json!("192.0.2.9")),
            ("externalIPs", json!(["192.0.2.9"])),
        ] {
            let mut service =
                serde_json::to_value(object(&name, "LoadBalancer", ALGORITHM, "round_robin")?)?;
            service["spec"][field] = value;
            tries(
                &tenant,
                &serde_json::from_value(service)?,
                Some(&format!("spec.{field}")),
            )
            .await?;
        }
        changes(scene, &name, &tenant).await
    })
    .await
}

/// Checks that the API server found no mistake in the types of the expressions.
async fn is_typed_well(scene: &Scene) -> Result<()> {
    let policies = Api::<ValidatingAdmissionPolicy>::all(scene.client.clone());
    let checked = until("the types of the policy are checked", SOON, async || {
        let policy = policies.get("ccm-rs-load-balancer-annotations").await?;
        let status = policy
            .status
            .filter(|status| status.observed_generation == policy.metadata.generation);
        status
            .and_then(|status| status.type_checking)
            .context("no result")
    });
    let warnings = checked.await?.expression_warnings.unwrap_or_default();
    ensure!(warnings.is_empty(), "{warnings:?}");
    Ok(())
}

/// A tenant changes a Service whose annotation an administrator set: everything but the value of the annotation.
async fn changes(scene: &Scene, name: &str, tenant: &Api<Service>) -> Result<()> {
    let created = object(name, "ClusterIP", NAME, "production")?;
    scene
        .services()
        .create(&PostParams::default(), &created)
        .await?;
    let change = async |patch: Value| {
        tenant
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
    };
    check(
        change(json!({"spec": {"ports": [{"name": "web", "port": 81}]}})).await,
        None,
    )
    .context("a port changes")?;
    check(
        change(json!({"metadata": {"annotations": {NAME: "other"}}})).await,
        Some(NAME),
    )?;
    check(
        change(json!({"metadata": {"annotations": {NAME: null}}})).await,
        None,
    )
    .context("the annotation goes")
}
