//! Tencent Cloud, as the conformance suite needs it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ccm_conformance::json::{comparable, number, same_targets};
pub(crate) use ccm_conformance::json::{list, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, ProgramSettings, RouteFacts,
};
use cloud_provider::{CloudProvider, ConfigFile, Fence, Setup};
use provider_kit::transport::in_process;
use provider_tencent::{NAME, Tencent};
use serde_json::{Value, json};
use tencent_fake::{
    ACCOUNT, Fault, Handle, KEY_ID, REGION, SECRET, TABLE, VPC, World, is_narrow, rest, router,
};
use tower::{ServiceExt, service_fn};

/// The account of others.
const OTHERS: &str = "100007654321";
/// The name of their load balancers, and the range of their route.
const THEIRS: &str = "theirs";
const THEIR_RANGE: &str = "192.0.2.0/24";
/// Pods are in this range.
const POD_RANGE: &str = "10.244.";
/// The tag with the UID of a Service.
const OWNER: &str = "tke-lb-serviceuuid";

/// The fake cloud that the conformance suite runs against.
#[derive(Clone)]
pub(crate) struct TencentCloud {
    pub(crate) fake: Handle<World>,
}

impl Default for TencentCloud {
    fn default() -> Self {
        Self {
            fake: Handle::new(World::default()),
        }
    }
}

/// Returns the cloud configuration for the API at this URL.
pub(crate) fn cloud_config(url: &str) -> String {
    json!({"region": REGION, "vpc_id": VPC, "secret_id": KEY_ID, "secret_key": SECRET, "cluster_route_table": TABLE,
        "endpoint_domain": url, "metadata_endpoint": url})
    .to_string()
}

pub(crate) fn provider_id(instance: &Value) -> String {
    format!(
        "{NAME}:///{}/{}",
        text(&instance["Placement"]["Zone"]),
        text(&instance["InstanceId"])
    )
}

fn machine_of(cloud: &World, fits: impl Fn(&Value) -> bool, else_text: &Value) -> String {
    cloud
        .all("instance")
        .iter()
        .find(|object| fits(object))
        .map_or_else(|| format!("nobody at {else_text}"), provider_id)
}

fn facts(cloud: &World, entry: &Value) -> LoadBalancerFacts {
    let mut ports = BTreeSet::new();
    let mut sets = BTreeSet::new();
    for listener in cloud
        .all("listener")
        .iter()
        .filter(|listener| listener["_balancer"] == entry["LoadBalancerId"])
    {
        let targets: Vec<_> = list(&listener["Targets"]).collect();
        let node_port = targets
            .first()
            .map_or(0, |targets| number(&targets["Port"]));
        let protocol = if listener["Protocol"] == "UDP" {
            "UDP"
        } else {
            "TCP"
        };
        ports.insert((number(&listener["Port"]), protocol.to_owned(), node_port));
        let machine = |object: &&Value| {
            machine_of(
                cloud,
                |machine| machine["InstanceId"] == object["InstanceId"],
                &object["InstanceId"],
            )
        };
        sets.insert(targets.iter().map(machine).collect::<BTreeSet<_>>());
    }
    let targets = same_targets(sets);
    let is_ready = entry["Status"] != 0;
    let address = entry["LoadBalancerVips"][0]
        .as_str()
        .map(str::to_owned)
        .filter(|_| is_ready);
    let owner = list(&entry["Tags"])
        .find(|tag| tag["TagKey"] == OWNER)
        .map(|tag| text(&tag["TagValue"]));
    LoadBalancerFacts {
        service_uid: owner,
        address,
        ports,
        targets,
    }
}

/// The fields of objects that differ from run to run and concern nobody.
const LEFT_OUT: &[&str] = &["RequestId", "RegisteredTime"];

impl TencentCloud {
    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        let mut cloud = self.fake.lock();
        cloud
            .each("instance")
            .iter_mut()
            .filter(|instance| instance["InstanceName"] == name)
            .for_each(change);
    }
}

/// Adds a load balancer that a user has created, and returns its ID.
pub(crate) fn add_balancer(cloud: &mut World, name: &str) -> String {
    let number = cloud.number();
    let id = format!("lb-t{number:07}");
    cloud.add(
        "balancer",
        json!({"LoadBalancerId": id, "LoadBalancerName": name, "LoadBalancerType": "OPEN", "Forward": 1,
        "Status": 1, "LoadBalancerVips": [format!("198.19.0.{number}")], "VpcId": VPC, "Tags": [], "SecureGroups": [],
        "AttributeFlags": [], "Domain": "", "LoadBalancerPassToTarget": false, "AddressIPVersion": "ipv4"}),
    );
    id
}

impl CloudProfile for TencentCloud {
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
        ApiRequests {
            machines: "GET /cvm/DescribeInstances",
            load_balancers: "GET /clb/DescribeLoadBalancers",
            create: "POST /clb/CreateLoadBalancer",
            polls: &[
                "GET /clb/DescribeTaskStatus",
                "GET /clb/DescribeLoadBalancers/some",
            ],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 5,
            chaos_seeds: 20,
        }
    }

    fn router(&self) -> Router {
        router(&self.fake)
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let file = ConfigFile {
            path: "cloud-config".into(),
            text: cloud_config("http://tencent"),
        };
        let setup = Setup {
            fence: fence.clone(),
            ..Setup::of(file)
        };
        let connector = in_process(service_fn(
            move |request: http::Request<http_body_util::Full<bytes::Bytes>>| {
                let api = api.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let bytes = http_body_util::BodyExt::collect(body)
                        .await
                        .map(http_body_util::Collected::to_bytes);
                    let bytes = bytes.unwrap_or_default();
                    let is_narrow = is_narrow(&bytes);
                    api.oneshot(rest(
                        http::Request::from_parts(head, http_body_util::Full::new(bytes)),
                        is_narrow,
                    ))
                    .await
                }
            },
        ));
        Arc::new(Tencent::new(&setup, connector).expect("a configuration without mistakes"))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        ProgramSettings {
            environment: Vec::new(),
            cloud_config: Some(cloud_config(url)),
        }
    }

    fn add_machine(&self, name: &str) -> String {
        let mut cloud = self.fake.lock();
        let id = cloud.add_instance(ACCOUNT, name);
        machine_of(&cloud, |machine| machine["InstanceId"] == *id, &Value::Null)
    }
    fn stop(&self, name: &str) {
        self.change(name, |object| object["InstanceState"] = "STOPPED".into());
    }
    fn start(&self, name: &str) {
        self.change(name, |object| object["InstanceState"] = "RUNNING".into());
    }
    fn terminate(&self, name: &str) {
        self.fake
            .lock()
            .each("instance")
            .retain(|instance| instance["InstanceName"] != name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["InstanceName"]),
            provider_id: provider_id(object),
            is_stopped: object["InstanceState"] == "STOPPED",
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
        cloud
            .all("balancer")
            .iter()
            .map(|object| facts(&cloud, object))
            .collect()
    }
    fn leftovers(&self) -> Vec<String> {
        let served: Vec<_> = self
            .load_balancers()
            .into_iter()
            .filter_map(|facts| facts.service_uid)
            .collect();
        let cloud = self.fake.lock();
        let owner = |object: &Value| {
            list(&object["TagSet"])
                .find(|tag| tag["Key"] == OWNER)
                .map(|tag| text(&tag["Value"]))
        };
        let left = cloud
            .all("group")
            .iter()
            .filter(|object| owner(object).is_some_and(|uid| !served.contains(&uid)));
        left.map(|object| format!("left over: {}", object["SecurityGroupName"]))
            .collect()
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let cloud = self.fake.lock();
        let route = |object: &Value| {
            let destination = text(&object["DestinationCidrBlock"]);
            let has = |machine: &Value| {
                list(&machine["PrivateIpAddresses"]).any(|ip| *ip == object["GatewayIp"])
            };
            RouteFacts {
                is_ours: destination.starts_with(POD_RANGE),
                target: machine_of(&cloud, has, &object["GatewayIp"]),
                destination,
            }
        };
        cloud.all("route").iter().map(route).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        ["balancer", "listener", "group", "route"]
            .into_iter()
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
            aliases.push((
                text(&other_instance["PrivateIpAddresses"][0]),
                format!("<address of {name}>"),
            ));
            aliases.push((
                text(&other_instance["PublicIpAddresses"][0]),
                format!("<public address of {name}>"),
            ));
        }
        for current in cloud.all("balancer") {
            let name = text(&current["LoadBalancerName"]);
            aliases.push((
                text(&current["LoadBalancerId"]),
                format!("<load balancer {name}>"),
            ));
            aliases.push((
                text(&current["LoadBalancerVips"][0]),
                format!("<VIP of {name}>"),
            ));
        }
        for entry in cloud.all("listener") {
            aliases.push((
                text(&entry["ListenerId"]),
                format!(
                    "<listener {} of {}>",
                    entry["Port"],
                    text(&entry["_balancer"])
                ),
            ));
        }
        for object in cloud.all("group") {
            aliases.push((
                text(&object["SecurityGroupId"]),
                format!("<group {}>", text(&object["SecurityGroupName"])),
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
        let mut cloud = self.fake.lock();
        let id = add_balancer(&mut cloud, THEIRS);
        let listener = format!("lbl-t{:07}", cloud.number());
        cloud.add(
            "listener",
            json!({"ListenerId": listener, "_balancer": id, "Protocol": "TCP",
            "Port": 80, "ListenerName": THEIRS, "Targets": []}),
        );
        let gateway = cloud
            .all("instance")
            .first()
            .map(|object| object["PrivateIpAddresses"][0].clone());
        cloud.add("route", json!({"RouteTableName": TABLE, "DestinationCidrBlock": THEIR_RANGE, "GatewayIp": gateway}));
    }
    fn things_of_others(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let named = |object: &&Value| {
            object["LoadBalancerName"] == THEIRS || object["ListenerName"] == THEIRS
        };
        let all = ["balancer", "listener"]
            .into_iter()
            .flat_map(|kind| cloud.all(kind))
            .filter(named);
        let routes = cloud
            .all("route")
            .iter()
            .filter(|object| object["DestinationCidrBlock"] == THEIR_RANGE);
        all.chain(routes).cloned().collect()
    }

    fn add_twins(&self) -> bool {
        let mut cloud = self.fake.lock();
        for object in cloud.all("balancer").to_vec() {
            let number = cloud.number();
            let mut twin = object.clone();
            twin["LoadBalancerId"] = format!("lb-a{number:07}").into();
            twin["LoadBalancerVips"] = json!([format!("198.19.1.{number}")]);
            for mut listener in cloud.matching("listener", |listener| {
                listener["_balancer"] == object["LoadBalancerId"]
            }) {
                listener["_balancer"] = twin["LoadBalancerId"].clone();
                listener["ListenerId"] = format!("lbl-a{:07}", cloud.number()).into();
                cloud.add("listener", listener);
            }
            cloud.add("balancer", twin);
        }
        true
    }
    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.fake.fault_injector())
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        let codes = [
            "RequestLimitExceeded",
            "InternalError",
            "AuthFailure.SignatureFailure",
            "UnauthorizedOperation",
        ];
        Fault::of_list(route)
            .into_iter()
            .chain(codes.map(|code| Fault::code("", code)))
            .collect()
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::code(self.api().create, "LimitExceeded"))
    }
    fn protect(&self, is_protected: bool) -> bool {
        let flags = if is_protected {
            json!(["DeleteProtect"])
        } else {
            json!([])
        };
        self.fake
            .lock()
            .each("balancer")
            .iter_mut()
            .for_each(|balancer| balancer["AttributeFlags"] = flags.clone());
        true
    }
    fn tamper(&self) -> bool {
        self.fake.lock().each("listener").clear();
        true
    }
    fn remove_load_balancers(&self) -> bool {
        self.tamper();
        self.fake.lock().each("balancer").clear();
        true
    }
    fn add_alternative(&self) -> Option<Value> {
        let id = add_balancer(&mut self.fake.lock(), "alternative");
        Some(json!({"metadata": {"annotations": {"service.kubernetes.io/tke-existed-lbid": id}}}))
    }

    fn prepare(&mut self, _machines: usize) {
        let mut cloud = self.fake.lock();
        cloud.limit = 1_000_000;
        cloud.task = Duration::ZERO;
    }
    /// A load balancer, its listeners and their targets are three changes, each with a task that is polled. Searches and
    /// reads by ID share requests.
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 12,
            },
            created: Limit {
                changes: 3 * SERVICES,
                reads: 8 * SERVICES,
            },
            unchanged: Limit {
                changes: 0,
                reads: 3 * SERVICES,
            },
            steady: Limit {
                changes: 0,
                reads: 60,
            },
            // The Nodes are three pages, which are read at most every five seconds.
            not_ready: Limit {
                changes: 0,
                reads: 3 * 125,
            },
            joined: Limit {
                changes: SERVICES,
                reads: 8 * SERVICES,
            },
            deleted: Limit {
                changes: SERVICES,
                reads: 5 * SERVICES,
            },
        }
    }
}
