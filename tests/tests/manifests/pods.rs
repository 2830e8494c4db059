//! The shape of the Pods (DEP-40 … DEP-56), and that their arguments are flags of this program.

use anyhow::{Context, Result, ensure};
use manager::flags::{Flags, Parsed};
use serde_json::{Value, json};

use crate::documents::{read, title};
use crate::helm::Helm;
use crate::rules::Installation;

const PLAIN: &[&str] = &[
    "manifests/daemonset.yaml",
    "manifests/deployment.yaml",
    "manifests/static-pod.yaml",
    "manifests/simulated.yaml",
    "manifests/digitalocean.yaml",
    "manifests/gcp.yaml",
    "manifests/hcloud.yaml",
    "manifests/alibaba.yaml",
    "manifests/aws.yaml",
    "manifests/azure.yaml",
    "manifests/hcloud-networks.yaml",
    "manifests/mycloud.yaml",
    "manifests/baidu.yaml",
    "manifests/keepalived.yaml",
    "manifests/linode.yaml",
    "manifests/oci.yaml",
    "manifests/openstack.yaml",
    "manifests/rancher.yaml",
    "manifests/tencent.yaml",
];

/// Returns the Pods that are in these documents: the workload's title, and the Pod or its template.
pub(crate) fn pods(documents: &[Value]) -> Vec<(String, &Value, &Value)> {
    let pods = documents
        .iter()
        .filter_map(|document| match document["kind"].as_str()? {
            "Pod" => Some((title(document), document, document)),
            "DaemonSet" | "Deployment" => {
                Some((title(document), document, &document["spec"]["template"]))
            }
            _ => None,
        });
    pods.collect()
}

fn equal(pod: &str, what: &str, got: &Value, wanted: &Value) -> Result<()> {
    ensure!(got == wanted, "{pod}: {what} is {got}, not {wanted}");
    Ok(())
}

fn check(name: &str, workload: &Value, pod: &Value) -> Result<()> {
    let spec = &pod["spec"];
    let container = &pod["spec"]["containers"][0];
    for (what, got, wanted) in [
        (
            "namespace (DEP-40)",
            &workload["metadata"]["namespace"],
            json!("kube-system"),
        ),
        ("hostNetwork (DEP-41)", &spec["hostNetwork"], json!(true)),
        ("dnsPolicy (DEP-42)", &spec["dnsPolicy"], json!("Default")),
        (
            "terminationGracePeriodSeconds (DEP-54)",
            &spec["terminationGracePeriodSeconds"],
            json!(30),
        ),
        (
            "runAsNonRoot (DEP-49)",
            &spec["securityContext"]["runAsNonRoot"],
            json!(true),
        ),
        (
            "runAsUser (DEP-49)",
            &spec["securityContext"]["runAsUser"],
            json!(65532),
        ),
        (
            "seccompProfile (DEP-49)",
            &spec["securityContext"]["seccompProfile"]["type"],
            json!("RuntimeDefault"),
        ),
        (
            "capabilities (DEP-49)",
            &container["securityContext"]["capabilities"],
            json!({"drop": ["ALL"]}),
        ),
        (
            "readOnlyRootFilesystem (DEP-49)",
            &container["securityContext"]["readOnlyRootFilesystem"],
            json!(true),
        ),
        (
            "allowPrivilegeEscalation (DEP-49)",
            &container["securityContext"]["allowPrivilegeEscalation"],
            json!(false),
        ),
        (
            "terminationMessagePolicy",
            &container["terminationMessagePolicy"],
            json!("FallbackToLogsOnError"),
        ),
        (
            "limits",
            &container["resources"]["limits"],
            json!({"memory": "256Mi"}),
        ),
        (
            "requests (DEP-48)",
            &container["resources"]["requests"],
            json!({"cpu": "100m", "memory": "50Mi"}),
        ),
        (
            "name (DEP-55)",
            &pod["metadata"]["labels"]["app.kubernetes.io/name"],
            json!("cloud-controller-manager"),
        ),
        (
            "k8s-app (DEP-55)",
            &pod["metadata"]["labels"]["k8s-app"],
            json!("cloud-controller-manager"),
        ),
        (
            "tier (DEP-55)",
            &pod["metadata"]["labels"]["tier"],
            json!("control-plane"),
        ),
    ] {
        equal(name, what, got, &wanted)?;
    }
    for (probe, path) in [
        ("startupProbe", "/healthz"),
        ("livenessProbe", "/healthz"),
        ("readinessProbe", "/readyz"),
    ] {
        let wanted = json!({"scheme": "HTTPS", "host": "127.0.0.1", "path": path, "port": 10258});
        equal(
            name,
            &format!("{probe} (DEP-50)"),
            &container[probe]["httpGet"],
            &wanted,
        )?;
    }
    let priority = spec["priorityClassName"].as_str().unwrap_or_default();
    ensure!(
        priority.starts_with("system-"),
        "{name}: priority {priority:?} (DEP-46)"
    );
    tolerates(name, spec)?;
    strategy(name, workload)
}

/// Checks DEP-44 and DEP-56: without the first toleration a cluster never becomes ready.
fn tolerates(name: &str, spec: &Value) -> Result<()> {
    let tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let matches = |toleration: &Value, key: &str, effect: &str| {
        let any_key = toleration["key"].is_null() && toleration["operator"] == "Exists";
        (any_key || toleration["key"] == key)
            && (toleration["effect"].is_null() || toleration["effect"] == effect)
    };
    for (key, effect) in [
        (
            "node.cloudprovider.kubernetes.io/uninitialized",
            "NoSchedule",
        ),
        ("node-role.kubernetes.io/control-plane", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/network-unavailable", "NoSchedule"),
        ("CriticalAddonsOnly", "NoSchedule"),
    ] {
        let tolerated = tolerations
            .iter()
            .any(|toleration| matches(toleration, key, effect));
        ensure!(tolerated, "{name} does not tolerate {key}:{effect}");
    }
    Ok(())
}

/// Checks DEP-47: a surge Pod cannot bind the port of its predecessor.
fn strategy(name: &str, workload: &Value) -> Result<()> {
    let spec = &workload["spec"];
    match workload["kind"].as_str() {
        Some("DaemonSet") => {
            equal(
                name,
                "maxSurge",
                &spec["updateStrategy"]["rollingUpdate"]["maxSurge"],
                &json!(0),
            )?;
            let affinity = &spec["template"]["spec"]["affinity"]["nodeAffinity"];
            ensure!(
                affinity
                    .to_string()
                    .contains("node-role.kubernetes.io/control-plane"),
                "{name}: {affinity}"
            );
            Ok(())
        }
        Some("Deployment") if spec["strategy"]["type"] != "Recreate" => equal(
            name,
            "maxSurge",
            &spec["strategy"]["rollingUpdate"]["maxSurge"],
            &json!(0),
        ),
        _ => Ok(()),
    }
}

/// Returns the arguments, as the program reads them.
pub(crate) fn parse(name: &str, pod: &Value) -> Result<Flags> {
    let arguments = pod["spec"]["containers"][0]["args"]
        .as_array()
        .with_context(|| format!("{name} has no arguments"))?;
    let words = arguments
        .iter()
        .map(|word| word.as_str().unwrap_or_default().into());
    match Flags::parse(std::iter::once("cloud-controller-manager".into()).chain(words)) {
        Parsed::Flags(flags) => Ok(*flags),
        Parsed::Say(text) => anyhow::bail!("{name} only makes the program say {text:?}"),
        Parsed::Wrong(text) => {
            anyhow::bail!("{name} has arguments that the program refuses: {text}")
        }
    }
}

pub(crate) fn the_plain_pods_have_the_shape_that_a_starting_cluster_needs() -> Result<()> {
    let documents = read(PLAIN)?;
    let pods = pods(&documents);
    ensure!(pods.len() == PLAIN.len(), "{} Pods", pods.len());
    pods.into_iter()
        .try_for_each(|(name, workload, pod)| check(&name, workload, pod))
}

pub(crate) fn the_arguments_of_the_plain_pods_are_flags_of_this_program() -> Result<()> {
    pods(&read(PLAIN)?)
        .into_iter()
        .try_for_each(|(name, _, pod)| parse(&name, pod).map(drop))
}

/// Checks that no Pod waits for anything that this program sets or that needs it first (DEP-43): fields of the Node, the
/// cluster's DNS, the Pod network, and volumes of the cloud.
pub(crate) fn waits_for_nothing(name: &str, pod: &Value) -> Result<()> {
    let spec = &pod["spec"];
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|kind| spec[kind].as_array().into_iter().flatten());
    for container in containers {
        for variable in container["env"].as_array().into_iter().flatten() {
            let field = variable["valueFrom"]["fieldRef"]["fieldPath"]
                .as_str()
                .unwrap_or_default();
            let waits = [
                "status.hostIP",
                "status.hostIPs",
                "status.podIP",
                "status.podIPs",
            ]
            .contains(&field);
            ensure!(
                !waits,
                "{name}: {} is {field}, which the Node has only after this program ran",
                variable["name"]
            );
        }
    }
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        let kinds: Vec<_> = volume
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
            .collect();
        let local = |kind: &&str| {
            [
                "name",
                "secret",
                "configMap",
                "hostPath",
                "projected",
                "emptyDir",
            ]
            .contains(kind)
        };
        ensure!(
            kinds.iter().all(local),
            "{name}: the volume {volume} may need this program first"
        );
    }
    equal(
        name,
        "hostNetwork (DEP-41)",
        &spec["hostNetwork"],
        &json!(true),
    )?;
    equal(
        name,
        "dnsPolicy (DEP-42)",
        &spec["dnsPolicy"],
        &json!("Default"),
    )
}

pub(crate) fn plain_pods_wait_for_nothing_that_this_program_sets() -> Result<()> {
    pods(&read(PLAIN)?)
        .into_iter()
        .try_for_each(|(name, _, pod)| waits_for_nothing(&name, pod))
}

/// Variables that come from a Secret and are no credential.
const NO_CREDENTIALS: [&str; 6] = [
    "CATTLE_URL",
    "HCLOUD_NETWORK",
    "LINODE_REGION",
    "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_CLUSTER_ROUTE_TABLE",
    "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_REGION",
    "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_VPC_ID",
];

/// Checks that no credential reaches a process as an environment variable: child processes and core dumps carry
/// the environment, and a variable changes only with a restart.
pub(crate) fn plain_pods_get_credentials_as_files() -> Result<()> {
    pods(&read(PLAIN)?)
        .into_iter()
        .try_for_each(|(name, _, pod)| credentials_are_files(&name, pod))
}

/// Checks that the variables of a Pod hold no credential, and that those with a path lead to a mounted file.
pub(crate) fn credentials_are_files(name: &str, pod: &Value) -> Result<()> {
    let container = &pod["spec"]["containers"][0];
    ensure!(
        container["envFrom"].is_null(),
        "{name}: envFrom makes every key of a Secret a variable"
    );
    let mounts: Vec<_> = container["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    for variable in container["env"].as_array().into_iter().flatten() {
        let key = variable["name"]
            .as_str()
            .with_context(|| format!("{name}: a variable without a name"))?;
        let from_secret = !variable["valueFrom"]["secretKeyRef"].is_null();
        ensure!(
            !from_secret || NO_CREDENTIALS.contains(&key),
            "{name}: {key} is a credential; use {key}_FILE"
        );
        if key.ends_with("_FILE") {
            let path = variable["value"].as_str().unwrap_or_default();
            let mounted = mounts.iter().any(|mount| {
                mount["mountPath"]
                    .as_str()
                    .is_some_and(|at| path.starts_with(&format!("{at}/")))
                    && mount["readOnly"] == true
                    && mount["subPath"].is_null()
            });
            ensure!(
                mounted,
                "{name}: {key} names {path:?}, which is in no directory that is mounted read-only"
            );
        }
    }
    Ok(())
}

/// Ways to install the chart that differ in their Pods: name and values.
pub(crate) const KINDS: [(&str, &[&str]); 8] = [
    ("the default", &[]),
    ("a Deployment of two", &["kind=Deployment"]),
    (
        "one replica without election",
        &[
            "kind=Deployment",
            "replicas=1",
            "leaderElection.enabled=false",
        ],
    ),
    (
        "one replica with election",
        &["kind=Deployment", "replicas=1"],
    ),
    (
        "the taints of a start only",
        &[
            "tolerations.style=listed",
            "apiServer.candidates[0]=https://127.0.0.1:16443",
        ],
    ),
    (
        "routes and volumes",
        &[
            "clusterCIDR=10.244.0.0/16",
            "controllers.volume=true",
            "apiServer.host=10.0.0.1",
        ],
    ),
    (
        "everything",
        &[
            "clusterCIDR=10.244.0.0/16\\,fd00::/56",
            "controllers.volume=true",
            "useServiceAccountCredentials=true",
            "webhook.enabled=true",
            "webhook.services.enabled=true",
            "webhook.services.validationAction=Deny",
            "tls.secretName=serving",
            "cloudConfig.content=token: x",
            "allowUntaggedCloud=true",
            "metrics.scrapers[0].name=prometheus",
            "metrics.scrapers[0].namespace=monitoring",
            "serviceMonitor.enabled=true",
            "prometheusRule.enabled=true",
            "dashboard.enabled=true",
            "featureGates.CloudControllerManagerWatchBasedRoutesReconciliation=true",
            "loggingFormat=json",
            "extraArgs.concurrent-service-syncs=5",
            "extraArgs.profiling=false",
        ],
    ),
    (
        "plain metrics",
        &[
            "auth.enabled=false",
            "metrics.plain.enabled=true",
            "metrics.plain.address=0.0.0.0",
            "serviceMonitor.enabled=true",
        ],
    ),
];

/// Returns the values of one of [`KINDS`].
pub(crate) fn values(kind: &[&str]) -> Vec<String> {
    ["cloudProvider=simulated"]
        .iter()
        .chain(kind)
        .map(|value| (*value).to_owned())
        .collect()
}

pub(crate) fn the_chart_makes_pods_that_start(helm: &Helm) -> Result<()> {
    for (name, kind) in KINDS {
        let documents = helm.render(&values(kind))?;
        let pods = pods(&documents);
        ensure!(pods.len() == 1, "{name}: {} Pods", pods.len());
        for (_, workload, pod) in pods {
            check(name, workload, pod)?;
            waits_for_nothing(name, pod)?;
            parse(name, pod)?;
        }
    }
    Ok(())
}

pub(crate) fn the_chart_runs_the_controllers_that_are_switched_on(helm: &Helm) -> Result<()> {
    for installation in Installation::all() {
        let documents = helm.render(&installation.values())?;
        for (name, _, pod) in pods(&documents) {
            let flags = parse(&name, pod).with_context(|| format!("{installation:?}"))?;
            let selection = flags.configuration().controllers;
            for (controller, on) in installation.controllers() {
                let runs = selection.includes(controller);
                ensure!(
                    runs == on,
                    "{installation:?}: {} runs: {runs}",
                    controller.canonical
                );
            }
        }
    }
    Ok(())
}

pub(crate) fn the_chart_refuses_what_cannot_work(helm: &Helm) -> Result<()> {
    for (values, said) in [
        (&[][..], "provider is required"),
        (&["provider=external"][..], "provider"),
        (&["cloudProvider=external"][..], "cloudProvider"),
        (
            &["provider=simulated", "image.repository="][..],
            "image.repository is required",
        ),
        (
            &["provider=simulated", "leaderElection.enabled=false"][..],
            "leaderElection.enabled",
        ),
        (
            &[
                "provider=simulated",
                "kind=Deployment",
                "leaderElection.enabled=false",
            ][..],
            "leaderElection.enabled",
        ),
        (
            &[
                "provider=simulated",
                "controllers.node=false",
                "controllers.nodeLifecycle=false",
                "controllers.service=false",
            ][..],
            "controllers",
        ),
        (
            &[
                "provider=simulated",
                "auth.enabled=false",
                "serviceMonitor.enabled=true",
            ][..],
            "metrics",
        ),
        (
            &[
                "provider=simulated",
                "bindAddress=127.0.0.1",
                "serviceMonitor.enabled=true",
            ][..],
            "bindAddress",
        ),
        (
            &["provider=simulated", "controlers.node=false"][..],
            "controlers",
        ),
        (
            &["provider=simulated", "clusterCIDR=10.0.0.0"][..],
            "clusterCIDR",
        ),
        (
            &["provider=simulated", "apiServer.nodeAddress=true"][..],
            "apiServer.nodeAddress was removed",
        ),
        (
            &[
                "provider=simulated",
                "apiServer.candidates[0]=http://127.0.0.1:8080",
            ][..],
            "candidates",
        ),
    ] {
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        let Err(error) = helm.text(&values) else {
            anyhow::bail!("{values:?} was taken")
        };
        ensure!(
            error.to_string().contains(said),
            "{values:?} was refused without {said:?}: {error}"
        );
    }
    Ok(())
}

/// The image has no simulated cloud, so that only its own example may name it.
pub(crate) fn only_the_example_needs_the_simulated_cloud() -> Result<()> {
    for file in PLAIN
        .iter()
        .filter(|file| !file.ends_with("/simulated.yaml"))
    {
        for (name, _, pod) in pods(&read(&[file])?) {
            let arguments = pod["spec"]["containers"][0]["args"].to_string();
            ensure!(
                !arguments.contains("simulated"),
                "{file}: {name} runs with {arguments}"
            );
        }
    }
    Ok(())
}
