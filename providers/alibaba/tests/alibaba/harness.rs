//! Harness: a region on the fake, a cluster, and the provider between them.

use std::sync::Arc;
use std::time::Duration;

use alibaba_fake::{ACCOUNT, CLUSTER, Handle, KEY_ID, REGION, SECRET, VPC, World, router};
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    AddressType, AdoptableTag, CloudProvider, Cluster, ConfigFile, Context, Environment,
    LoadBalancerStatus, Node, NodeAddress, Result, Service, Setup,
};
use provider_alibaba::Alibaba;
use provider_alibaba::annotations::PREFIX;
use provider_kit::transport::Builder;
use serde_json::{Value, json};

pub(crate) struct Harness {
    pub(crate) fake: Handle<World>,
    pub(crate) cluster: ScriptedCluster,
    config: Value,
    environment: Vec<(String, String)>,
    adoptable_tag: Option<AdoptableTag>,
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some(CLUSTER.into()),
    }
}

impl Harness {
    /// Creates a region with two instances, and a Node for each.
    pub(crate) fn new() -> Self {
        let harness = Self::empty();
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| harness.add_node(name));
        harness
    }

    /// Creates a region without instances.
    pub(crate) fn empty() -> Self {
        let config = json!({"clusterID": CLUSTER, "region": REGION, "vpcid": VPC, "vswitchid": "cn-hangzhou-a:vsw-a",
            "routeTableIDs": "vtb-main"});
        let keys = [
            ("ACCESS_KEY_ID", KEY_ID),
            ("ACCESS_KEY_SECRET", SECRET),
            ("ALICLOUD_CLIENT_SCHEME", "HTTP"),
        ];
        let environment = keys
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let fake = Handle::new(World::default());
        let cluster = ScriptedCluster::default();
        Self {
            fake,
            cluster,
            config,
            environment,
            adoptable_tag: None,
        }
    }

    /// Sets a key of the file; null removes it.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.config[key] = value.into();
        self
    }

    /// Sets an environment variable.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.retain(|(key, _)| key != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Requires a tag on load balancers that Services adopt.
    pub(crate) fn requiring(mut self, tag: &str) -> Self {
        self.adoptable_tag = Some(tag.parse().unwrap());
        self
    }

    pub(crate) fn setup(&self) -> Setup {
        let adoptable_tag = self.adoptable_tag.clone();
        let text = json!({"Global": self.config}).to_string();
        let environment = Environment::of(self.environment.iter().cloned());
        Setup {
            environment,
            adoptable_tag,
            ..Setup::of(ConfigFile {
                path: "cloud-config".into(),
                text,
            })
        }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn started(&self) -> Alibaba {
        let fake = self.fake.clone();
        self.started_with(move |http| http.service(router(&fake)))
            .await
            .unwrap()
    }

    /// Returns the started provider over changed connections.
    pub(crate) async fn started_with(
        &self,
        furnish: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Result<Alibaba> {
        let provider = Alibaba::new(&self.setup(), furnish)?;
        let context = Context {
            cluster_cidrs: vec!["10.244.0.0/16".to_owned()],
            ..self.cluster.context(cluster())
        };
        provider.initialize(&context).await?;
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.fake.fault_injector().forget_requests();
        Ok(provider)
    }

    /// Adds an instance and its Node.
    pub(crate) fn add_node(&self, name: &str) {
        let id = self.fake.lock().add_instance(ACCOUNT, name);
        let ip = self.instance(name)["VpcAttributes"]["PrivateIpAddress"]["IpAddress"][0].clone();
        self.cluster.set_node(Node {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            provider_id: format!("{REGION}.{id}").into(),
            addresses: [NodeAddress::new(
                AddressType::InternalIP,
                ip.as_str().unwrap(),
            )]
            .into(),
            ..Node::default()
        });
    }

    pub(crate) fn instance(&self, name: &str) -> Value {
        self.fake
            .lock()
            .all("instance")
            .iter()
            .find(|object| object["InstanceName"] == name)
            .cloned()
            .unwrap()
    }

    /// Returns the only object of a kind.
    pub(crate) fn only(&self, kind: &str) -> Value {
        let cloud = self.fake.lock();
        assert_eq!(cloud.all(kind).len(), 1, "{:#?}", cloud.all(kind));
        cloud.all(kind)[0].clone()
    }

    /// Syncs a Service, which gets the annotations and the status that follow.
    pub(crate) async fn ensure(
        &self,
        provider: &Alibaba,
        service: &mut Service,
    ) -> Result<LoadBalancerStatus> {
        self.cluster.ensure(provider, &cluster(), service).await
    }

    pub(crate) async fn delete(&self, provider: &Alibaba, service: &Service) -> Result<()> {
        self.cluster.delete(provider, &cluster(), service).await
    }

    /// Requests that changed something since the last call, without their product.
    pub(crate) fn changes(&self) -> Vec<String> {
        let injector = self.fake.fault_injector();
        let changes = injector
            .changes()
            .into_iter()
            .map(|(route, _)| route.rsplit('/').next().unwrap().to_owned());
        let changes = changes.collect();
        injector.forget_requests();
        changes
    }

    /// Lets jobs end at once.
    pub(crate) fn at_once(self) -> Self {
        self.fake.lock().job = Duration::ZERO;
        self
    }
}

/// Returns a Service with port 80, and these annotations without their prefix.
pub(crate) fn service(annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, json!({}))
}

/// Returns a Service for an NLB.
pub(crate) fn network(annotations: &[(&str, &str)]) -> Service {
    let zones = ("zone-maps", "cn-hangzhou-a:vsw-a,cn-hangzhou-b:vsw-b");
    service_of(
        &[&[zones], annotations].concat(),
        json!({"loadBalancerClass": "alibabacloud.com/nlb"}),
    )
}

/// Returns a Service with further fields in its spec.
#[allow(
    clippy::needless_pass_by_value,
    reason = "tests write the fields in place"
)]
pub(crate) fn service_of(all: &[(&str, &str)], more: Value) -> Service {
    let all: serde_json::Map<_, _> = all
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)))
        .collect();
    let mut spec = json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]});
    more.as_object()
        .unwrap()
        .iter()
        .for_each(|(key, value)| spec[key] = value.clone());
    let metadata = json!({"name": "web", "namespace": "default", "uid": "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11", "annotations": all});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Sets an annotation of the Service.
pub(crate) fn annotate(service: &mut Service, key: &str, value: &str) {
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(format!("{PREFIX}{key}"), value.to_owned());
}
