//! Harness: a resource group, a cluster, and the provider between them, configured like the program.

use std::sync::Arc;

use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, Caches, CloudProvider, Cluster, ConfigFile, Context, LoadBalancerRequest,
    LoadBalancerStatus, Node, NodeAddress, Result, Route, Service, Setup,
};
use provider_azure::Azure;
use provider_kit::transport::Builder;
use serde_json::{Value, json};

use azure_fake::{
    Azure as Cloud, CLIENT, Handle, LOCATION, NETWORK, ROUTE_TABLE, SECURITY_GROUP, SUBSCRIPTION,
    TENANT,
};

pub(crate) const BALANCERS: &str = "Microsoft.Network/loadBalancers";
pub(crate) const ADDRESSES: &str = "Microsoft.Network/publicIPAddresses";
pub(crate) const GROUP: &str = "Microsoft.Network/networkSecurityGroups";
pub(crate) const PUT_BALANCER: &str = "PUT /Microsoft.Network/loadBalancers/{name}";

/// The form of pools, and the kind of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Addresses of standalone machines.
    Addresses,
    /// Network interfaces of standalone machines.
    Interfaces,
    /// Network interfaces of the instances of a uniform scale set.
    ScaleSet,
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[derive(Clone)]
pub(crate) struct Harness {
    pub(crate) fake: Handle<Cloud>,
    form: Form,
    pub(crate) cluster: ScriptedCluster,
    config: Value,
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".to_owned(),
        id: Some("cluster-1".to_owned()),
    }
}

impl Harness {
    /// Creates a resource group with two machines, and a Node for each.
    pub(crate) fn new(form: Form) -> Self {
        let harness = Self {
            fake: Handle::new(Cloud::default()),
            form,
            cluster: ScriptedCluster::default(),
            config: Value::Null,
        };
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(name));
        harness
    }

    pub(crate) fn with(self, config: Value) -> Self {
        Self { config, ..self }
    }

    pub(crate) fn add_node(&self, name: &str) {
        let mut cloud = self.fake.lock();
        let id = if self.form == Form::ScaleSet {
            cloud.add_instance("workers", name)
        } else {
            cloud.add_machine(name)
        };
        let (machine, provider_id) = (cloud.get(&id).cloned().unwrap(), format!("azure://{id}"));
        let address =
            NodeAddress::new(AddressType::InternalIP, cloud.address_of(&machine).as_str());
        self.cluster.set_node(Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: provider_id.into(),
            addresses: [address].into(),
            ..Node::default()
        });
    }

    /// Gives a machine and its Node an address of the second family.
    pub(crate) fn add_ipv6(&self, name: &str, ip: &str) {
        self.fake.lock().add_ipv6(name, ip);
        let mut node = (*self.cluster.node(name).unwrap()).clone();
        node.addresses = [
            node.addresses[0].clone(),
            NodeAddress::new(AddressType::InternalIP, ip),
        ]
        .into();
        self.cluster.set_node(node);
    }

    /// Returns the changes since the last time.
    pub(crate) fn changes(&self) -> Vec<String> {
        let requests = self.fake.fault_injector().requests().into_iter();
        self.fake.fault_injector().forget_requests();
        let is_change =
            |route: &String| !route.starts_with("GET ") && !route.starts_with("POST /{tenant}");
        requests
            .map(|request| request.route)
            .filter(is_change)
            .collect()
    }

    pub(crate) fn setup(&self) -> Setup {
        let mut config = json!({
            "tenantId": TENANT, "subscriptionId": SUBSCRIPTION, "aadClientId": CLIENT.0, "aadClientSecret": CLIENT.1,
            "resourceGroup": azure_fake::GROUP, "location": LOCATION, "securityGroupName": SECURITY_GROUP,
            "routeTableName": ROUTE_TABLE, "vnetName": NETWORK.0, "subnetName": NETWORK.1,
            "loadBalancerBackendPoolConfigurationType": if self.form == Form::Addresses { "nodeIP" } else { "nodeIPConfiguration" },
        });
        for (key, value) in self.config.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        Setup::of(ConfigFile {
            path: "azure.json".into(),
            text: config.to_string(),
        })
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Azure {
        let router = self.fake.router();
        self.started_with(move |http| http.service(router.clone()))
            .await
    }

    pub(crate) async fn started_with(
        &self,
        change: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Azure {
        let provider = Azure::new(&self.setup(), change).unwrap();
        provider.initialize(&self.context()).await.unwrap();
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.fault_injector().forget_requests();
        provider
    }

    pub(crate) fn context(&self) -> Context {
        Context {
            cluster_cidrs: vec!["10.244.0.0/16".to_owned()],
            ..self.cluster.context(cluster())
        }
    }

    pub(crate) async fn ensure(
        &self,
        provider: &Azure,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>> {
        self.ensure_among(provider, service, std::slice::from_ref(service))
            .await
    }

    /// Ensures one of several Services.
    pub(crate) async fn ensure_among(
        &self,
        provider: &Azure,
        service: &Service,
        all: &[Service],
    ) -> Result<Option<LoadBalancerStatus>> {
        self.cluster.set_services(all.to_vec());
        let cluster = cluster();
        let nodes = self.cluster.nodes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        provider.load_balancers().unwrap().ensure(request).await
    }

    pub(crate) async fn delete(&self, provider: &Azure, service: &Service) -> Result<()> {
        let cluster = cluster();
        let mut service = service.clone();
        service.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        provider.load_balancers().unwrap().delete(request).await
    }

    /// Returns the names of the addresses that exist.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.fake
            .lock()
            .all(ADDRESSES)
            .map(|object| text(&object["name"]))
            .collect()
    }

    /// Returns the load balancer of this name; null if there is none.
    pub(crate) fn balancer(&self, name: &str) -> Value {
        self.fake
            .lock()
            .get(&azure_fake::id(BALANCERS, name))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the names of the rules that the program wrote into the security group, with protocol, sources, ports and
    /// the number of destinations.
    pub(crate) fn security_rules(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let group = cloud
            .get(&azure_fake::id(GROUP, azure_fake::SECURITY_GROUP))
            .unwrap();
        let rules = group["properties"]["securityRules"]
            .as_array()
            .unwrap()
            .clone();
        rules
            .into_iter()
            .filter(|rule| text(&rule["name"]).starts_with("k8s-azure-lb_"))
            .collect()
    }
}

/// Returns a Service with a port for each number, annotations without their common beginning, and further fields.
pub(crate) fn service(
    name: &str,
    ports: &[u16],
    annotations: &[(&str, &str)],
    more: &Value,
) -> Service {
    let number: u32 = name.bytes().fold(7, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let annotations: serde_json::Map<_, _> = annotations
        .iter()
        .map(|(key, value)| (format!("service.beta.kubernetes.io/{key}"), json!(value)))
        .collect();
    let port = |port: &u16| json!({"name": format!("p{port}"), "port": port, "protocol": "TCP", "nodePort": 30_000 + port});
    let mut service = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("{number:08x}-0000-4000-8000-0123456789ab"), "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": ports.iter().map(port).collect::<Vec<_>>()},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        service["spec"][key] = value.clone();
    }
    serde_json::from_value(service).unwrap()
}

/// Returns the route to the Pods of a Node.
pub(crate) fn route(harness: &Harness, node: &str, destination: &str) -> Route {
    Route {
        target_node: node.into(),
        target_node_addresses: harness.cluster.node(node).unwrap().addresses.to_vec(),
        destination_cidr: destination.into(),
        ..Route::default()
    }
}
