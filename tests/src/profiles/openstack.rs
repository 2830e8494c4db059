//! Profile of OpenStack: the provider over the fake of its control plane, with all configurable features: floating IPs,
//! managed security groups, health monitors, routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use ccm_conformance::json::{list, number, same_targets};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings, RouteFacts,
};
use cloud_provider::{CloudProvider, ConfigFile, Fence, Service, Setup};
use openstack_fake::{Fake, Fault, Network, Options, Server};
use provider_kit::transport::in_process;
use provider_openstack::OpenStack;
use provider_openstack::config::Config;
use provider_openstack::services::Services;
use serde_json::{Value, json};

/// Prefix of the owner tags; the cluster and the Service's UID follow.
const MARK: &str = "ccm-rs:";
/// The id of the project of others.
const OTHERS: &str = "0123456789abcdef0123456789abcdef";
/// The name of what is theirs, the ranges of their routes, and an address that they let through.
const THEIRS: &str = "theirs";
const THEIR_RANGES: [&str; 2] = ["192.0.2.0/24", "10.99.0.0/16"];
const THEIR_ADDRESS: &str = "192.0.2.7";
/// The length of pages where there are many servers and ports.
const PAGE: usize = 250;
/// Pods are in this range.
const POD_RANGE: &str = "10.244.";

/// An OpenStack with a network, a router and an external network.
#[derive(Clone)]
pub struct OpenStackCloud {
    /// The fake of the OpenStack services.
    pub fake: Fake,
    /// The network of the machines.
    pub network: Network,
    /// The network of floating IPs.
    pub public: Network,
    /// The id of the router that has the network.
    pub router: String,
    /// `[LoadBalancer]` of the configuration.
    pub balancing: String,
}

impl Default for OpenStackCloud {
    /// Creates a cloud with short pages, so that lists have several.
    fn default() -> Self {
        Self::new(Options {
            page_size: 20,
            ..Options::default()
        })
    }
}

impl OpenStackCloud {
    /// Creates a profile with an empty fake, with floating IPs, managed security groups and health monitors.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let fake = Fake::new(options);
        let network = fake.add_network("k8s-net", "10.6.0.0/16");
        let public = fake.add_external_network("public", "172.24.0.0/16");
        let router = fake.add_router("k8s-router", &network.subnet);
        let balancing = format!(
            "subnet-id = {}\nfloating-network-id = {}\nmanage-security-groups = true\ncreate-monitor = true\n",
            network.subnet, public.id
        );
        Self {
            fake,
            network,
            public,
            router,
            balancing,
        }
    }

    /// Disables floating IPs, security groups and health monitors.
    pub fn be_plain(&mut self) {
        self.balancing = format!("subnet-id = {}\ninternal-lb = true\n", self.network.subnet);
    }

    /// Returns the content of `cloud.conf`.
    #[must_use]
    pub fn cloud_conf(&self, url: &str) -> String {
        use openstack_fake::{DOMAIN, PASSWORD, PROJECT, REGION, USER};
        format!(
            "[Global]\nauth-url = {url}/identity/v3\nusername = {USER}\npassword = {PASSWORD}\ntenant-name = {PROJECT}\n\
             domain-name = {DOMAIN}\nregion = {REGION}\n[LoadBalancer]\n{}[Route]\nrouter-id = {}\n",
            self.balancing, self.router
        )
    }

    /// Creates a load balancer by hand and returns its ID.
    fn add_load_balancer(&self, name: &str) -> String {
        self.fake
            .add_load_balancer(&json!({"name": name, "vip_subnet_id": self.network.subnet}))
    }

    /// Returns the provider IDs of servers by their address.
    fn servers_by_ip(&self) -> BTreeMap<String, String> {
        self.fake
            .servers()
            .into_iter()
            .map(|server| (server.ip, id_of(&server.id)))
            .collect()
    }

    fn facts(
        &self,
        balancer: &Value,
        servers: &BTreeMap<String, String>,
        floating: &[Value],
    ) -> LoadBalancerFacts {
        let tags = list(&balancer["tags"]).filter_map(Value::as_str);
        let uid = tags
            .filter_map(|tag| tag.strip_prefix(MARK)?.split(':').nth(1))
            .next()
            .map(str::to_owned);
        let on_port = floating
            .iter()
            .find(|object| object["port_id"] == balancer["vip_port_id"]);
        let address = on_port.map_or(
            &balancer["vip_address"],
            |on_port| &on_port["floating_ip_address"],
        );
        let mut facts = LoadBalancerFacts {
            service_uid: uid,
            address: address.as_str().map(str::to_owned),
            ports: BTreeSet::new(),
            targets: BTreeSet::new(),
        };
        let mut sets = BTreeSet::new();
        for listener in list(&balancer["listeners"]) {
            let pool = list(&balancer["pools"])
                .find(|pool| pool["id"] == listener["default_pool_id"])
                .unwrap_or(&Value::Null);
            let node_ports: BTreeSet<u16> = list(&pool["members"])
                .map(|members| number(&members["protocol_port"]))
                .collect();
            let protocol = listener["protocol"].as_str().unwrap_or_default().to_owned();
            for node_port in node_ports {
                facts.ports.insert((
                    number(&listener["protocol_port"]),
                    protocol.clone(),
                    node_port,
                ));
            }
            let server = |member: &Value| {
                let address = member["address"].as_str().unwrap_or_default();
                servers
                    .get(address)
                    .cloned()
                    .unwrap_or_else(|| format!("nobody at {address}"))
            };
            sets.insert(
                list(&pool["members"])
                    .map(server)
                    .collect::<BTreeSet<String>>(),
            );
        }
        facts.targets = same_targets(sets);
        facts
    }

    /// Returns the security groups by name, and the address pairs of a server's port, one by one: their order is
    /// irrelevant.
    fn port(&self, server: &Server, groups: &[Value]) -> Vec<Value> {
        let port = self.fake.port(&server.port).unwrap_or_default();
        let name = |id: &Value| {
            groups
                .iter()
                .find(|group| group["id"] == *id)
                .map_or(Value::Null, |group| group["name"].clone())
        };
        let carried = list(&port["security_groups"])
            .map(|id| json!({"port of": server.name, "carries": name(id)}));
        let let_through = list(&port["allowed_address_pairs"]);
        carried
            .chain(
                let_through
                    .map(|let_through| json!({"port of": server.name, "lets through": let_through["ip_address"]})),
            )
            .collect()
    }
}

fn id_of(server: &str) -> String {
    format!("openstack:///{server}")
}

/// Removes fields that differ between runs and are irrelevant: IDs, times, order, and states of Octavia's workers.
fn comparable(balancer: &mut Value) {
    let pools: BTreeMap<String, Value> = list(&balancer["pools"])
        .map(|pools| (pools["id"].to_string(), pools["name"].clone()))
        .collect();
    for listener in balancer["listeners"].as_array_mut().into_iter().flatten() {
        let pool = pools.get(&listener["default_pool_id"].to_string()).cloned();
        listener["default_pool_id"] = pool.unwrap_or_default();
    }
    strip(balancer);
    let sort = |list: Option<&mut Value>, keys: &[&str]| {
        if let Some(list) = list.and_then(Value::as_array_mut) {
            list.sort_by_cached_key(|object| {
                keys.iter()
                    .map(|key| object[*key].to_string())
                    .collect::<Vec<_>>()
            });
        }
    };
    sort(
        balancer.get_mut("listeners"),
        &["protocol_port", "protocol"],
    );
    for pool in balancer["pools"].as_array_mut().into_iter().flatten() {
        sort(pool.get_mut("members"), &["name"]);
    }
    sort(balancer.get_mut("pools"), &["name"]);
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in [
                "id",
                "created_at",
                "updated_at",
                "operating_status",
                "revision_number",
                "loadbalancers",
            ] {
                map.remove(key);
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

impl CloudProfile for OpenStackCloud {
    fn name(&self) -> &'static str {
        "openstack"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: true,
            accounts: true,
        }
    }
    fn api(&self) -> ApiRequests {
        ApiRequests {
            machines: "GET /servers/detail",
            load_balancers: "GET /lbaas/loadbalancers",
            create: "POST /lbaas/loadbalancers",
            polls: &["GET /lbaas/loadbalancers/{id}", "POST /auth/tokens"],
        }
    }
    /// Returns a lower effort: OpenStack needs thousands of requests where other clouds need hundreds.
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 9,
            chaos_seeds: 30,
        }
    }

    fn router(&self) -> Router {
        self.fake.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let file = ConfigFile {
            path: "cloud.conf".into(),
            text: self.cloud_conf(openstack_fake::ENDPOINT),
        };
        let setup = Setup {
            fence: fence.clone(),
            ..Setup::of(file)
        };
        let config = Config::read(&setup).expect("a configuration without mistakes");
        let services =
            Services::over(&config, &setup, in_process(api)).expect("addresses are addresses");
        Arc::new(OpenStack::over(config, services, &setup))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        self.fake
            .set_options(|options| url.clone_into(&mut options.endpoint));
        ProgramSettings {
            cloud_config: Some(self.cloud_conf(url)),
            ..ProgramSettings::default()
        }
    }

    fn add_machine(&self, name: &str) -> String {
        id_of(&self.fake.add_server(name, &self.network).id)
    }
    fn stop(&self, name: &str) {
        self.fake.stop(name);
    }
    fn start(&self, name: &str) {
        self.fake.start(name);
    }
    fn terminate(&self, name: &str) {
        self.fake.terminate(name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |server: Server| Machine {
            provider_id: id_of(&server.id),
            is_stopped: server.status == "SHUTOFF",
            name: server.name,
        };
        self.fake.servers().into_iter().map(machine).collect()
    }

    fn confuse(&self, confused: bool) {
        self.fake.confuse(confused.then_some(OTHERS));
    }
    fn add_machine_of_others(&self, name: &str) {
        self.fake.add_server_to(OTHERS, name, &self.network);
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        let servers = self.servers_by_ip();
        let floating = self.fake.floating_ips();
        self.fake
            .load_balancers()
            .iter()
            .map(|load_balancer| self.facts(load_balancer, &servers, &floating))
            .collect()
    }

    fn routes(&self) -> Vec<RouteFacts> {
        let servers = self.servers_by_ip();
        let facts = |object: &Value| {
            let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
            let destination = text("destination");
            let hop = text("nexthop");
            let target = servers.get(&hop).cloned().unwrap_or(hop);
            RouteFacts {
                is_ours: destination.starts_with(POD_RANGE),
                target,
                destination,
            }
        };
        self.fake.routes(&self.router).iter().map(facts).collect()
    }

    fn objects(&self) -> Vec<Value> {
        let groups = self.fake.security_groups();
        let mut objects: Vec<Value> = self.fake.load_balancers();
        objects.iter_mut().for_each(comparable);
        objects.extend(self.fake.floating_ips().into_iter().map(|floating_ip| {
            let keys = [
                "description",
                "floating_ip_address",
                "fixed_ip_address",
                "port_id",
                "status",
            ];
            json!({"floating IP": keys.map(|key| &floating_ip[key])})
        }));
        for group in &groups {
            objects.push(
                json!({"security group": group["name"], "description": group["description"]}),
            );
            // One by one, because the order of node ports differs between runs.
            objects.extend(list(&group["security_group_rules"]).map(|rule| {
                let keys = [
                    "direction",
                    "ethertype",
                    "protocol",
                    "port_range_min",
                    "port_range_max",
                    "remote_ip_prefix",
                ];
                json!({"rule of": group["name"], "rule": keys.map(|key| &rule[key])})
            }));
        }
        objects.extend(
            self.fake
                .servers()
                .iter()
                .flat_map(|server| self.port(server, &groups)),
        );
        objects.extend(
            self.fake
                .routes(&self.router)
                .into_iter()
                .map(|route| json!({"route": route})),
        );
        objects
    }

    fn aliases(&self) -> Vec<(String, String)> {
        let mut aliases = Vec::new();
        for server in self.fake.servers() {
            let name = &server.name;
            aliases.push((server.id, format!("<machine {name}>")));
            aliases.push((server.port, format!("<port of {name}>")));
            aliases.push((server.ip, format!("<address of {name}>")));
        }
        let floating = self.fake.floating_ips();
        for balancer in self.fake.load_balancers() {
            let name = balancer["name"].as_str().unwrap_or_default();
            for (key, what) in [
                ("id", "id"),
                ("vip_address", "VIP"),
                ("vip_port_id", "port"),
            ] {
                aliases.push((
                    balancer[key].as_str().unwrap_or_default().to_owned(),
                    format!("<{what} of {name}>"),
                ));
            }
            let on_port = floating
                .iter()
                .filter(|object| object["port_id"] == balancer["vip_port_id"]);
            aliases.extend(on_port.filter_map(|on_port| {
                Some((
                    on_port["floating_ip_address"].as_str()?.to_owned(),
                    format!("<floating IP of {name}>"),
                ))
            }));
        }
        aliases
    }

    /// Projects, routers and ports are not the cluster's alone.
    fn leave_things_of_others(&self) {
        let port = |name: &str| self.fake.server(name).expect("a server of that name");
        let hop = port("worker-1").ip;
        let routes = THEIR_RANGES.map(|range| json!({"destination": range, "nexthop": hop}));
        self.fake.change_router(&self.router, |router| {
            router.insert("routes".to_owned(), json!(routes))
        });
        let group = self.fake.add_security_group(THEIRS);
        self.fake.change_port(&port("worker-2").port, |port| {
            port.insert("security_groups".to_owned(), json!([group]));
            let pair = json!({"ip_address": THEIR_ADDRESS, "mac_address": "fa:16:3e:00:00:07"});
            port.insert("allowed_address_pairs".to_owned(), json!([pair]));
        });
        self.fake.add_load_balancer(
            &json!({"name": THEIRS, "vip_subnet_id": self.network.subnet,
            "listeners": [{"name": THEIRS, "protocol": "TCP", "protocol_port": 80}]}),
        );
        self.fake.add_floating_ip(&self.public, THEIRS, None);
    }

    fn things_of_others(&self) -> Vec<Value> {
        let named = |all: Vec<Value>, key: &'static str| {
            all.into_iter().filter(move |object| object[key] == THEIRS)
        };
        let groups: Vec<Value> = named(self.fake.security_groups(), "name").collect();
        let mut theirs: Vec<Value> = named(self.fake.floating_ips(), "description").collect();
        theirs.extend(self.fake.load_balancer(THEIRS));
        let routes = self.fake.routes(&self.router).into_iter();
        theirs.extend(routes.filter(|route| {
            THEIR_RANGES
                .iter()
                .any(|range| route["destination"] == *range)
        }));
        for port in self.fake.ports() {
            let pairs = list(&port["allowed_address_pairs"])
                .filter(|allowed_address_pair| allowed_address_pair["ip_address"] == THEIR_ADDRESS);
            let carried = list(&port["security_groups"])
                .filter(|id| groups.iter().any(|group| group["id"] == **id));
            theirs.extend(
                pairs
                    .chain(carried)
                    .map(|pairs| json!({"port": port["id"], "has": pairs})),
            );
        }
        theirs.extend(groups);
        theirs
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(&self.fake)
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        [Fault::of_list(route), vec![Fault::refused(route, 404)]].concat()
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::refused_as(
            "POST /lbaas/loadbalancers",
            403,
            "",
            "Quota has been met for resources: Load Balancer",
        ))
    }
    fn remove_load_balancers(&self) -> bool {
        self.fake.load_balancers().iter().all(|load_balancer| {
            self.fake
                .remove_load_balancer(load_balancer["id"].as_str().unwrap_or_default())
        })
    }
    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        self.add_load_balancer(&format!("kube_service_kubernetes_default_{name}"));
        Some(Namesake::Adopted)
    }
    fn add_alternative(&self) -> Option<Value> {
        let id = self.add_load_balancer("by hand");
        let port = self.fake.load_balancer(&id).unwrap_or_default()["vip_port_id"].clone();
        self.fake
            .add_floating_ip(&self.public, "by hand", port.as_str());
        Some(
            json!({"metadata": {"annotations": {"loadbalancer.openstack.org/load-balancer-id": id}}}),
        )
    }

    fn prepare(&mut self, _machines: usize) {
        self.be_plain();
        self.fake.set_options(|options| options.page_size = PAGE);
    }
    fn cost(&self) -> Cost {
        const NODES: usize = 1000;
        const SERVICES: usize = 20;
        const PAGES: usize = NODES.div_ceil(PAGE) + 1;
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 6 * PAGES,
            },
            created: Limit {
                changes: 3 * SERVICES,
                reads: 10 * SERVICES + 4 * PAGES,
            },
            unchanged: Limit {
                changes: 0,
                reads: 8 * SERVICES + 4 * PAGES,
            },
            steady: Limit {
                changes: 0,
                reads: 8 * PAGES,
            },
            // Servers, and the ports that have their addresses.
            not_ready: Limit {
                changes: 0,
                reads: 2 * 122 * PAGES,
            },
            // One request for each pool.
            joined: Limit {
                changes: 2 * SERVICES,
                reads: 10 * SERVICES + 4 * PAGES,
            },
            // Dependents that are deleted with it, such as its members, are not read.
            deleted: Limit {
                changes: SERVICES,
                reads: 6 * SERVICES,
            },
        }
    }
}
