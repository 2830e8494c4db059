//! Linode, as the conformance suite needs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
pub(crate) use ccm_conformance::json::{list, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, ProgramSettings, RouteFacts,
};
use cloud_provider::{CloudProvider, Environment, Fence, Setup};
use provider_linode::config::Config;
use provider_linode::{Linode, NAME, cloud};
use serde_json::{Value, json};

use linode_fake::{ACCOUNT, Fault, Handle, Linodes, TOKEN};

/// The account of others.
const OTHERS: &str = "others";
/// The label of a NodeBalancer of others in our account.
const THEIRS: &str = "theirs";

/// The fake and its settings.
#[derive(Clone)]
pub(crate) struct LinodeCloud {
    pub(crate) fake: Handle<Linodes>,
    flags: Vec<(&'static str, &'static str)>,
}

impl Default for LinodeCloud {
    fn default() -> Self {
        Self {
            fake: Handle::new(Linodes::default()),
            flags: Vec::new(),
        }
    }
}

fn provider_id(linode: &Value) -> String {
    format!("{NAME}://{}", linode["id"])
}

impl LinodeCloud {
    /// The same with routes, in a VPC.
    pub(crate) fn with_routes() -> Self {
        Self {
            flags: vec![
                ("--vpc-names", "pods"),
                ("--enable-route-controller", "true"),
            ],
            ..Self::default()
        }
    }

    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        self.fake
            .lock()
            .linodes
            .iter_mut()
            .filter(|linode| linode["label"] == name)
            .for_each(change);
    }

    fn facts(&self, object: &Value) -> LoadBalancerFacts {
        let cloud = self.fake.lock();
        let configs: Vec<_> = cloud
            .configs
            .iter()
            .filter(|config| config["nodebalancer_id"] == object["id"])
            .collect();
        let mut ports = BTreeSet::new();
        let mut targets = BTreeSet::new();
        for config in configs {
            let port = config["port"]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or_default();
            let protocol = if config["protocol"] == "udp" {
                "UDP"
            } else {
                "TCP"
            };
            let backends =
                list(&config["nodes"]).filter_map(|node| text(&node["address"]).parse().ok());
            let backends: Vec<std::net::SocketAddr> = backends.collect();
            ports.extend(
                backends
                    .first()
                    .map(|address| (port, protocol.to_owned(), address.port())),
            );
            for ip in backends.iter().map(|address| address.ip().to_string()) {
                let has = |linode: &&Value| {
                    list(&linode["ipv4"]).any(|ipv4| ipv4 == ip.as_str())
                        || linode["vpc"]["address"] == ip.as_str()
                };
                targets.extend(
                    cloud
                        .linodes
                        .iter()
                        .find(has)
                        .map(provider_id)
                        .or(Some(ip.clone())),
                );
            }
        }
        let owner = |tag: &Value| Some(text(tag).strip_prefix("ccmrs-service:")?.to_owned());
        LoadBalancerFacts {
            service_uid: list(&object["tags"]).find_map(owner),
            address: object["ipv4"].as_str().map(str::to_owned),
            ports,
            targets,
        }
    }
}

impl CloudProfile for LinodeCloud {
    fn name(&self) -> &'static str {
        NAME
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: !self.flags.is_empty(),
            accounts: true,
        }
    }
    fn api(&self) -> ApiRequests {
        ApiRequests {
            machines: "GET /linode/instances",
            load_balancers: "GET /nodebalancers",
            create: "POST /nodebalancers",
            polls: &[],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 3,
            chaos_seeds: 20,
        }
    }

    fn router(&self) -> Router {
        self.fake.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let variables = [
            ("LINODE_API_TOKEN", TOKEN),
            ("LINODE_REGION", "us-east"),
            ("LINODE_URL", "http://linode"),
        ];
        let environment = Environment::of(variables);
        let flags = Environment::of(self.flags.clone());
        let setup = Setup {
            environment,
            flags,
            fence: fence.clone(),
            ..Setup::default()
        };
        let config = Config::read(&setup).expect("a valid configuration");
        let lists = cloud(&config, &setup)
            .service(api.clone())
            .build()
            .expect("a valid address");
        let http = cloud(&config, &setup)
            .service(api)
            .build()
            .expect("a valid address");
        Arc::new(Linode::new(config, http, lists))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let variables = [
            ("LINODE_API_TOKEN", TOKEN),
            ("LINODE_REGION", "us-east"),
            ("LINODE_URL", url),
        ];
        let environment = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        ProgramSettings {
            environment,
            cloud_config: None,
        }
    }

    fn add_machine(&self, name: &str) -> String {
        format!("{NAME}://{}", self.fake.lock().add_linode(ACCOUNT, name))
    }
    fn stop(&self, name: &str) {
        self.change(name, |object| object["status"] = "offline".into());
    }
    fn start(&self, name: &str) {
        self.change(name, |object| object["status"] = "running".into());
    }
    fn terminate(&self, name: &str) {
        self.fake
            .lock()
            .linodes
            .retain(|linode| linode["label"] != name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["label"]),
            provider_id: provider_id(object),
            is_stopped: object["status"] == "offline",
        };
        self.fake
            .lock()
            .linodes
            .iter()
            .filter(|linode| linode["account"] == ACCOUNT)
            .map(machine)
            .collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        let all = self.fake.lock().nodebalancers.clone();
        all.iter().map(|object| self.facts(object)).collect()
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let cloud = self.fake.lock();
        let of = |linode: &Value| {
            let target = provider_id(linode);
            let route = |object: &Value| RouteFacts {
                destination: text(object),
                target: target.clone(),
                is_ours: true,
            };
            list(&linode["vpc"]["ranges"])
                .map(route)
                .collect::<Vec<_>>()
        };
        cloud.linodes.iter().flat_map(of).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let mut configs = cloud.configs.clone();
        for config in &mut configs {
            config["id"] = Value::Null;
            for node in config["nodes"].as_array_mut().into_iter().flatten() {
                node["id"] = Value::Null;
            }
            config["nodes"]
                .as_array_mut()
                .into_iter()
                .for_each(|all| all.sort_by_key(ToString::to_string));
        }
        configs.sort_by_key(|config| (config["nodebalancer_id"].as_u64(), config["port"].as_u64()));
        let mut nodebalancers = cloud.nodebalancers.clone();
        for nodebalancer in &mut nodebalancers {
            nodebalancer["tags"]
                .as_array_mut()
                .into_iter()
                .for_each(|all| all.sort_by_key(ToString::to_string));
        }
        let ranges = cloud
            .linodes
            .iter()
            .map(|linode| linode["vpc"]["ranges"].clone())
            .filter(|ranges| ranges != &json!([]));
        [
            nodebalancers,
            configs,
            cloud.firewalls.clone(),
            ranges.collect(),
        ]
        .concat()
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.fake.lock();
        let mut aliases = Vec::new();
        for linode in &cloud.linodes {
            let label = text(&linode["label"]);
            aliases.push((linode["id"].to_string(), format!("<Linode {label}>")));
            aliases.extend(
                list(&linode["ipv4"])
                    .enumerate()
                    .map(|(at, ip)| (text(ip), format!("<address {at} of {label}>"))),
            );
            aliases.push((
                text(&linode["vpc"]["address"]),
                format!("<VPC address of {label}>"),
            ));
            aliases.push((
                text(&linode["vpc"]["ipv6"]).replace("::/64", "::5"),
                format!("<VPC IPv6 address of {label}>"),
            ));
        }
        for nodebalancer in &cloud.nodebalancers {
            let uid = |tag: &Value| Some(text(tag).strip_prefix("ccmrs-service:")?.to_owned());
            let owner = list(&nodebalancer["tags"])
                .find_map(uid)
                .unwrap_or_else(|| text(&nodebalancer["label"]));
            aliases.push((
                nodebalancer["id"].to_string(),
                format!("<NodeBalancer of {owner}>"),
            ));
            let keys = ["label", "ipv4", "ipv6", "hostname"];
            aliases.extend(
                keys.map(|key| (text(&nodebalancer[key]), format!("<{key} of {owner}>")))
                    .into_iter()
                    .filter(|(text, _)| *text != owner),
            );
        }
        aliases
    }

    fn confuse(&self, is_confused: bool) {
        self.fake.lock().account = if is_confused { OTHERS } else { ACCOUNT };
    }
    fn add_machine_of_others(&self, name: &str) {
        self.fake.lock().add_linode(OTHERS, name);
    }
    fn leave_things_of_others(&self) {
        self.fake.lock().add_nodebalancer(THEIRS);
    }
    fn things_of_others(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let theirs: Vec<_> = cloud
            .nodebalancers
            .iter()
            .filter(|nodebalancer| nodebalancer["label"] == THEIRS)
            .cloned()
            .collect();
        let is_theirs = |config: &&Value| {
            theirs
                .iter()
                .any(|object| object["id"] == config["nodebalancer_id"])
        };
        let configs = cloud.configs.iter().filter(is_theirs).cloned().collect();
        [theirs.clone(), configs].concat()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.fake.fault_injector())
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::refused_as(
            "POST /nodebalancers",
            400,
            "",
            "NodeBalancer limit reached. Please contact Support.",
        ))
    }
    fn tamper(&self) -> bool {
        self.fake.lock().configs.clear();
        true
    }
    fn remove_load_balancers(&self) -> bool {
        let mut cloud = self.fake.lock();
        cloud.nodebalancers.clear();
        cloud.configs.clear();
        true
    }
    fn add_alternative(&self) -> Option<Value> {
        let id = self.fake.lock().add_nodebalancer("alternative").to_string();
        let key = format!("{}nodebalancer-id", provider_linode::annotations::PREFIX);
        Some(json!({"metadata": {"annotations": {key: id}}}))
    }

    fn add_twins(&self) -> bool {
        self.fake.lock().copy_nodebalancers();
        true
    }
    fn tag_of_a_user(&self, key: &str, value: &str) -> Option<Value> {
        let annotation = "service.beta.kubernetes.io/linode-loadbalancer-tags";
        let tag = format!("{}:{value}", key.replace("ccm-rs/", "ccmrs-"));
        Some(json!({"metadata": {"annotations": {annotation: format!("team-web,{tag}")}}}))
    }
    fn setting_of_the_creation(&self) -> Option<Value> {
        let key = format!("{}frontend-subnet-id", provider_linode::annotations::PREFIX);
        Some(json!({"metadata": {"annotations": {key: "71"}}}))
    }

    fn prepare(&mut self, _machines: usize) {
        self.fake.lock().limits = [1_000_000, 1_000_000];
    }
    /// A NodeBalancer is written part by part: its ports and their backends are read before each rebuild.
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 10,
            },
            // The search for another one, and a Linode, which shows that the token is right.
            created: Limit {
                changes: SERVICES,
                reads: 2 * SERVICES + 5,
            },
            unchanged: Limit {
                changes: 0,
                reads: 0,
            },
            steady: Limit {
                changes: 0,
                reads: 60,
            },
            // One list of Linodes each time, and one of their addresses in the VPC.
            not_ready: Limit {
                changes: 0,
                reads: 260,
            },
            // Each NodeBalancer with its ports and their backends, and these again before they are written.
            joined: Limit {
                changes: 2 * SERVICES,
                reads: 8 * SERVICES + 10,
            },
            // The dependents, two searches, and a Linode, which shows that the token is for the right account.
            deleted: Limit {
                changes: SERVICES,
                reads: 8 * SERVICES,
            },
        }
    }
}
