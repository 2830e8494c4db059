//! Harness: a compartment, a cluster, and the provider between them, configured like the program.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, Caches, CloudProvider, Cluster, ConfigFile, Context, Environment, Goal,
    LoadBalancerRequest, LoadBalancerStatus, Node, NodeAddress, Plan, Result, Service, Setup,
};
use oci_fake::{COMPARTMENT, FINGERPRINT, Handle, KEY, LB_SUBNET, Oracle, TENANCY, USER, VCN};
use provider_kit::transport::{Connector, in_process};
use provider_oci::Oci;
use provider_oci::config::Config;
use serde_json::{Value, json};

/// The key of all certificates.
const CERTIFICATE_KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n";
pub(crate) const UID: &str = "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";

pub(crate) struct Harness {
    pub(crate) fake: Handle<Oracle>,
    pub(crate) cluster: ScriptedCluster,
}

/// Returns a cloud configuration with these keys in section `auth`, and an endpoint.
pub(crate) fn configuration(auth: &str, endpoint: &str) -> String {
    format!(
        "auth:\n{auth}compartment: {COMPARTMENT}\nvcn: {VCN}\nloadBalancer:\n  subnet1: {LB_SUBNET}\nendpoint: {endpoint}\n"
    )
}

/// Returns the section of an API key.
pub(crate) fn api_key(tenancy: &str, key: &str) -> String {
    let key = key.replace('\n', "\n    ");
    format!(
        "  region: us-phoenix-1\n  tenancy: {tenancy}\n  user: {USER}\n  fingerprint: {FINGERPRINT}\n  key: |\n    {key}\n"
    )
}

impl Harness {
    /// Creates a compartment with two instances, and a Node for each.
    pub(crate) fn new() -> Self {
        let harness = Self {
            fake: Handle::new(Oracle::default()),
            cluster: ScriptedCluster::default(),
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(name));
        harness
    }

    /// Adds an instance and its Node.
    pub(crate) fn add_node(&self, name: &str) {
        let id = self.fake.lock().add_instance(name);
        let ip = self.fake.lock().objects[&id.replace(".instance.", ".vnic.")]["privateIp"]
            .as_str()
            .unwrap()
            .to_owned();
        let addresses = [NodeAddress::new(AddressType::InternalIP, &ip)].into();
        let provider_id = format!("oci://{id}").into();
        self.cluster.set_node(Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id,
            addresses,
            ..Node::default()
        });
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Oci {
        self.started_as(&[], "").await
    }

    /// Returns the provider with these variables and further lines of its cloud configuration.
    pub(crate) async fn started_as(&self, variables: &[(&str, &str)], more: &str) -> Oci {
        let text = configuration(&api_key(TENANCY, KEY), "http://oci") + more;
        self.started_with(text, variables, &in_process(self.fake.router()))
            .await
    }

    /// Returns the provider for which adopted load balancers need this tag.
    pub(crate) async fn requiring(&self, tag: &str) -> Oci {
        let text = configuration(&api_key(TENANCY, KEY), "http://oci");
        let file = ConfigFile {
            path: "cloud-provider.yaml".into(),
            text,
        };
        let setup = Setup {
            adoptable_tag: Some(tag.parse().unwrap()),
            ..Setup::of(file)
        };
        let provider = Oci::new(
            Config::read(&setup).unwrap(),
            &setup,
            &in_process(self.fake.router()),
        )
        .unwrap();
        self.start(&provider).await;
        provider
    }

    /// Returns the provider of a subcommand such as `orphans`, which gets no caches.
    pub(crate) async fn without_caches(&self) -> Oci {
        let text = configuration(&api_key(TENANCY, KEY), "http://oci");
        let setup = Setup::of(ConfigFile {
            path: "cloud-provider.yaml".into(),
            text,
        });
        let provider = Oci::new(
            Config::read(&setup).unwrap(),
            &setup,
            &in_process(self.fake.router()),
        )
        .unwrap();
        provider.initialize(&self.context()).await.unwrap();
        provider
    }

    /// Returns the started provider with this configuration.
    pub(crate) async fn started_with(
        &self,
        text: String,
        variables: &[(&str, &str)],
        connector: &Arc<dyn Connector>,
    ) -> Oci {
        let file = ConfigFile {
            path: "cloud-provider.yaml".into(),
            text,
        };
        let setup = Setup {
            environment: Environment::of(variables.to_vec()),
            ..Setup::of(file)
        };
        let provider = Oci::new(Config::read(&setup).unwrap(), &setup, connector).unwrap();
        self.start(&provider).await;
        provider
    }

    /// Makes the first Node one of OpenShift, gives its instance a range for Pods, and all subnets IPv6.
    pub(crate) fn set_openshift_with_pod_ranges(&self) {
        let first = (*self.cluster.nodes()[0]).clone();
        let labels = [("node.openshift.io/os_id".to_owned(), "rhel".to_owned())]
            .into_iter()
            .collect();
        self.cluster.set_node(Node { labels, ..first });
        let families = json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}});
        self.cluster.set_document(
            "/api/v1/namespaces/default/services/kubernetes",
            families.to_string(),
        );
        let mut cloud = self.fake.lock();
        let range = json!({"flexcidr-primary-vnic": "{\"ip-count\": 64, \"cidr-blocks\": [\"10.1.0.0/16\"]}"});
        cloud.change_instance("worker-1", |instance| instance["metadata"] = range.clone());
        cloud.add_vnic(
            "worker-1",
            "10.0.9.9",
            &json!({"openshift-abc": {"boot-volume-type": "ISCSI"}}),
        );
        for subnet in [LB_SUBNET, oci_fake::NODE_SUBNET] {
            cloud.objects.get_mut(subnet).unwrap()["ipv6CidrBlock"] = "2603:c020::/64".into();
        }
    }

    pub(crate) fn context(&self) -> Context {
        self.cluster.context(cluster())
    }

    /// Starts a provider; the requests of the start are forgotten.
    pub(crate) async fn start(&self, provider: &Oci) {
        provider.initialize(&self.context()).await.unwrap();
        provider.set_caches(Arc::new(self.cluster.clone()) as Arc<dyn Caches>);
        self.fake.fault_injector().forget_requests();
    }

    /// Returns the patches of Nodes since the last call, as path and document.
    pub(crate) fn patches(&self) -> Vec<(String, Value)> {
        let patches = self.cluster.take_patches().into_iter();
        patches
            .map(|(path, patch)| (path, serde_json::from_slice(&patch).unwrap()))
            .collect()
    }

    pub(crate) fn events(&self) -> String {
        self.cluster
            .take_events()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Sets the certificate of Secret `web-tls` of namespace `default`.
    pub(crate) fn set_certificate(&self, pem: &str) {
        let data = json!({"tls.crt": STANDARD.encode(pem), "tls.key": STANDARD.encode(CERTIFICATE_KEY), "ca.crt": STANDARD.encode("ca")});
        self.cluster.set_document(
            "/api/v1/namespaces/default/secrets/web-tls",
            json!({ "data": data }).to_string(),
        );
    }

    /// Syncs a Service, which gets the status that follows.
    pub(crate) async fn ensure(
        &self,
        provider: &Oci,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.ensure_beside(provider, service, &[]).await
    }

    /// Syncs a Service in a cluster with other ones.
    pub(crate) async fn ensure_beside(
        &self,
        provider: &Oci,
        service: &mut Service,
        others: &[Service],
    ) -> Result<LoadBalancerStatus> {
        let nodes = self.cluster.nodes();
        let cluster = cluster();
        let before = service.clone();
        self.cluster
            .set_services(others.iter().cloned().chain([before.clone()]));
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &before,
            nodes: &nodes,
            callbacks: &(),
        };
        let status = provider
            .load_balancers()
            .unwrap()
            .ensure(request)
            .await?
            .unwrap_or_default();
        service.status = Some(serde_json::from_value(json!({"loadBalancer": status})).unwrap());
        Ok(status)
    }

    /// Plans a sync of a Service.
    pub(crate) async fn plan(&self, provider: &Oci, service: &Service) -> Result<Plan> {
        let nodes = self.cluster.nodes();
        let cluster = cluster();
        self.cluster.set_services([service.clone()]);
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        provider
            .load_balancers()
            .unwrap()
            .plan(request, Goal::Ensured)
            .await
    }

    pub(crate) async fn delete(&self, provider: &Oci, service: &Service) -> Result<()> {
        self.delete_beside(provider, service, &[]).await
    }

    /// Deletes the load balancer of a Service in a cluster with other ones.
    pub(crate) async fn delete_beside(
        &self,
        provider: &Oci,
        service: &Service,
        others: &[Service],
    ) -> Result<()> {
        let cluster = cluster();
        self.cluster
            .set_services(others.iter().cloned().chain([service.clone()]));
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &[],
            callbacks: &(),
        };
        provider.load_balancers().unwrap().delete(request).await
    }

    /// Returns the load balancers of a Service as `explain` describes them.
    pub(crate) async fn describe(&self, provider: &Oci, service: &Service) -> String {
        let nodes = self.cluster.nodes();
        let cluster = cluster();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        format!(
            "{:?}",
            provider
                .load_balancers()
                .unwrap()
                .describe(request)
                .await
                .unwrap()
        )
    }

    /// Returns the only load balancer of a kind.
    pub(crate) fn balancer(&self, kind: &str) -> Value {
        let cloud = self.fake.lock();
        let all: Vec<_> = cloud.all(kind).cloned().collect();
        assert_eq!(all.len(), 1, "{all:#?}");
        all[0].clone()
    }

    /// Returns the routes of requests that changed something.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.fake
            .fault_injector()
            .changes()
            .into_iter()
            .map(|(route, _)| route)
            .collect()
    }
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

/// Returns a Service with these annotations, and further fields in its spec.
pub(crate) fn service(annotations: &[(&str, &str)], more: Value) -> Service {
    let annotations: Value = annotations
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut spec = json!({"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"}]});
    let Value::Object(more) = more else {
        panic!("fields of a spec are an object")
    };
    for (key, value) in more {
        spec[key] = value;
    }
    let metadata =
        json!({"name": "web", "namespace": "default", "uid": UID, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Returns the Service of another name, UID and port.
pub(crate) fn other_service(
    name: &str,
    uid: &str,
    annotations: &[(&str, &str)],
    port: u16,
) -> Service {
    let ports =
        json!([{"name": "http", "port": port, "nodePort": 30000 + port, "protocol": "TCP"}]);
    let mut other = service(annotations, json!({"ports": ports}));
    (other.metadata.name, other.metadata.uid) = (Some(name.to_owned()), Some(uid.to_owned()));
    other
}

/// Returns peers and ports of the rules of a security list, without those of a user.
pub(crate) fn rules(harness: &Harness, list: &str, direction: &str) -> Vec<String> {
    let id = format!("ocid1.securitylist.oc1.phx.{list}");
    let rules = harness.fake.lock().objects[&id][format!("{direction}SecurityRules")].clone();
    let peer = if direction == "ingress" {
        "source"
    } else {
        "destination"
    };
    let text = |object: &Value| {
        format!(
            "{} {}",
            object[peer].as_str().unwrap(),
            object["tcpOptions"]["destinationPortRange"]["min"]
        )
    };
    let ours = rules
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule["description"] != "ssh");
    let mut all: Vec<_> = ours.map(text).collect();
    all.sort();
    all
}
