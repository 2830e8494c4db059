//! Harness: an account on the fake or on moto, a cluster, and the provider between them.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use aws_fake::{ACCOUNT, CLUSTER, Handle, KEY_ID, Kind, REGION, SECRET, VPC, World, router};
use aws_protocol::{Aws, Settings};
use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    Caches, CloudMetrics, CloudProvider, Cluster, ConfigFile, Context, Environment, Error,
    LoadBalancerRequest, LoadBalancerStatus, Node, Result, Service, Setup,
};
use provider_aws::Ec2;
use provider_kit::transport::Builder;
use serde_json::{Value, json};

pub(crate) const PREFIX: &str = "service.beta.kubernetes.io/aws-load-balancer-";

/// Operations of requests that were answered, in order.
#[derive(Default)]
struct Requests(Mutex<Vec<String>>);

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, _status: Option<u16>, _took: Duration) {
        self.0.lock().push(operation.to_owned());
    }
}

pub(crate) struct Harness {
    /// The fake; nothing asks it where the account is on moto.
    pub(crate) fake: Handle<World>,
    pub(crate) cluster: ScriptedCluster,
    /// A public and a private subnet, in two zones.
    pub(crate) subnets: [String; 2],
    /// The security group of the Nodes.
    pub(crate) group: String,
    requests: Arc<Requests>,
    config: String,
    flags: Vec<(&'static str, &'static str)>,
    has_metadata: bool,
    is_moto: bool,
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some(CLUSTER.into()),
    }
}

impl Harness {
    /// Creates an account on the fake with two instances, a Node for each, and a program that runs outside of the VPC.
    pub(crate) fn new() -> Self {
        let harness = Self::empty();
        ["worker-1", "worker-2"]
            .into_iter()
            .for_each(|name| drop(harness.add_node(name)));
        harness
    }

    /// Creates an account on the fake without instances.
    pub(crate) fn empty() -> Self {
        let config = format!(
            "[Global]\nZone = us-east-1a\nVPC = {VPC}\nSubnetID = subnet-00000000\nKubernetesClusterID = {CLUSTER}\n"
        );
        let (cluster, requests, flags) = Default::default();
        let subnets = ["subnet-00000000", "subnet-00000003"].map(str::to_owned);
        let group = "sg-nodes".to_owned();
        let has_metadata = false;
        let is_moto = false;
        let fake = Handle::new(World::default());
        Self {
            fake,
            cluster,
            subnets,
            group,
            requests,
            config,
            flags,
            has_metadata,
            is_moto,
        }
    }

    /// Returns the account of a seeded moto. `AWS_TESTBED` names a folder with `cloud.conf` and `ids.json`; endpoint and keys are
    /// in the usual variables.
    pub(crate) fn moto() -> Self {
        let folder = std::env::var("AWS_TESTBED").unwrap();
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let ids: Value = serde_json::from_str(&read("ids.json")).unwrap();
        let text = |object: &Value| object.as_str().unwrap().to_owned();
        let subnets = ["public-a", "private-b"].map(|name| text(&ids["subnets"][name]));
        let group = text(&ids["node_security_group_id"]);
        let config = read("cloud.conf");
        let harness = Self {
            subnets,
            group,
            config,
            is_moto: true,
            ..Self::empty()
        };
        let workers = ids["nodes"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| name.starts_with("worker"));
        for entry in workers.map(|(_, workers)| workers).take(2) {
            harness.cluster.set_node(node_of(
                &text(&entry["node_name"]),
                &text(&entry["provider_id"]),
            ));
        }
        harness
    }

    /// Lets everything happen at once, and as often as the program likes.
    pub(crate) fn without_delays_and_limits(self) -> Self {
        let mut world = self.fake.lock();
        (world.page, world.limits) = (1000, [(1_000_000, 1); 2]);
        (world.provisioning, world.detaching) = (Duration::ZERO, Duration::ZERO);
        drop(world);
        self
    }

    /// Adds lines to the configuration file.
    pub(crate) fn with(self, lines: &str) -> Self {
        Self {
            config: self
                .config
                .replace("[Global]\n", &format!("[Global]\n{lines}\n")),
            ..self
        }
    }

    pub(crate) fn flags(self, flags: &[(&'static str, &'static str)]) -> Self {
        Self {
            flags: flags.to_vec(),
            ..self
        }
    }

    /// Lets the program run on the first instance, whose role and tags it uses: nothing is configured.
    pub(crate) fn on_instance(self) -> Self {
        Self {
            config: "[Global]\n".to_owned(),
            has_metadata: true,
            ..self
        }
    }

    /// Configures the region alone, without a metadata service.
    pub(crate) fn without_vpc(self) -> Self {
        Self {
            config: format!("[Global]\nRegion = {REGION}\n"),
            ..self
        }
    }

    /// Returns the provider as the program starts it; the requests of the start are forgotten.
    pub(crate) async fn start(&self) -> Result<Ec2> {
        let provider = self.created();
        let context = self.cluster.context(cluster());
        provider
            .initialize(&Context {
                cluster_cidrs: vec!["10.244.0.0/14".to_owned()],
                ..context
            })
            .await?;
        provider.set_caches(Arc::new(self.cluster.clone()));
        self.changes();
        Ok(provider)
    }

    fn setup(&self) -> Setup {
        let no_metadata = if self.has_metadata { "false" } else { "true" };
        let keys = [
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
        ];
        let keys = keys.into_iter().filter(|_| !self.has_metadata);
        let variables = keys.chain([("AWS_EC2_METADATA_DISABLED", no_metadata)]);
        let environment = if self.is_moto {
            Environment::of_process()
        } else {
            Environment::of(variables)
        };
        let flags = Environment::of(self.flags.iter().copied());
        let metrics = Arc::clone(&self.requests) as _;
        let file = ConfigFile {
            path: "cloud.conf".into(),
            text: self.config.clone(),
        };
        Setup {
            environment,
            flags,
            metrics,
            ..Setup::of(file)
        }
    }

    fn furnish(&self) -> impl Fn(Builder) -> Builder + Send + Sync + 'static {
        let fake = (!self.is_moto).then(|| self.fake.clone());
        move |http| match &fake {
            Some(fake) => http.service(router(fake)),
            None => http,
        }
    }

    /// Returns the provider before its start.
    pub(crate) fn created(&self) -> Ec2 {
        Ec2::new(&self.setup(), self.furnish()).unwrap()
    }

    /// Returns clients of the account, for what somebody else looks at or changes.
    pub(crate) fn aws(&self) -> Aws {
        let settings = Settings {
            region: Some(REGION.to_owned()),
            ..Settings::default()
        };
        let setup = Setup {
            metrics: Setup::default().metrics,
            ..self.setup()
        };
        Aws::new(&setup, settings, self.furnish()).unwrap()
    }

    /// Waits before the program polls again.
    async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(if self.is_moto {
            100
        } else {
            10_000
        }))
        .await;
    }

    /// Adds an instance and its Node, and returns the ID of the instance.
    pub(crate) fn add_node(&self, name: &str) -> String {
        let id = self.fake.lock().add_instance(ACCOUNT, name);
        self.cluster.set_node(node(name, &id));
        id
    }

    /// Returns a Node of the cluster.
    pub(crate) fn node(&self, name: &str) -> Node {
        (*self.cluster.node(name).unwrap()).clone()
    }

    /// Changes the instances of the fake, by function.
    pub(crate) fn change_instances(&self, change: impl Fn(&mut Value)) {
        self.fake
            .lock()
            .each(Kind::Instance)
            .iter_mut()
            .for_each(change);
    }

    /// Syncs a Service until its load balancer is ready.
    pub(crate) async fn ensure(
        &self,
        provider: &Ec2,
        service: &Service,
    ) -> Result<LoadBalancerStatus> {
        let cluster = cluster();
        let nodes = self.cluster.nodes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        self.remember(service);
        for _ in 0..60 {
            match provider.load_balancers().unwrap().ensure(request).await {
                Err(error) if error.retry_after().is_some() => self.pause().await,
                status => return status.map(Option::unwrap_or_default),
            }
        }
        Err(Error::other(
            "the load balancer is not ready after 60 polls",
        ))
    }

    /// Syncs the targets of a Service.
    pub(crate) async fn update_targets(&self, provider: &Ec2, service: &Service) -> Result<()> {
        let cluster = cluster();
        let nodes = self.cluster.nodes();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        provider
            .load_balancers()
            .unwrap()
            .update_targets(request)
            .await
    }

    /// Deletes the load balancer of a Service.
    pub(crate) async fn delete(&self, provider: &Ec2, service: &Service) -> Result<()> {
        let cluster = cluster();
        let mut service = service.clone();
        service.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-11-21T20:00:00Z")).unwrap();
        self.remember(&service);
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        for _ in 0..60 {
            match provider.load_balancers().unwrap().delete(request).await {
                Err(error) if error.retry_after().is_some() => self.pause().await,
                done => return done,
            }
        }
        Err(Error::other(
            "the load balancer is not deleted after 60 polls",
        ))
    }

    fn remember(&self, service: &Service) {
        let mut all: Vec<_> = self
            .cluster
            .services()
            .iter()
            .map(|service| (**service).clone())
            .collect();
        all.retain(|entry| entry.metadata.uid != service.metadata.uid);
        all.push(service.clone());
        self.cluster.set_services(all);
    }

    /// Returns the only object of a kind.
    pub(crate) fn only(&self, kind: &str) -> Value {
        let cloud = self.fake.lock();
        assert_eq!(cloud.all(kind).len(), 1, "{kind}");
        cloud.all(kind)[0].clone()
    }

    /// Returns the actions of the program's changes since the start or the last call, in order.
    pub(crate) fn changes(&self) -> Vec<String> {
        self.fake.fault_injector().forget_requests();
        let all = std::mem::take(&mut *self.requests.0.lock());
        let actions = all
            .iter()
            .filter_map(|text| Some(text.split_once(' ')?.1.to_owned()));
        actions
            .filter(|action| !action.starts_with("Describe") && !action.starts_with("Get"))
            .collect()
    }

    /// Returns the groups that the security group of the Nodes admits.
    pub(crate) fn admitted(&self) -> Vec<String> {
        let cloud = self.fake.lock();
        let nodes = cloud
            .all("group")
            .iter()
            .find(|object| object["groupId"] == "sg-nodes")
            .unwrap();
        let rules = nodes["_rules"].as_array().unwrap().iter();
        rules
            .filter_map(|rule| rule["groupId"].as_str().map(str::to_owned))
            .collect()
    }
}

/// Returns the Node of an instance.
pub(crate) fn node(name: &str, id: &str) -> Node {
    node_of(name, &format!("aws:///us-east-1a/{id}"))
}

/// Returns a Node with this provider ID.
pub(crate) fn node_of(name: &str, provider_id: &str) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        provider_id: provider_id.into(),
        labels: [("kubernetes.io/hostname".to_owned(), name.to_owned())]
            .into_iter()
            .collect(),
        ..Node::default()
    }
}

/// Returns a Service with these annotations, as `key=value` without their prefix and with blanks between them.
pub(crate) fn service(uid: &str, annotations: &str, spec: &Value) -> Service {
    let pairs = annotations.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (format!("{PREFIX}{key}"), Value::from(value))
    });
    let annotations: serde_json::Map<_, _> = pairs.collect();
    let mut service = json!({
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "web", "port": 443, "nodePort": 30443, "protocol": "TCP"}]},
    });
    service["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().cloned().unwrap_or_default());
    serde_json::from_value(service).unwrap()
}

/// Returns the tags of an object, by key.
pub(crate) fn tags(object: &Value) -> std::collections::BTreeMap<String, String> {
    let text = |object: &Value| object.as_str().unwrap_or_default().to_owned();
    let list = |key: &str| object[key].as_array().cloned().unwrap_or_default();
    let of_ec2 = list("tagSet")
        .into_iter()
        .map(|tag_set| (text(&tag_set["key"]), text(&tag_set["value"])));
    of_ec2
        .chain(
            list("_tags")
                .into_iter()
                .map(|tag| (text(&tag["Key"]), text(&tag["Value"]))),
        )
        .collect()
}
