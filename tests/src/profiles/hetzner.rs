//! Hetzner Cloud, as the proofs need it: the provider over the fake of its APIs, with a private network and routes in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings, RouteFacts,
};
use cloud_provider::{CloudProvider, Fence, Service, Setup, default_load_balancer_name};
use hetzner_fake::{Balancer, Fake, Fault, Options, PROJECT, Route, Server, TOKEN, Target};
use provider_hetzner::Hetzner;
use provider_hetzner::config::{AddressFamily, CachePolicy, Config, Instances, Network};
use provider_hetzner::variables::{LOAD_BALANCERS_LOCATION, LOAD_BALANCERS_TYPE};
use provider_kit::declared::Defaults;
use provider_kit::transport::{Credential, Transport};
use serde_json::{Value, json};

/// The label that marks a load balancer for a Service.
const SERVICE_UID: &str = "hcloud-ccm/service-uid";
/// The project of others.
const OTHERS: &str = "somebody else";
/// The name of what is theirs, and the ranges of their routes.
const THEIRS: &str = "theirs";
const THEIR_RANGES: [&str; 2] = ["192.0.2.0/24", "10.99.0.0/16"];
/// Pods are in this part of the network.
const POD_RANGE: &str = "10.244.";

/// Hetzner Cloud with one network, to which every machine is attached.
#[derive(Clone)]
pub struct HetznerCloud {
    /// The fake of Hetzner's APIs.
    pub fake: Fake,
    /// The id of its network.
    pub network: u64,
}

impl Default for HetznerCloud {
    /// Creates a cloud whose actions take a little while: not a whole number of the provider's polls, so that their end
    /// and a poll never meet.
    fn default() -> Self {
        Self::new(Options {
            action_time: Duration::from_millis(1400),
            ..Options::default()
        })
    }
}

impl HetznerCloud {
    /// Creates a profile with an empty fake.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::of(Fake::new(options))
    }

    /// Creates a profile over this fake, to which it adds the network.
    #[must_use]
    pub fn of(fake: Fake) -> Self {
        let network = fake.add_network("kubernetes", "10.0.0.0/8");
        Self { fake, network }
    }

    /// Returns the configuration: settings without a default, and the network.
    #[must_use]
    pub fn config(&self) -> Config {
        let network = Network {
            name_or_id: "kubernetes".to_owned(),
            check_attached: false,
            routes: true,
        };
        let load_balancers = Defaults::default()
            .set(LOAD_BALANCERS_LOCATION.key(), "fsn1")
            .set(LOAD_BALANCERS_TYPE.key(), "lb11");
        Config {
            token: Credential::token(TOKEN),
            endpoint: "http://hetzner/v1".to_owned(),
            debug: false,
            rate_limit_left_to_others: 10,
            network: Some(network),
            instances: Instances {
                address_family: AddressFamily::Ipv4,
                zone_label: true,
                cache: CachePolicy::Shared,
            },
            metrics_address: None,
            load_balancers: Some(load_balancers),
            adoptable_tag: None,
            robot: None,
        }
    }

    fn change_all(&self, change: impl Fn(&mut Balancer)) -> bool {
        let all = self.fake.load_balancers();
        all.iter().all(|load_balancer| {
            self.fake
                .change_load_balancer(&load_balancer.name, &change)
                .is_some()
        })
    }

    fn machine(server: Server) -> Machine {
        Machine {
            provider_id: id_of(server.id),
            is_stopped: server.status == "off",
            name: server.name,
        }
    }
}

fn id_of(server: u64) -> String {
    format!("hcloud://{server}")
}

fn facts(balancer: &Balancer) -> LoadBalancerFacts {
    let target = |target: &Target| match target {
        Target::Server { id, .. } => id_of(*id),
        other => format!("{other:?}"),
    };
    let port = |service: &hetzner_fake::Service| {
        (
            service.listen_port,
            "TCP".to_owned(),
            service.destination_port,
        )
    };
    LoadBalancerFacts {
        service_uid: balancer.labels.get(SERVICE_UID).cloned(),
        address: Some(balancer.ipv4.ip.to_string()),
        ports: balancer.services.iter().map(port).collect(),
        targets: balancer.targets.iter().map(target).collect(),
    }
}

/// Sorts a list by its text: the order of additions is irrelevant.
fn sort(list: Option<&mut Value>) {
    if let Some(list) = list.and_then(Value::as_array_mut) {
        // Node ports differ from run to run, ports do not.
        list.sort_by_cached_key(|object| (object["listen_port"].as_u64(), object.to_string()));
    }
}

impl CloudProfile for HetznerCloud {
    fn name(&self) -> &'static str {
        "hcloud"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: true,
            accounts: true,
        }
    }
    fn api(&self) -> ApiRequests {
        ApiRequests {
            machines: "GET /servers",
            load_balancers: "GET /load_balancers",
            create: "POST /load_balancers",
            polls: &["GET /actions"],
        }
    }

    fn router(&self) -> Router {
        self.fake.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let setup = Setup {
            fence: fence.clone(),
            ..Setup::default()
        };
        let cloud = provider_hetzner::transports::cloud(&self.config(), &setup)
            .service(api)
            .build();
        let cloud = cloud.expect("the address is an address");
        let metadata =
            Transport::builder("http://hetzner/hetzner/v1/metadata").service(self.fake.router());
        let metadata = metadata.build().expect("the address is an address");
        Arc::new(Hetzner::over(self.config(), cloud, None, metadata))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let variables = [
            ("HCLOUD_TOKEN", TOKEN.to_owned()),
            ("HCLOUD_ENDPOINT", format!("{url}/v1")),
            ("HCLOUD_METRICS_ENABLED", "false".to_owned()),
            ("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1".to_owned()),
        ];
        let environment = variables
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        ProgramSettings {
            environment,
            cloud_config: None,
        }
    }

    fn add_machine(&self, name: &str) -> String {
        let server = self.fake.add_server(name);
        self.fake.attach(name, self.network);
        id_of(server.id)
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
        self.fake.servers().into_iter().map(Self::machine).collect()
    }

    fn confuse(&self, confused: bool) {
        self.fake
            .set_token(TOKEN, if confused { OTHERS } else { PROJECT });
    }
    fn add_machine_of_others(&self, name: &str) {
        self.fake.add_server_to(OTHERS, name);
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        self.fake.load_balancers().iter().map(facts).collect()
    }

    fn routes(&self) -> Vec<RouteFacts> {
        let servers = self.fake.servers().into_iter();
        let by_address: BTreeMap<String, String> = servers
            .filter_map(|server| Some((server.ip_in(self.network)?.to_string(), id_of(server.id))))
            .collect();
        let facts = |route: hetzner_fake::Route| RouteFacts {
            is_ours: route.destination.starts_with(POD_RANGE),
            target: by_address
                .get(&route.gateway)
                .cloned()
                .unwrap_or(route.gateway),
            destination: route.destination,
        };
        self.fake
            .routes(self.network)
            .into_iter()
            .map(facts)
            .collect()
    }

    fn objects(&self) -> Vec<Value> {
        let mut objects = self.fake.objects();
        for object in &mut objects {
            ["/services", "/targets"]
                .into_iter()
                .for_each(|list| sort(object.pointer_mut(list)));
        }
        objects
    }

    fn aliases(&self) -> Vec<(String, String)> {
        let mut aliases = Vec::new();
        for server in self.fake.servers() {
            let name = &server.name;
            aliases.push((server.id.to_string(), format!("<machine {name}>")));
            aliases.extend(
                server
                    .ipv4
                    .map(|ip| (ip.to_string(), format!("<IPv4 of {name}>"))),
            );
            let private = server.ip_in(self.network);
            aliases
                .extend(private.map(|ip| (ip.to_string(), format!("<private address of {name}>"))));
        }
        for balancer in self.fake.load_balancers() {
            let name = &balancer.name;
            aliases.push((balancer.id.to_string(), format!("<id of {name}>")));
            for (ip, family) in [(&balancer.ipv4, "IPv4"), (&balancer.ipv6, "IPv6")] {
                aliases.push((ip.ip.to_string(), format!("<{family} of {name}>")));
                aliases.extend(
                    ip.dns_ptr
                        .clone()
                        .map(|pointer| (pointer, format!("<{family} pointer of {name}>"))),
                );
            }
            for net in &balancer.private_net {
                aliases.push((net.ip.to_string(), format!("<private address of {name}>")));
            }
        }
        aliases
    }

    fn leave_things_of_others(&self) {
        let gateway = self
            .fake
            .server("worker-1")
            .and_then(|server| server.ip_in(self.network));
        let gateway = gateway.expect("worker-1 in the network").to_string();
        let route = |range: &str| Route {
            destination: range.to_owned(),
            gateway: gateway.clone(),
        };
        self.fake.change_network(self.network, |network| {
            network.routes.extend(THEIR_RANGES.map(route));
        });
        self.fake.add_load_balancer(THEIRS);
    }

    fn things_of_others(&self) -> Vec<Value> {
        let routes = self
            .fake
            .routes(self.network)
            .into_iter()
            .map(|route| json!({"route": route}));
        let routes = routes.filter(|route| {
            THEIR_RANGES
                .iter()
                .any(|range| route["route"]["destination"] == *range)
        });
        routes
            .chain(
                self.fake
                    .objects()
                    .into_iter()
                    .filter(|object| object["name"] == THEIRS),
            )
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(&self.fake)
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        let codes = [
            "server_error",
            "rate_limit_exceeded",
            "maintenance",
            "unauthorized",
        ];
        [
            Fault::of_list(route),
            codes.map(|code| Fault::code("", code)).into(),
        ]
        .concat()
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::code(
            "POST /load_balancers",
            "resource_limit_exceeded",
        ))
    }
    fn protect(&self, is_protected: bool) -> bool {
        self.change_all(|load_balancer| load_balancer.is_protected = is_protected)
    }
    fn tamper(&self) -> bool {
        self.change_all(|load_balancer| load_balancer.services.clear())
    }
    fn remove_load_balancers(&self) -> bool {
        self.fake
            .load_balancers()
            .iter()
            .all(|load_balancer| self.fake.remove_load_balancer(&load_balancer.name))
    }
    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        self.fake
            .add_load_balancer(&default_load_balancer_name(service));
        Some(Namesake::Adopted)
    }

    /// Raises the cloud's limits, which are about its customers and not about the program.
    fn prepare(&mut self, machines: usize) {
        *self = Self::new(Options {
            limit: 360_000,
            remaining: 360_000,
            ..Options::default()
        });
        self.fake
            .change_type("lb11", |balancer_type| balancer_type.max_targets = machines);
    }
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        const PAGES: usize = NODES.div_ceil(50);
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 4 * PAGES + 5,
            },
            created: Limit {
                changes: SERVICES,
                reads: SERVICES + PAGES + 5,
            },
            unchanged: Limit {
                changes: 0,
                reads: 0,
            },
            steady: Limit {
                changes: 0,
                reads: 4 * PAGES,
            },
            not_ready: Limit {
                changes: 0,
                reads: 122 * PAGES,
            },
            joined: Limit {
                changes: SERVICES,
                reads: PAGES + 5,
            },
            deleted: Limit {
                changes: SERVICES,
                reads: SERVICES + PAGES + 5,
            },
        }
    }
}
