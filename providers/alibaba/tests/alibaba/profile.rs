//! Alibaba Cloud, as the proofs need it: the provider over a fake of the APIs, with classic or with network load balancers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use alibaba_fake::{ACCOUNT, CLUSTER, Fault, Handle, KEY_ID, REGION, SECRET, VPC, World, rest};
use axum::Router;
use ccm_conformance::json::{comparable, list, number, same_targets, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings, RouteFacts,
};
use cloud_provider::{
    CloudProvider, ConfigFile, Environment, Fence, Service, Setup, default_load_balancer_name,
};
use provider_alibaba::{Alibaba, NAME};
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

/// The account of others.
const OTHERS: &str = "5555666677778888";
/// The name of their load balancers, and the range of their route.
const THEIRS: &str = "theirs";
const THEIR_RANGE: &str = "192.0.2.0/24";
/// The tag with the UID of a Service.
const OWNER: &str = "ccm-rs/service";
const PREFIX: &str = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-";
/// Pods are in this range.
const POD_RANGE: &str = "10.244.";

/// A region in which Services get load balancers of one kind.
#[derive(Clone)]
pub(crate) struct AlibabaCloud {
    /// The cloud and its state.
    pub(crate) fake: Handle<World>,
    is_network: bool,
}

impl AlibabaCloud {
    /// Makes a cloud whose Services get classic load balancers.
    #[must_use]
    pub(crate) fn classic() -> Self {
        Self {
            fake: Handle::new(World::default()),
            is_network: false,
        }
    }

    /// Makes a cloud whose Services get network load balancers.
    #[must_use]
    pub(crate) fn network() -> Self {
        Self {
            is_network: true,
            ..Self::classic()
        }
    }

    /// The annotations of Services that ask for load balancers of this kind; `null` removes one.
    fn annotations(is_network: bool) -> Value {
        let zones = format!("{REGION}-a:vsw-a,{REGION}-b:vsw-b");
        match is_network {
            true => json!({format!("{PREFIX}type"): "nlb", format!("{PREFIX}zone-maps"): zones}),
            false => json!({format!("{PREFIX}type"): null, format!("{PREFIX}zone-maps"): null}),
        }
    }

    fn kind(is_network: bool) -> &'static str {
        if is_network { "network" } else { "classic" }
    }

    /// The file of the cloud configuration, without keys.
    #[must_use]
    pub(crate) fn cloud_config() -> String {
        json!({"Global": {"clusterID": CLUSTER, "region": REGION, "vpcid": VPC, "vswitchid": format!("{REGION}-a:vsw-a"),
            "routeTableIDs": "vtb-main", "featureGates": "LoadBalancerTypeAnnotation=true"}})
        .to_string()
    }

    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        let mut cloud = self.fake.lock();
        cloud
            .each("instance")
            .iter_mut()
            .filter(|instance| instance["InstanceName"] == name)
            .for_each(change);
    }

    fn add_balancer(&self, is_network: bool, name: &str) {
        let mut cloud = self.fake.lock();
        let number = cloud.number();
        let object = match is_network {
            true => {
                json!({"LoadBalancerId": format!("nlb-{number}"), "LoadBalancerName": name, "LoadBalancerStatus": "Active",
                "DNSName": format!("nlb-{number}.example.com"), "Tags": [], "ZoneMappings": []})
            }
            false => {
                json!({"LoadBalancerId": format!("lb-{number}"), "LoadBalancerName": name, "LoadBalancerStatus": "active",
                "Address": format!("198.19.0.{number}"), "Tags": {"Tag": []}})
            }
        };
        cloud.add(Self::kind(is_network), object);
    }
}

fn tag(object: &Value, key: &str) -> Option<String> {
    let classic = list(&object["Tags"]["Tag"])
        .find(|tag| tag["TagKey"] == key)
        .map(|tag| text(&tag["TagValue"]));
    classic.or_else(|| {
        list(&object["Tags"])
            .find(|tag| tag["Key"] == key)
            .map(|tags| text(&tags["Value"]))
    })
}

fn provider_id(instance: &Value) -> String {
    format!(
        "{}.{}",
        text(&instance["RegionId"]),
        text(&instance["InstanceId"])
    )
}

fn machine_of(cloud: &World, id: &Value) -> String {
    let found = cloud
        .all("instance")
        .iter()
        .find(|object| object["InstanceId"] == *id);
    found.map_or_else(|| format!("nobody at {id}"), provider_id)
}

fn facts(cloud: &World, is_network: bool, entry: &Value) -> LoadBalancerFacts {
    let [listeners, groups, group_id] = match is_network {
        true => ["listener", "group", "ServerGroupId"],
        false => ["classic listener", "vgroup", "VServerGroupId"],
    };
    let mut ports = BTreeSet::new();
    let mut sets = BTreeSet::new();
    for listener in cloud
        .all(listeners)
        .iter()
        .filter(|listener| listener["LoadBalancerId"] == entry["LoadBalancerId"])
    {
        let group = cloud
            .all(groups)
            .iter()
            .find(|object| object[group_id] == listener[group_id])
            .unwrap_or(&Value::Null);
        let servers: Vec<_> = list(&group["_servers"])
            .chain(list(&group["BackendServers"]["BackendServer"]))
            .collect();
        let name = text(&group["VServerGroupName"]);
        let of_name = name
            .split('/')
            .nth(1)
            .and_then(|part| part.parse().ok())
            .unwrap_or_default();
        let node_port = servers
            .first()
            .map_or(of_name, |servers| number(&servers["Port"]));
        let is_udp = text(&listener["ListenerProtocol"]).eq_ignore_ascii_case("udp");
        let protocol = if is_udp { "UDP" } else { "TCP" };
        ports.insert((
            number(&listener["ListenerPort"]),
            protocol.to_owned(),
            node_port,
        ));
        sets.insert(
            servers
                .iter()
                .map(|server| machine_of(cloud, &server["ServerId"]))
                .collect::<BTreeSet<_>>(),
        );
    }
    let targets = same_targets(sets);
    let address = entry[if is_network { "DNSName" } else { "Address" }]
        .as_str()
        .map(str::to_owned);
    LoadBalancerFacts {
        service_uid: tag(entry, OWNER),
        address,
        ports,
        targets,
    }
}

/// The fields of objects that differ from run to run and concern nobody.
const LEFT_OUT: &[&str] = &["_job", "LoadBalancerStatus", "JobId"];

const KINDS: [&str; 9] = [
    "classic",
    "vgroup",
    "classic listener",
    "network",
    "group",
    "listener",
    "security group",
    "route",
    "table",
];

impl CloudProfile for AlibabaCloud {
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
        let [load_balancers, create] = match self.is_network {
            true => ["GET /nlb/ListLoadBalancers", "POST /nlb/CreateLoadBalancer"],
            false => [
                "GET /slb/DescribeLoadBalancers",
                "POST /slb/CreateLoadBalancer",
            ],
        };
        ApiRequests {
            machines: "GET /ecs/DescribeInstances",
            load_balancers,
            create,
            polls: &["GET /nlb/ListAsynJobs"],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 5,
            chaos_seeds: 20,
        }
    }

    fn router(&self) -> Router {
        alibaba_fake::router(&self.fake)
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let file = ConfigFile {
            path: "cloud-config".into(),
            text: Self::cloud_config(),
        };
        let variables = [
            ("ACCESS_KEY_ID", KEY_ID),
            ("ACCESS_KEY_SECRET", SECRET),
            ("ALICLOUD_CLIENT_SCHEME", "HTTP"),
        ];
        let setup = Setup {
            environment: Environment::of(variables),
            fence: fence.clone(),
            ..Setup::of(file)
        };
        let provider = Alibaba::new(&setup, move |http| {
            let api = api.clone();
            http.service(service_fn(move |request| {
                let api = api.clone();
                async move { api.oneshot(rest(request).await).await }
            }))
        });
        Arc::new(provider.expect("a configuration without mistakes"))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let endpoints = [
            "ECS_ENDPOINT",
            "SLB_ENDPOINT",
            "NLB_ENDPOINT",
            "VPC_ENDPOINT",
            "METADATA_ENDPOINT",
        ];
        let keys = [
            ("ACCESS_KEY_ID", KEY_ID),
            ("ACCESS_KEY_SECRET", SECRET),
            ("ALICLOUD_CLIENT_SCHEME", "HTTP"),
        ];
        let all = endpoints.map(|name| (name, url)).into_iter().chain(keys);
        let environment = all
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        ProgramSettings {
            environment,
            cloud_config: Some(Self::cloud_config()),
        }
    }

    fn has_session_affinity(&self) -> bool {
        false
    }
    fn service_annotations(&self) -> Value {
        if self.is_network {
            Self::annotations(true)
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
        self.change(name, |object| object["Status"] = "Stopped".into());
    }
    fn start(&self, name: &str) {
        self.change(name, |object| object["Status"] = "Running".into());
    }
    fn terminate(&self, name: &str) {
        let mut cloud = self.fake.lock();
        cloud
            .each("instance")
            .retain(|instance| instance["InstanceName"] != name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["InstanceName"]),
            provider_id: provider_id(object),
            is_stopped: object["Status"] == "Stopped",
        };
        let cloud = self.fake.lock();
        cloud
            .all("instance")
            .iter()
            .filter(|object| object["_account"] == ACCOUNT)
            .map(machine)
            .collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        let cloud = self.fake.lock();
        let all = cloud
            .all("classic")
            .iter()
            .map(|object| facts(&cloud, false, object));
        all.chain(
            cloud
                .all("network")
                .iter()
                .map(|object| facts(&cloud, true, object)),
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
        let is_left =
            |object: &&Value| tag(object, OWNER).is_some_and(|uid| !served.contains(&uid));
        cloud
            .all("group")
            .iter()
            .filter(is_left)
            .map(|object| format!("left over: {}", object["ServerGroupName"]))
            .collect()
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let cloud = self.fake.lock();
        let facts = |object: &Value| {
            let destination = text(&object["DestinationCidrBlock"]);
            RouteFacts {
                is_ours: destination.starts_with(POD_RANGE),
                target: machine_of(&cloud, &object["NextHops"]["NextHop"][0]["NextHopId"]),
                destination,
            }
        };
        cloud.all("route").iter().map(facts).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let kinds = KINDS.into_iter().filter(|kind| *kind != "table");
        kinds
            .flat_map(|kind| cloud.all(kind))
            .map(|object| comparable(object, LEFT_OUT))
            .collect()
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.fake.lock();
        let mut aliases = Vec::new();
        for other_instance in cloud.all("instance") {
            let name = text(&other_instance["InstanceName"]);
            aliases.push((
                text(&other_instance["InstanceId"]),
                format!("<instance {name}>"),
            ));
        }
        for other_classic in cloud.all("classic").iter().chain(cloud.all("network")) {
            let name = text(&other_classic["LoadBalancerName"]);
            for key in ["LoadBalancerId", "DNSName", "Address"]
                .into_iter()
                .filter(|key| other_classic[*key].is_string())
            {
                aliases.push((text(&other_classic[key]), format!("<{key} of {name}>")));
            }
        }
        for (kind, id, name) in [
            ("vgroup", "VServerGroupId", "VServerGroupName"),
            ("group", "ServerGroupId", "ServerGroupName"),
        ] {
            for current in cloud.all(kind) {
                aliases.push((
                    text(&current[id]),
                    format!("<group {}>", text(&current[name])),
                ));
            }
        }
        for entry in cloud.all("listener") {
            aliases.push((
                text(&entry["ListenerId"]),
                format!("<listener {}>", text(&entry["ListenerDescription"])),
            ));
        }
        for object in cloud.all("route") {
            aliases.push((
                text(&object["RouteEntryId"]),
                format!("<route {}>", text(&object["DestinationCidrBlock"])),
            ));
        }
        aliases
    }

    fn confuse(&self, is_confused: bool) {
        self.fake.lock().account = if is_confused { OTHERS } else { ACCOUNT };
    }
    fn add_machine_of_others(&self, name: &str) {
        self.fake.lock().add_instance(OTHERS, name);
    }
    fn leave_things_of_others(&self) {
        self.add_balancer(false, THEIRS);
        self.add_balancer(true, THEIRS);
        let mut cloud = self.fake.lock();
        let hop = cloud
            .all("instance")
            .first()
            .map(|object| object["InstanceId"].clone());
        cloud.add(
            "route",
            json!({"RouteTableId": "vtb-main", "DestinationCidrBlock": THEIR_RANGE, "RouteEntryId": "rte-theirs",
            "Type": "Custom", "NextHops": {"NextHop": [{"NextHopId": hop, "NextHopType": "Instance"}]}}),
        );
        let number = cloud.number();
        for balancer in cloud.all("classic").to_vec() {
            let id = &balancer["LoadBalancerId"];
            cloud.add(
                "vgroup",
                json!({"VServerGroupId": format!("rsp-theirs-{number}-{}", text(id)), "LoadBalancerId": id,
                "VServerGroupName": THEIRS, "BackendServers": {"BackendServer": []}}),
            );
        }
    }
    fn things_of_others(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let all = ["classic", "network", "vgroup"]
            .into_iter()
            .flat_map(|kind| cloud.all(kind));
        let named = all.filter(|object| {
            object["LoadBalancerName"] == THEIRS || object["VServerGroupName"] == THEIRS
        });
        let routes = cloud
            .all("route")
            .iter()
            .filter(|object| object["DestinationCidrBlock"] == THEIR_RANGE);
        named.chain(routes).cloned().collect()
    }

    fn add_twins(&self) -> bool {
        let mut cloud = self.fake.lock();
        for object in cloud.all("classic").to_vec() {
            let number = cloud.number();
            let mut twin = object.clone();
            let id = format!("lb-a{number}");
            (twin["LoadBalancerId"], twin["Address"]) =
                (id.clone().into(), format!("198.19.1.{number}").into());
            let group = format!("rsp-a{number}");
            for kind in ["vgroup", "classic listener"] {
                for mut part in cloud.matching(kind, |part| {
                    part["LoadBalancerId"] == object["LoadBalancerId"]
                }) {
                    (part["LoadBalancerId"], part["VServerGroupId"]) =
                        (id.clone().into(), group.clone().into());
                    cloud.add(kind, part);
                }
            }
            cloud.add("classic", twin);
        }
        !self.is_network
    }
    fn tag_of_a_user(&self, key: &str, value: &str) -> Option<Value> {
        let annotation = format!("{PREFIX}additional-resource-tags");
        Some(json!({"metadata": {"annotations": {annotation: format!("team=web,{key}={value}")}}}))
    }
    fn setting_of_the_creation(&self) -> Option<Value> {
        // The address type of an NLB is changed in place.
        let (setting, value) = if self.is_network {
            ("ip-version", "DualStack")
        } else {
            ("address-type", "intranet")
        };
        Some(json!({"metadata": {"annotations": {format!("{PREFIX}{setting}"): value}}}))
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.fake.fault_injector())
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        let codes = [
            "Throttling.User",
            "ServiceUnavailable",
            "InternalError",
            "SignatureDoesNotMatch",
            "Forbidden.RAM",
        ];
        Fault::of_list(route)
            .into_iter()
            .chain(codes.map(|code| Fault::code("", code)))
            .collect()
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::code(
            self.api().create,
            if self.is_network {
                "QuotaExceeded.LoadBalancersNum"
            } else {
                "QuotaExceeded"
            },
        ))
    }
    fn tamper(&self) -> bool {
        let mut cloud = self.fake.lock();
        cloud.each("classic listener").clear();
        cloud.each("listener").clear();
        true
    }
    fn remove_load_balancers(&self) -> bool {
        self.tamper();
        let mut cloud = self.fake.lock();
        ["classic", "vgroup", "network"]
            .into_iter()
            .for_each(|kind| cloud.each(kind).clear());
        true
    }

    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        self.add_balancer(self.is_network, &default_load_balancer_name(service));
        Some(Namesake::Refused)
    }
    /// A Service may ask for a load balancer of the other kind, which is then created.
    fn add_alternative(&self) -> Option<Value> {
        Some(json!({"metadata": {"annotations": Self::annotations(!self.is_network)}}))
    }

    fn prepare(&mut self, _machines: usize) {
        let mut cloud = self.fake.lock();
        cloud.limit = (1_000_000, 1);
        cloud.job = Duration::ZERO;
    }
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const PAGES: usize = 3;
        const SERVICES: usize = 40;
        let [created, joined, deleted] = if self.is_network {
            [20, 12, 8]
        } else {
            [40, 30, 3]
        };
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 20,
            },
            created: Limit {
                changes: created * SERVICES,
                reads: 2 * SERVICES,
            },
            unchanged: Limit {
                changes: 0,
                reads: 8 * SERVICES,
            },
            steady: Limit {
                changes: 0,
                reads: 60,
            },
            not_ready: Limit {
                changes: 0,
                reads: 122 * PAGES,
            },
            joined: Limit {
                changes: joined * SERVICES + 2,
                reads: 30 * SERVICES,
            },
            deleted: Limit {
                changes: deleted * SERVICES,
                reads: 30 * SERVICES,
            },
        }
    }
}
