//! mycloud, as the conformance suite needs it.

use std::sync::Arc;

use axum::Router;
use ccm_conformance::json::number;
pub(crate) use ccm_conformance::json::{list, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings, RouteFacts,
};
use cloud_provider::{CloudProvider, ConfigFile, Fence, Service, Setup};
use fake_cloud::{Fault, Handle};
use provider_mycloud::config::Config;
use provider_mycloud::{Mycloud, NAME};
use serde_json::{Value, json};

use crate::fake::{self, ACCOUNT, REGION, TABLE, TOKEN};

/// The account of others.
const OTHERS: &str = "others";
/// The name of a load balancer, and the owner of a route, of others in our account.
const THEIRS: &str = "theirs";
const THEIR_RANGE: &str = "192.0.2.0/24";

/// The fake and its settings.
#[derive(Clone)]
pub(crate) struct MycloudCloud(pub(crate) Handle<fake::Mycloud>);

impl Default for MycloudCloud {
    fn default() -> Self {
        Self(Handle::new(fake::Mycloud::default()))
    }
}

/// Returns the configuration of the cluster "prod".
pub(crate) fn configuration(endpoint: &str) -> String {
    format!(
        "[Global]\nendpoint = {endpoint}\nregion = {REGION}\ncluster-id = prod\ntoken = {TOKEN}\n\
         [LoadBalancer]\nvpc-id = vpc-1\nsubnet-id = sn-1\n[Route]\nroute-table-id = {TABLE}\n"
    )
}

/// Returns the configuration in which all Nodes are backends, and the suite is not slowed down: the Nodes of the conformance
/// suite have no annotations.
fn with_all_nodes(endpoint: &str) -> String {
    configuration(endpoint)
        + "[Global]\nqps = 1000\nburst = 1000\n[LoadBalancerDefaults]\nbackend-selector = all\n"
}

/// Returns the set-up with this configuration.
pub(crate) fn setup(text: String) -> Setup {
    Setup::of(ConfigFile {
        path: "cloud.conf".to_owned(),
        text,
    })
}

fn provider_id(instance: &Value) -> String {
    format!("{NAME}://{REGION}/{}", text(instance))
}

fn facts(object: &Value) -> LoadBalancerFacts {
    let port = |listener: &Value| {
        let group = list(&object["groups"])
            .find(|group| group["id"] == listener["group_id"])
            .unwrap_or(&Value::Null);
        let node_port = list(&group["members"])
            .next()
            .map_or(&group["health_check"]["port"], |members| &members["port"]);
        let protocol = if listener["protocol"] == "udp" {
            "UDP"
        } else {
            "TCP"
        };
        (
            number(&listener["port"]),
            protocol.to_owned(),
            number(node_port),
        )
    };
    let members = list(&object["groups"]).flat_map(|group| list(&group["members"]));
    LoadBalancerFacts {
        service_uid: object["labels"]["ccm-rs/service"]
            .as_str()
            .map(str::to_owned),
        address: object["vips"][0]["address"].as_str().map(str::to_owned),
        ports: list(&object["listeners"]).map(port).collect(),
        targets: members
            .map(|member| provider_id(&member["instance_id"]))
            .collect(),
    }
}

impl MycloudCloud {
    pub(crate) fn add_instance(&self, account: &str, name: &str) -> String {
        let mut cloud = self.0.lock();
        let number = cloud.number();
        let high = number / 256;
        let low = number % 256;
        let id = format!("i-{number}");
        cloud.instances.push(json!({
            "id": id, "account": account, "hostname": name, "name": format!("vm-{number}"), "region": REGION,
            "zone": format!("{REGION}a"), "flavor": "c4.large", "status": "RUNNING",
            "labels": {"kubernetes.io/cluster-id": "prod"},
            "nics": [{"primary": true, "vpc_id": "vpc-1", "subnet_id": "sn-1", "ipv4": format!("10.0.{high}.{low}"),
                "ipv6": format!("2001:db8::{number:x}"), "eip": format!("198.51.{high}.{low}")}],
        }));
        provider_id(&id.into())
    }

    pub(crate) fn add_load_balancer(&self, name: &str) -> String {
        let mut cloud = self.0.lock();
        let number = cloud.number();
        let name = name.to_owned();
        let id = format!("dlb-{number}");
        cloud.load_balancers.push(json!({
            "id": id, "account": ACCOUNT, "name": name, "status": "ACTIVE", "labels": {"team": "db"}, "spec": "small",
            "network_type": "intranet", "vpc_id": "vpc-1", "subnet_id": "sn-1", "ip_family": "ipv4",
            "vips": [{"family": "ipv4", "address": format!("203.0.113.{number}")}],
            "listeners": [], "groups": [], "access_lists": [], "certificates": [],
        }));
        id
    }

    pub(crate) fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        self.0
            .lock()
            .instances
            .iter_mut()
            .filter(|instance| instance["hostname"] == name)
            .for_each(change);
    }

    pub(crate) fn change_all(&self, change: impl Fn(&mut Value)) -> bool {
        self.0.lock().load_balancers.iter_mut().for_each(change);
        true
    }
}

impl CloudProfile for MycloudCloud {
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
            machines: "GET /instances",
            load_balancers: "GET /loadbalancers",
            create: "POST /loadbalancers",
            polls: &["GET /tasks", "GET /loadbalancers/{id}"],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 3,
            chaos_seeds: 40,
        }
    }

    fn router(&self) -> Router {
        self.0.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let (config, http) =
            Config::read(&setup(with_all_nodes("http://mycloud"))).expect("a valid configuration");
        Arc::new(
            Mycloud::new(config, http.fence(fence.clone()).service(api)).expect("a valid address"),
        )
    }
    fn program(&self, url: &str) -> ProgramSettings {
        ProgramSettings {
            cloud_config: Some(with_all_nodes(url)),
            ..ProgramSettings::default()
        }
    }

    fn add_machine(&self, name: &str) -> String {
        self.add_instance(ACCOUNT, name)
    }
    fn stop(&self, name: &str) {
        self.change(name, |object| object["status"] = "STOPPED".into());
    }
    fn start(&self, name: &str) {
        self.change(name, |object| object["status"] = "RUNNING".into());
    }
    fn terminate(&self, name: &str) {
        self.0
            .lock()
            .instances
            .retain(|instance| instance["hostname"] != name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["hostname"]),
            provider_id: provider_id(&object["id"]),
            is_stopped: object["status"] == "STOPPED",
        };
        self.0
            .lock()
            .instances
            .iter()
            .filter(|instance| instance["account"] == ACCOUNT)
            .map(machine)
            .collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        self.0.lock().load_balancers.iter().map(facts).collect()
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let facts = |object: &Value| RouteFacts {
            destination: text(&object["destination"]),
            target: provider_id(&object["next_hop_id"]),
            is_ours: object["owner"] == "k8s:prod",
        };
        self.0.lock().routes.iter().map(facts).collect()
    }
    /// Parts are in the order of their ports, and members in the order of their addresses.
    fn objects(&self) -> Vec<Value> {
        let cloud = self.0.lock();
        let mut balancers = cloud.load_balancers.clone();
        for balancer in &mut balancers {
            for group in balancer["groups"].as_array_mut().into_iter().flatten() {
                sort(&mut group["members"], "address");
            }
            sort(&mut balancer["groups"], "name");
            sort(&mut balancer["listeners"], "port");
        }
        balancers.into_iter().chain(cloud.routes.clone()).collect()
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.0.lock();
        let mut aliases = Vec::new();
        let mut add = |value: &Value, alias: String| {
            aliases.extend(value.as_str().map(|text| (text.to_owned(), alias)));
        };
        for entry in &cloud.instances {
            let name = text(&entry["hostname"]);
            add(&entry["id"], format!("<instance {name}>"));
            for field in ["ipv4", "ipv6", "eip"] {
                add(&entry["nics"][0][field], format!("<{field} of {name}>"));
            }
        }
        for load_balancer in &cloud.load_balancers {
            let name = text(&load_balancer["name"]);
            add(&load_balancer["id"], format!("<load balancer {name}>"));
            list(&load_balancer["vips"])
                .for_each(|vip| add(&vip["address"], format!("<{} of {name}>", vip["family"])));
            list(&load_balancer["groups"])
                .for_each(|part| add(&part["id"], format!("<group {} of {name}>", part["name"])));
            list(&load_balancer["listeners"]).for_each(|part| {
                add(
                    &part["id"],
                    format!("<listener {}/{} of {name}>", part["port"], part["protocol"]),
                );
            });
            list(&load_balancer["access_lists"])
                .for_each(|part| add(&part["id"], format!("<access list of {name}>")));
        }
        for object in &cloud.routes {
            add(&object["id"], format!("<route {}>", object["destination"]));
        }
        aliases
    }

    fn confuse(&self, is_confused: bool) {
        self.0.lock().account = if is_confused { OTHERS } else { ACCOUNT };
    }
    fn add_machine_of_others(&self, name: &str) {
        self.add_instance(OTHERS, name);
    }
    fn leave_things_of_others(&self) {
        self.add_load_balancer(THEIRS);
        let mut cloud = self.0.lock();
        let route = json!({"id": "r-0", "account": ACCOUNT, "destination": THEIR_RANGE, "next_hop_type": "instance",
            "next_hop_id": cloud.instances[0]["id"], "owner": THEIRS, "description": ""});
        cloud.routes.push(route);
    }
    fn things_of_others(&self) -> Vec<Value> {
        self.objects()
            .into_iter()
            .filter(|object| object["name"] == THEIRS || object["owner"] == THEIRS)
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.0.fault_injector())
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::code("POST /loadbalancers", "QuotaExceeded"))
    }
    fn tamper(&self) -> bool {
        self.change_all(|object| object["listeners"] = json!([]))
    }
    fn remove_load_balancers(&self) -> bool {
        self.0.lock().load_balancers.clear();
        true
    }
    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        let meta = &service.metadata;
        self.add_load_balancer(&format!(
            "prod-{}-{}",
            meta.namespace.as_deref()?,
            meta.name.as_deref()?
        ));
        Some(Namesake::Refused)
    }
    fn add_alternative(&self) -> Option<Value> {
        let prefix = "service.beta.kubernetes.io/dlb-";
        let id = self.add_load_balancer("alternative");
        Some(
            json!({"metadata": {"annotations": {format!("{prefix}id"): id, format!("{prefix}adopt"): "true"}}}),
        )
    }

    fn add_twins(&self) -> bool {
        let mut cloud = self.0.lock();
        for mut twin in cloud.load_balancers.clone() {
            let number = cloud.number();
            (twin["id"], twin["key"]) = (format!("dlb-{number}").into(), Value::Null);
            twin["vips"] = json!([{"family": "ipv4", "address": format!("203.0.113.{number}")}]);
            cloud.load_balancers.push(twin);
        }
        true
    }
    fn setting_of_the_creation(&self) -> Option<Value> {
        let key = "service.beta.kubernetes.io/dlb-network-type";
        Some(json!({"metadata": {"annotations": {key: "internet"}}}))
    }

    fn change_addresses(&self, name: &str, internal: &str, external: &str) -> bool {
        self.change(name, |object| {
            (object["nics"][0]["ipv4"], object["nics"][0]["eip"]) =
                (internal.into(), external.into());
        });
        true
    }
    /// Returns the limits of requests. A load balancer with two ports is created by requests for itself, and for a
    /// group, its members and a listener of each port, after two lists, by label and by name.
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        const PAGES: usize = NODES.div_ceil(100);
        const CHANGES: usize = 1 + 2 * (2 + PAGES);
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 4 * PAGES,
            },
            created: Limit {
                changes: CHANGES * SERVICES,
                reads: 2 * SERVICES + PAGES,
            },
            unchanged: Limit {
                changes: 0,
                reads: 0,
            },
            steady: Limit {
                changes: 0,
                reads: 2 * PAGES,
            },
            not_ready: Limit {
                changes: 0,
                reads: 122 * PAGES,
            },
            joined: Limit {
                changes: 2 * SERVICES,
                reads: PAGES + 5,
            },
            deleted: Limit {
                changes: SERVICES,
                reads: SERVICES + PAGES,
            },
        }
    }
}

/// Sorts a list by a field of its items.
fn sort(list: &mut Value, field: &str) {
    if let Some(list) = list.as_array_mut() {
        list.sort_by_cached_key(|object| (object[field].as_u64(), object[field].to_string()));
    }
}
