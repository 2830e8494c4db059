//! AWS, as the proofs need it: the provider over a fake of the APIs, with classic or with network load balancers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws_fake::{ACCOUNT, CLUSTER, Fault, Handle, KEY_ID, Kind, REGION, SECRET, VPC, World, rest};
use axum::Router;
use ccm_conformance::json::{list, number, same_targets, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings, RouteFacts,
};
use cloud_provider::{
    CloudProvider, ConfigFile, Environment, Fence, Service, Setup, default_load_balancer_name,
};
use provider_aws::{Ec2, NAME};
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

/// The account of others.
const OTHERS: &str = "444455556666";
/// The name of their load balancers and security group, the range of their route, and an address that they let through.
const THEIRS: &str = "theirs";
const THEIR_RANGE: &str = "192.0.2.0/24";
const THEIR_ADDRESS: &str = "198.51.100.7/32";
/// The tag with the UID of a Service, and the one with its name.
const OWNER: &str = "ccm-rs/service";
const SERVICE: &str = "kubernetes.io/service-name";
/// The annotation with the kind of load balancer.
const TYPE: &str = "service.beta.kubernetes.io/aws-load-balancer-type";
/// Pods are in this range.
const POD_RANGE: &str = "10.244.";

/// A VPC in which Services get load balancers of one kind.
#[derive(Clone)]
pub struct AwsCloud {
    /// The cloud and its state.
    pub fake: Handle<World>,
    kind: Kind,
}

impl AwsCloud {
    /// Makes a cloud whose Services get classic load balancers.
    #[must_use]
    pub fn classic() -> Self {
        Self {
            fake: Handle::new(World::default()),
            kind: Kind::Classic,
        }
    }

    /// Makes a cloud whose Services get network load balancers with security groups.
    #[must_use]
    pub fn network() -> Self {
        Self {
            kind: Kind::Network,
            ..Self::classic()
        }
    }

    /// The annotations of Services that ask for load balancers of this kind; `null` removes one.
    fn annotations(kind: Kind) -> Value {
        json!({TYPE: if kind == Kind::Network { json!("nlb") } else { Value::Null }})
    }

    fn cloud_conf() -> String {
        format!(
            "[Global]\nZone = {REGION}a\nVPC = {VPC}\nSubnetID = subnet-00000000\nKubernetesClusterID = {CLUSTER}\n\
             NLBSecurityGroupMode = Managed\n"
        )
    }

    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        let mut cloud = self.fake.lock();
        cloud
            .each(Kind::Instance)
            .iter_mut()
            .filter(|object| object["privateDnsName"] == name)
            .for_each(change);
    }
}

fn tag(object: &Value, key: &str) -> Option<String> {
    let of_ec2 = list(&object["tagSet"])
        .find(|tag_set| tag_set["key"] == key)
        .map(|tag_set| text(&tag_set["value"]));
    of_ec2.or_else(|| {
        list(&object["_tags"])
            .find(|tag| tag["Key"] == key)
            .map(|tags| text(&tags["Value"]))
    })
}

fn provider_id(instance: &Value) -> String {
    format!(
        "aws:///{}/{}",
        text(&instance["placement"]["availabilityZone"]),
        text(&instance["instanceId"])
    )
}

fn machine_of(cloud: &World, id: &Value) -> String {
    let found = cloud
        .all("instance")
        .iter()
        .find(|object| object["instanceId"] == *id);
    found.map_or_else(|| format!("nobody at {id}"), provider_id)
}

fn classic(cloud: &World, entry: &Value) -> LoadBalancerFacts {
    let port = |object: &Value| {
        (
            number(&object["Listener"]["LoadBalancerPort"]),
            "TCP".to_owned(),
            number(&object["Listener"]["InstancePort"]),
        )
    };
    LoadBalancerFacts {
        service_uid: tag(entry, OWNER),
        address: entry["DNSName"].as_str().map(str::to_owned),
        ports: list(&entry["ListenerDescriptions"]).map(port).collect(),
        targets: list(&entry["Instances"])
            .map(|instances| machine_of(cloud, &instances["InstanceId"]))
            .collect(),
    }
}

fn network(cloud: &World, entry: &Value) -> LoadBalancerFacts {
    let mut ports = BTreeSet::new();
    let mut sets = BTreeSet::new();
    for listener in cloud
        .all("listener")
        .iter()
        .filter(|listener| listener["LoadBalancerArn"] == entry["LoadBalancerArn"])
    {
        let arn = &listener["DefaultActions"][0]["TargetGroupArn"];
        let group = cloud
            .all("target-group")
            .iter()
            .find(|object| object["TargetGroupArn"] == *arn)
            .unwrap_or(&Value::Null);
        ports.insert((
            number(&listener["Port"]),
            text(&listener["Protocol"]).replace("TLS", "TCP"),
            number(&group["Port"]),
        ));
        sets.insert(
            list(&group["_targets"])
                .map(|targets| machine_of(cloud, &targets["Id"]))
                .collect::<BTreeSet<_>>(),
        );
    }
    let targets = same_targets(sets);
    let address = entry["DNSName"].as_str().map(str::to_owned);
    LoadBalancerFacts {
        service_uid: tag(entry, OWNER),
        address,
        ports,
        targets,
    }
}

/// Returns an object without what differs from run to run and concerns nobody: the order of lists, what only the fake needs.
fn comparable(entry: &Value) -> Value {
    match entry {
        Value::Object(fields) => {
            let left_out = [
                "State",
                "_settings",
                "_rules",
                "_held",
                "_hidden",
                "networkInterfaceId",
            ];
            let kept = fields
                .iter()
                .filter(|(key, value)| !left_out.contains(&key.as_str()) && !value.is_null());
            kept.map(|(key, value)| (key.clone(), comparable(value)))
                .collect()
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(comparable).collect();
            items.sort_by_cached_key(|object| {
                (
                    text(&object["Listener"]["LoadBalancerPort"]),
                    object.to_string(),
                )
            });
            items.into()
        }
        other => other.clone(),
    }
}

impl CloudProfile for AwsCloud {
    fn name(&self) -> &'static str {
        NAME
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: true,
            accounts: true,
        }
    }
    fn api(&self) -> ApiRequests {
        let [load_balancers, create] = match self.kind {
            Kind::Network => [
                "GET /elbv2/DescribeLoadBalancers",
                "POST /elbv2/CreateLoadBalancer",
            ],
            _ => [
                "GET /elb/DescribeLoadBalancers",
                "POST /elb/CreateLoadBalancer",
            ],
        };
        ApiRequests {
            machines: "GET /ec2/DescribeInstances",
            load_balancers,
            create,
            polls: &[],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 5,
            chaos_seeds: 20,
        }
    }

    fn router(&self) -> Router {
        aws_fake::router(&self.fake)
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let file = ConfigFile {
            path: "cloud.conf".into(),
            text: Self::cloud_conf(),
        };
        let variables = [
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        let setup = Setup {
            environment: Environment::of(variables),
            fence: fence.clone(),
            ..Setup::of(file)
        };
        let provider = Ec2::new(&setup, move |http| {
            let api = api.clone();
            http.service(service_fn(move |request| {
                let api = api.clone();
                async move { api.oneshot(rest(request).await).await }
            }))
        });
        Arc::new(provider.expect("a configuration without mistakes"))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let variables = [
            ("AWS_ENDPOINT_URL", url),
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        let environment = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        ProgramSettings {
            environment,
            cloud_config: Some(Self::cloud_conf()),
        }
    }

    fn has_session_affinity(&self) -> bool {
        false
    }
    fn refuses_stopped_targets(&self) -> bool {
        self.kind == Kind::Network
    }
    fn service_annotations(&self) -> Value {
        if self.kind == Kind::Network {
            Self::annotations(self.kind)
        } else {
            Value::Null
        }
    }

    fn add_machine(&self, name: &str) -> String {
        let mut cloud = self.fake.lock();
        let id = cloud.add_instance(ACCOUNT, name);
        machine_of(&cloud, &id.into())
    }
    fn stop(&self, name: &str) {
        self.change(name, |object| {
            object["instanceState"] = json!({"code": 80, "name": "stopped"});
        });
    }
    fn start(&self, name: &str) {
        self.change(name, |object| {
            object["instanceState"] = json!({"code": 16, "name": "running"});
        });
    }
    fn terminate(&self, name: &str) {
        self.change(name, |object| {
            object["instanceState"] = json!({"code": 48, "name": "terminated"});
        });
        let mut cloud = self.fake.lock();
        let gone: Vec<_> = cloud
            .all("instance")
            .iter()
            .filter(|object| object["privateDnsName"] == name)
            .map(|object| object["instanceId"].clone())
            .collect();
        gone.iter().for_each(|id| cloud.break_routes(id));
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["privateDnsName"]),
            provider_id: provider_id(object),
            is_stopped: object["instanceState"]["name"] == "stopped",
        };
        let cloud = self.fake.lock();
        let is_there = |object: &&Value| {
            object["_account"] == ACCOUNT && object["instanceState"]["name"] != "terminated"
        };
        cloud
            .all("instance")
            .iter()
            .filter(is_there)
            .map(machine)
            .collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        let cloud = self.fake.lock();
        let all = cloud
            .all("classic")
            .iter()
            .map(|object| classic(&cloud, object));
        all.chain(
            cloud
                .all("network")
                .iter()
                .map(|object| network(&cloud, object)),
        )
        .collect()
    }
    fn leftovers(&self) -> Vec<String> {
        let served: Vec<_> = self
            .load_balancers()
            .into_iter()
            .filter_map(|facts| facts.service_uid)
            .collect();
        let cloud = self.fake.lock();
        let owned = cloud.all("group").iter().chain(cloud.all("target-group"));
        let is_left =
            |object: &&Value| tag(object, OWNER).is_some_and(|uid| !served.contains(&uid));
        owned
            .filter(is_left)
            .map(|object| {
                format!(
                    "left over: {}{}",
                    object["groupName"], object["TargetGroupName"]
                )
            })
            .collect()
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let cloud = self.fake.lock();
        let all = cloud
            .all("table")
            .iter()
            .flat_map(|object| list(&object["routeSet"]))
            .filter(|route_set| route_set["origin"] == "CreateRoute");
        let facts = |object: &Value| {
            let destination = text(&object["destinationCidrBlock"]);
            RouteFacts {
                is_ours: destination.starts_with(POD_RANGE),
                target: machine_of(&cloud, &object["instanceId"]),
                destination,
            }
        };
        all.map(facts).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let kinds = [
            "classic",
            "network",
            "target-group",
            "listener",
            "group",
            "table",
        ];
        let mut all: Vec<_> = kinds
            .into_iter()
            .flat_map(|kind| cloud.all(kind))
            .map(comparable)
            .collect();
        // One by one: IDs and node ports are others in each run, and with them the order.
        for entry in &mut all {
            entry["ipPermissions"] = Value::Null;
            entry["routeSet"] = Value::Null;
        }
        let rule = |group: &Value| -> Vec<_> {
            list(&group["_rules"])
                .map(|rules| json!({"rule of": group["groupName"], "rule": rules}))
                .collect()
        };
        all.extend(cloud.all("group").iter().flat_map(rule));
        all.extend(
            cloud
                .all("table")
                .iter()
                .flat_map(|object| list(&object["routeSet"]))
                .map(comparable),
        );
        all
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.fake.lock();
        let mut aliases = Vec::new();
        for other_instance in cloud.all("instance") {
            let name = text(&other_instance["privateDnsName"]);
            for key in ["instanceId", "ipAddress", "privateIpAddress", "dnsName"] {
                aliases.push((text(&other_instance[key]), format!("<{key} of {name}>")));
            }
            aliases.push((
                text(&other_instance["placement"]["availabilityZone"]),
                "<a zone>".to_owned(),
            ));
        }
        for current in cloud.all("classic").iter().chain(cloud.all("network")) {
            let name = text(&current["LoadBalancerName"]);
            for key in ["LoadBalancerArn", "DNSName"]
                .into_iter()
                .filter(|key| current[*key].is_string())
            {
                aliases.push((text(&current[key]), format!("<{key} of {name}>")));
            }
        }
        for target_group in cloud.all("target-group") {
            let what = format!(
                "of {} for {}",
                tag(target_group, SERVICE).unwrap_or_default(),
                text(&target_group["Port"])
            );
            aliases.push((
                text(&target_group["TargetGroupArn"]),
                format!("<target group {what}>"),
            ));
            aliases.push((
                text(&target_group["TargetGroupName"]),
                format!("<name of the target group {what}>"),
            ));
        }
        for entry in cloud.all("listener") {
            let balancer = text(&entry["LoadBalancerArn"]);
            aliases.push((
                text(&entry["ListenerArn"]),
                format!("<listener {} of {balancer}>", text(&entry["Port"])),
            ));
        }
        for object in cloud.all("group") {
            let owner = tag(object, SERVICE).map(|name| format!("<group of {name}>"));
            aliases.push((
                text(&object["groupId"]),
                format!(
                    "<ID of {}>",
                    owner.clone().unwrap_or_else(|| text(&object["groupName"]))
                ),
            ));
            aliases.extend(owner.map(|owner| (text(&object["groupName"]), owner)));
        }
        aliases
    }

    fn confuse(&self, is_confused: bool) {
        self.fake.lock().account = if is_confused { OTHERS } else { ACCOUNT };
    }
    fn add_machine_of_others(&self, name: &str) {
        self.fake.lock().add_instance(OTHERS, name);
    }
    /// Accounts, route tables and the security groups of Nodes are not the cluster's alone.
    fn leave_things_of_others(&self) {
        let mut cloud = self.fake.lock();
        cloud.add_balancer(Kind::Classic, THEIRS);
        cloud.add_balancer(Kind::Network, THEIRS);
        let rule =
            json!({"ipProtocol": "tcp", "fromPort": 22, "toPort": 22, "cidrIp": THEIR_ADDRESS});
        cloud.add_rule("sg-nodes", &rule);
        cloud
            .each(Kind::Group)
            .push(json!({"groupId": "sg-theirs", "groupName": THEIRS, "groupDescription": THEIRS, "vpcId": VPC,
            "ownerId": ACCOUNT, "tagSet": [], "ipPermissions": [], "_rules": [], "_account": ACCOUNT}));
        cloud.add_rule("sg-theirs", &rule);
        let hop = cloud
            .all("instance")
            .first()
            .map(|object| object["instanceId"].clone());
        let route = json!({"destinationCidrBlock": THEIR_RANGE, "instanceId": hop, "origin": "CreateRoute", "state": "active"});
        let tables = cloud
            .each(Kind::Table)
            .iter_mut()
            .filter_map(|object| object["routeSet"].as_array_mut());
        tables.for_each(|routes| routes.push(route.clone()));
    }
    fn things_of_others(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let named = ["classic", "network", "group"]
            .into_iter()
            .flat_map(|kind| cloud.all(kind))
            .filter(|object| object["LoadBalancerName"] == THEIRS || object["groupName"] == THEIRS);
        let rules = cloud
            .all("group")
            .iter()
            .flat_map(|object| list(&object["_rules"]))
            .filter(|rule| rule["cidrIp"] == THEIR_ADDRESS);
        let routes = cloud
            .all("table")
            .iter()
            .flat_map(|object| list(&object["routeSet"]));
        let mut all: Vec<_> = named.chain(rules).cloned().collect();
        all.extend(
            routes
                .filter(|route| route["destinationCidrBlock"] == THEIR_RANGE)
                .cloned(),
        );
        all
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.fake.fault_injector())
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        let codes = [
            "RequestLimitExceeded",
            "Throttling",
            "InternalError",
            "AuthFailure",
            "UnauthorizedOperation",
        ];
        Fault::of_list(route)
            .into_iter()
            .chain(codes.map(|code| Fault::code("", code)))
            .collect()
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::code(self.api().create, "TooManyLoadBalancers"))
    }
    fn protect(&self, is_protected: bool) -> bool {
        let mut cloud = self.fake.lock();
        for object in cloud.each(Kind::Network) {
            let attributes = object["_attributes"].as_array_mut().into_iter().flatten();
            let protection =
                attributes.filter(|attribute| attribute["Key"] == "deletion_protection.enabled");
            protection.for_each(|protection| protection["Value"] = is_protected.to_string().into());
        }
        self.kind == Kind::Network
    }
    fn tamper(&self) -> bool {
        let mut cloud = self.fake.lock();
        cloud
            .each(Kind::Classic)
            .iter_mut()
            .for_each(|object| object["ListenerDescriptions"] = json!([]));
        cloud.each(Kind::Listener).clear();
        cloud
            .each(Kind::TargetGroup)
            .iter_mut()
            .for_each(|object| object["LoadBalancerArns"] = json!([]));
        true
    }
    fn remove_load_balancers(&self) -> bool {
        self.tamper();
        let mut cloud = self.fake.lock();
        cloud.each(Kind::Classic).clear();
        cloud.each(Kind::Network).clear();
        true
    }

    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        self.fake
            .lock()
            .add_balancer(self.kind, &default_load_balancer_name(service));
        Some(Namesake::Refused)
    }
    /// A Service may ask for a load balancer of the other kind, which is then created.
    fn add_alternative(&self) -> Option<Value> {
        let other = if self.kind == Kind::Network {
            Kind::Classic
        } else {
            Kind::Network
        };
        Some(json!({"metadata": {"annotations": Self::annotations(other)}}))
    }

    fn tag_of_a_user(&self, key: &str, value: &str) -> Option<Value> {
        let annotation = "service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags";
        Some(json!({"metadata": {"annotations": {annotation: format!("team=web,{key}={value}")}}}))
    }
    fn setting_of_the_creation(&self) -> Option<Value> {
        let key = "service.beta.kubernetes.io/aws-load-balancer-internal";
        Some(json!({"metadata": {"annotations": {key: "true"}}}))
    }

    fn prepare(&mut self, _machines: usize) {
        let mut cloud = self.fake.lock();
        (cloud.page, cloud.limits) = (1000, [(1_000_000, 1); 2]);
        // Reads until load balancers are active depend on time alone.
        cloud.provisioning = Duration::ZERO;
    }
    /// A classic load balancer and its security group are created, completed and filled one after the other; a network load
    /// balancer also has a target group and a listener for each port. A security group cannot be deleted while the load balancer
    /// that had it is detached, and is tried again until then.
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        let [created, joined, deleted] = if self.kind == Kind::Network {
            [13, 3, 8]
        } else {
            [8, 1, 5]
        };
        let reads = if self.kind == Kind::Network { 12 } else { 4 };
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 20,
            },
            created: Limit {
                changes: created * SERVICES,
                reads: 2 * reads * SERVICES,
            },
            // The first three network load balancers are created within the burst of the budget, and a minute old when all of them
            // are there: one list for all, and ten reads for each of the three.
            unchanged: Limit {
                changes: 0,
                reads: if self.kind == Kind::Network {
                    SERVICES
                } else {
                    0
                },
            },
            steady: Limit {
                changes: 0,
                reads: 30,
            },
            not_ready: Limit {
                changes: 0,
                reads: 260,
            },
            joined: Limit {
                changes: joined * SERVICES + 2,
                reads: 2 * reads * SERVICES,
            },
            deleted: Limit {
                changes: deleted * SERVICES,
                reads: 2 * reads * SERVICES,
            },
        }
    }
}
