//! The Pods of Services by their EndpointSlices, for load balancers whose backends are Pods or follow them.
//!
//! The service controller watches Services and Nodes. A task here watches the EndpointSlices of Services that depend on
//! them, and writes an annotation to each Service whose Pods have changed, which makes the controller sync it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{Error, Fence, Result, Service};
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use parking_lot::Mutex;
use provider_kit::addresses::AddressFamily;
use provider_kit::cluster::ClusterView;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::gates::{self, Gate};

/// The annotation that is written when the Pods of a Service have changed.
const CHANGED: &str = "ccm-rs/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1";
const SERVICE: &str = "kubernetes.io/service-name";
/// Seconds for which changes are collected.
const SECONDS: u64 = 3;
/// Pause after a watch that ended early, as it does when the API server is overloaded.
const PAUSE: Duration = Duration::from_secs(1);
/// Time until Pods without a network interface are read again.
const AGAIN: Duration = Duration::from_secs(10);

/// A Pod that is ready, or would be if its readiness gate were open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) ip: String,
    pub(crate) node: Option<String>,
    /// The readiness gate that the Pod waits for.
    pub(crate) gate: Option<Gate>,
    /// Ports by their names.
    ports: Arc<BTreeMap<String, u16>>,
}

/// The port of Pods, by its number, or by the name of the Service's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Target {
    /// The port has the same number at all Pods.
    Number(u16),
    /// The EndpointSlices tell the number.
    #[default]
    Named,
}

impl Pod {
    /// Returns the number of a port of the Service at the Pod.
    pub(crate) fn port(&self, target: &Target, name: &str) -> Option<u16> {
        match target {
            Target::Number(number) => Some(*number),
            Target::Named => self.ports.get(name).copied(),
        }
    }
}

/// A view of the Pods of Services. Clones share the watch.
#[derive(Clone)]
pub(crate) struct Endpoints {
    cluster: ClusterView,
    fence: Fence,
    /// Services whose Pods are watched, by namespace and name, each with `true` if its targets depend on the Pods. Of
    /// the others, only readiness gates are opened.
    followed: Arc<Mutex<BTreeMap<(String, String), bool>>>,
    task: Arc<OnceLock<()>>,
}

fn names(service: &Service) -> (String, String) {
    let metadata = &service.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

impl Endpoints {
    pub(crate) fn new(cluster: ClusterView, fence: Fence) -> Self {
        Self {
            cluster,
            fence,
            followed: Arc::default(),
            task: Arc::default(),
        }
    }

    /// Reads the Pods of a Service that take traffic; `None` if the Service has no EndpointSlices and does not `require`
    /// them.
    ///
    /// # Errors
    /// Each failed read, so that backends stay as they are.
    pub(crate) async fn of(
        &self,
        service: &Service,
        family: AddressFamily,
        requires: bool,
    ) -> Result<Option<Vec<Pod>>> {
        let name = names(service);
        let Some(slices) = self.read(&name, requires).await? else {
            return Ok(None);
        };
        self.follow(name.clone(), true);
        let waiting = gates::waiting(&self.cluster, &slices, &name.1).await?;
        if waiting.is_incomplete {
            self.look_again(service);
        }
        Ok(Some(ready(&slices, family, &waiting.pods)))
    }

    /// Opens the readiness gates of Pods whose Service has Nodes as backends, which take traffic without the Pods.
    pub(crate) fn open_gates(&self, service: &Service) {
        if !self.fence.is_open() || self.cluster.api().is_err() {
            return;
        }
        let this = self.clone();
        let name = names(service);
        tokio::spawn(async move {
            match this.read(&name, false).await {
                Ok(Some(_)) => {
                    this.follow(name.clone(), false);
                    this.changed(&name, "").await;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(service = format!("{}/{}", name.0, name.1), %error, "no readiness gates");
                }
            }
        });
    }

    async fn open_gates_of(&self, name: &(String, String)) -> Result<()> {
        let slices = self.read(name, false).await?.unwrap_or_default();
        let waiting = gates::waiting(&self.cluster, &slices, &name.1).await?;
        for gate in waiting.pods.values() {
            gate.set(&self.cluster, &name.1, true).await?;
        }
        if waiting.is_incomplete {
            self.check_again(name.clone());
        }
        Ok(())
    }

    fn check_again(&self, name: (String, String)) {
        let this = self.clone();
        let again: BoxFuture<'static, ()> = Box::pin(async move {
            tokio::time::sleep(AGAIN).await;
            this.changed(&name, "").await;
        });
        tokio::spawn(again);
    }

    /// Sets the readiness gates of Pods in the background: open for backends of the load balancer, and closed for Pods
    /// that cannot be backends.
    pub(crate) fn set_gates(&self, service: &Service, gates: Vec<(Gate, bool)>) {
        if gates.is_empty() || !self.fence.is_open() {
            return;
        }
        let (cluster, (namespace, name)) = (self.cluster.clone(), names(service));
        tokio::spawn(async move {
            for (gate, is_open) in gates {
                if let Err(error) = gate.set(&cluster, &name, is_open).await {
                    tracing::warn!(service = format!("{namespace}/{name}"), %error, "cannot set readiness gate");
                }
            }
        });
    }

    async fn read(
        &self,
        (namespace, name): &(String, String),
        requires: bool,
    ) -> Result<Option<Vec<Value>>> {
        let path = format!(
            "{SLICES}/namespaces/{namespace}/endpointslices?labelSelector={SERVICE}%3D{name}"
        );
        // A process that has no client at all never reads EndpointSlices: backends do not differ from sync to sync.
        if !requires && self.cluster.api().is_err() {
            return Ok(None);
        }
        let (status, list) = self.cluster.get(&path).await?;
        if !status.is_success() {
            if !requires && status == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            let text = format!(
                "cannot read EndpointSlices of Service {namespace}/{name}: status {status}"
            );
            return Err(Error::other(format!(
                "{text}; allow get, list and watch of endpointslices"
            )));
        }
        let slices = list["items"].as_array().cloned().unwrap_or_default();
        Ok((requires || !slices.is_empty()).then_some(slices))
    }

    /// Has a Service synced again after some time.
    pub(crate) fn look_again(&self, service: &Service) {
        let this = self.clone();
        let name = names(service);
        tokio::spawn(async move {
            tokio::time::sleep(AGAIN).await;
            this.notify(&name, &jiff::Timestamp::now().to_string())
                .await;
        });
    }

    fn follow(&self, name: (String, String), has_targets: bool) {
        // A program that changes nothing needs no notice.
        if !self.fence.is_open() {
            return;
        }
        self.followed.lock().insert(name, has_targets);
        self.task.get_or_init(|| {
            let this = self.clone();
            tokio::spawn(async move {
                let mut version = String::new();
                loop {
                    version = match this.changes(version).await {
                        Ok(version) => version,
                        Err(error) => {
                            tracing::warn!(%error, "cannot watch EndpointSlices");
                            tokio::time::sleep(AGAIN).await;
                            // Changes may have been missed.
                            let all = this.followed.lock().clone();
                            let now = jiff::Timestamp::now().to_string();
                            for name in all.keys() {
                                this.changed(name, &now).await;
                            }
                            String::new()
                        }
                    };
                }
            });
        });
    }

    /// Collects changes for some seconds, notifies their Services, and returns the version to go on from.
    async fn changes(&self, version: String) -> Result<String> {
        if version.is_empty() {
            let (_, list) = self
                .cluster
                .get(&format!("{SLICES}/endpointslices?limit=1"))
                .await?;
            let version = list["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            return if version.is_empty() {
                Err(Error::other("the list has no version"))
            } else {
                Ok(version)
            };
        }
        let path = format!(
            "{SLICES}/endpointslices?watch=1&timeoutSeconds={SECONDS}&resourceVersion={version}"
        );
        let request = Request::get(path)
            .body(Vec::new())
            .map_err(|error| Error::other(error.to_string()))?;
        let began = Instant::now();
        let answer = self.cluster.api()?.send(request).await?;
        if !answer.status().is_success() {
            return Err(Error::other(format!(
                "the watch of EndpointSlices was answered {}",
                answer.status()
            )));
        }
        let mut changed = BTreeMap::new();
        let mut newest = version;
        for event in serde_json::Deserializer::from_slice(answer.body())
            .into_iter::<Value>()
            .map_while(Result::ok)
        {
            if event["type"] == "ERROR" {
                return Err(Error::other(format!(
                    "the watch ended: {}",
                    event["object"]["message"]
                )));
            }
            let metadata = &event["object"]["metadata"];
            let text = |object: &Value| object.as_str().unwrap_or_default().to_owned();
            newest = text(&metadata["resourceVersion"]);
            changed.insert(
                (
                    text(&metadata["namespace"]),
                    text(&metadata["labels"][SERVICE]),
                ),
                newest.clone(),
            );
        }
        let followed = self.followed.lock().clone();
        for (name, version) in changed
            .iter()
            .filter(|(name, _)| followed.contains_key(*name))
        {
            self.changed(name, version).await;
        }
        if began.elapsed() < Duration::from_secs(SECONDS) {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(newest)
    }

    /// Has a Service synced whose targets depend on its Pods, and opens readiness gates of the others.
    async fn changed(&self, name: &(String, String), version: &str) {
        let has_targets = self.followed.lock().get(name).copied();
        match has_targets {
            Some(true) => self.notify(name, version).await,
            Some(false) => {
                if let Err(error) = self.open_gates_of(name).await {
                    tracing::warn!(service = format!("{}/{}", name.0, name.1), %error, "cannot open readiness gates");
                }
            }
            None => {}
        }
    }

    /// Writes the annotation. A Service that does not exist any more is forgotten.
    async fn notify(&self, name: &(String, String), version: &str) {
        if !self.fence.is_open() {
            return;
        }
        let path = format!("/api/v1/namespaces/{}/services/{}", name.0, name.1);
        let patch = json!({"metadata": {"annotations": {CHANGED: version}}});
        match self.cluster.patch_status(&path, &patch).await {
            Ok(true) => {}
            Ok(false) => drop(self.followed.lock().remove(name)),
            Err(error) => {
                tracing::warn!(service = format!("{}/{}", name.0, name.1), %error, "cannot have it synced");
            }
        }
    }
}

/// Returns the Pods that take traffic, each once. `waiting`: Pods that wait for their readiness gates, by path.
fn ready(slices: &[Value], family: AddressFamily, waiting: &BTreeMap<String, Gate>) -> Vec<Pod> {
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_meant = |slice: &&Value| match family {
        AddressFamily::Ipv4 => slice["addressType"] == "IPv4",
        AddressFamily::Ipv6 => slice["addressType"] == "IPv6",
        AddressFamily::Dualstack => true,
    };
    for slice in slices.iter().filter(is_meant) {
        let port = |object: &Value| {
            let number = object["port"]
                .as_u64()
                .and_then(|number| u16::try_from(number).ok())?;
            Some((
                object["name"].as_str().unwrap_or_default().to_owned(),
                number,
            ))
        };
        let ports: Arc<BTreeMap<_, _>> =
            Arc::new(list(&slice["ports"]).iter().filter_map(port).collect());
        for endpoint in list(&slice["endpoints"]) {
            let conditions = &endpoint["conditions"];
            let is_ready = conditions["ready"] == true;
            let gate = gates::path(&endpoint)
                .filter(|_| !is_ready)
                .and_then(|path| waiting.get(&path));
            if conditions["terminating"] == true || !is_ready && gate.is_none() {
                continue;
            }
            for ip in list(&endpoint["addresses"])
                .iter()
                .filter_map(Value::as_str)
            {
                let node = endpoint["nodeName"].as_str().map(str::to_owned);
                let pod = pods.entry(ip.to_owned());
                let pod = pod.or_insert_with(|| Pod {
                    ip: ip.to_owned(),
                    node,
                    gate: gate.cloned(),
                    ports: Arc::default(),
                });
                // A Pod may be in several slices, each with some of its ports.
                let both = pod.ports.iter().chain(ports.iter());
                pod.ports = Arc::new(both.map(|(name, number)| (name.clone(), *number)).collect());
            }
        }
    }
    pods.into_values().collect()
}

#[cfg(test)]
mod tests {
    use cloud_provider::scripted::{AnsweringStatus, ScriptedCluster};
    use cloud_provider::{Cluster, Context};

    use super::*;

    fn endpoints(status: u16) -> Endpoints {
        let view = ClusterView::new("test");
        let context = ScriptedCluster::default().context(Cluster {
            name: "kubernetes".into(),
            id: None,
        });
        view.connect(&Context {
            clients: Arc::new(AnsweringStatus(StatusCode::from_u16(status).unwrap())),
            ..context
        });
        Endpoints::new(view, Fence::default())
    }

    #[tokio::test(start_paused = true)]
    async fn refused_watch_is_an_error_and_an_empty_one_pauses() {
        let error = endpoints(429)
            .changes("7".into())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("429"), "{error}");
        let began = Instant::now();
        assert_eq!(endpoints(200).changes("7".into()).await.unwrap(), "7");
        assert!(began.elapsed() >= PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_read_of_endpoint_slices_is_an_error_unless_there_are_none() {
        let service = Service::default();
        for (status, requires) in [(500, false), (403, false), (403, true), (404, true)] {
            let error = endpoints(status)
                .of(&service, AddressFamily::Ipv4, requires)
                .await
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("allow get, list and watch of endpointslices"),
                "{status}: {error}"
            );
        }
        assert_eq!(
            endpoints(404)
                .of(&service, AddressFamily::Ipv4, false)
                .await
                .unwrap(),
            None
        );
    }

    #[test]
    fn ready_pods_count_once_with_all_their_ports() {
        let slice = |ports: Value, endpoints: Value| json!({"addressType": "IPv4", "ports": ports, "endpoints": endpoints});
        let endpoint = |ip: &str, conditions: Value| json!({"addresses": [ip], "nodeName": "n1", "conditions": conditions});
        let slices = [
            slice(
                json!([{"name": "http", "port": 8080}]),
                json!([endpoint("10.0.0.1", json!({"ready": true}))]),
            ),
            slice(
                json!([{"name": "dns", "port": 53}]),
                json!([
                    endpoint("10.0.0.1", json!({"ready": true})),
                    endpoint("10.0.0.2", json!({"ready": false})),
                    endpoint("10.0.0.3", json!({"ready": true, "terminating": true})),
                ]),
            ),
            json!({"addressType": "IPv6", "endpoints": [endpoint("fd00::1", json!({"ready": true}))]}),
        ];
        let pods = ready(&slices, AddressFamily::Ipv4, &BTreeMap::new());
        assert_eq!(pods.len(), 1);
        assert_eq!(
            (&*pods[0].ip, pods[0].node.as_deref()),
            ("10.0.0.1", Some("n1"))
        );
        assert_eq!(pods[0].port(&Target::Named, "dns"), Some(53));
        assert_eq!(pods[0].port(&Target::Named, "http"), Some(8080));
        assert_eq!(pods[0].port(&Target::Number(9), "dns"), Some(9));
    }
}
