//! The simulated cloud, as the conformance suite needs it.

use std::sync::Arc;

use axum::Router;
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings, RouteFacts,
};
use cloud_provider::{
    AddressType, CloudProvider, Fence, NodeAddress, Service, default_load_balancer_name,
};
use fake_cloud::{Fault, FaultKind, Refused};
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{
    self, Cloud, CloudRoute, DEFAULT_PROJECT, DEFAULT_TOKEN, LoadBalancer, LoadBalancerChange,
    LoadBalancerSpec, MachineChange, MachineState, NewMachine, NewRoute, Options, PAGE_SIZE,
};
use provider_simulated::provider::{NAME, Simulated};
use serde_json::{Value, json};

/// The account of others.
const OTHERS: &str = "another project";
/// The label with the UID of a Service.
const SERVICE: &str = "ccm-rs/service";
/// The name of what is theirs, and the ranges of their routes.
const THEIRS: &str = "theirs";
const THEIR_RANGES: [&str; 2] = ["192.0.2.0/24", "10.99.0.0/16"];

/// Profile of the simulated cloud.
#[derive(Clone)]
pub struct SimulatedCloud(pub Cloud);

impl Default for SimulatedCloud {
    /// Creates a cloud whose operations take a little while.
    fn default() -> Self {
        Self(Cloud::new(Options {
            operation_milliseconds: 1500,
            ..Options::default()
        }))
    }
}

fn facts(balancer: &LoadBalancer) -> LoadBalancerFacts {
    LoadBalancerFacts {
        service_uid: balancer.spec.labels.get(SERVICE).cloned(),
        address: balancer.ip.clone(),
        ports: balancer
            .spec
            .listeners
            .iter()
            .map(|listener| {
                (
                    listener.port,
                    listener.protocol.clone(),
                    listener.target_port,
                )
            })
            .collect(),
        targets: balancer
            .spec
            .targets
            .iter()
            .map(|id| format!("simulated://{id}"))
            .collect(),
    }
}

impl CloudProfile for SimulatedCloud {
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
            machines: "GET /v1/machines",
            load_balancers: "GET /v1/load-balancers",
            create: "POST /v1/load-balancers",
            polls: &["GET /v1/load-balancers/{id}"],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            chaos_seeds: 250,
            ..Effort::default()
        }
    }

    fn router(&self) -> Router {
        self.0.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let transport = Transport::builder("http://simulated")
            .credential(Credential::token(DEFAULT_TOKEN))
            .fence(fence.clone())
            .service(api)
            .build()
            .expect("the address is an address");
        Arc::new(Simulated::new(transport, None))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let cloud_config =
            format!("endpoint: {url}\ntoken: {DEFAULT_TOKEN}\nproject: {DEFAULT_PROJECT}\n");
        ProgramSettings {
            cloud_config: Some(cloud_config),
            ..ProgramSettings::default()
        }
    }

    fn add_machine(&self, name: &str) -> String {
        let machine = self.0.add_machine(NewMachine {
            name: name.to_owned(),
            ..NewMachine::default()
        });
        format!("simulated://{}", machine.id)
    }
    fn stop(&self, name: &str) {
        self.0.stop(name);
    }
    fn start(&self, name: &str) {
        self.0.start(name);
    }
    fn terminate(&self, name: &str) {
        self.0.terminate(name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |machine: cloud::Machine| Machine {
            provider_id: format!("simulated://{}", machine.id),
            is_stopped: machine.state == MachineState::Stopped,
            name: machine.name,
        };
        self.0.machines().into_iter().map(machine).collect()
    }

    fn confuse(&self, confused: bool) {
        self.0.add_token(
            DEFAULT_TOKEN,
            if confused { OTHERS } else { DEFAULT_PROJECT },
        );
    }
    fn add_machine_of_others(&self, name: &str) {
        let name = name.to_owned();
        let project = OTHERS.to_owned();
        self.0.add_machine(NewMachine {
            name,
            project,
            ..NewMachine::default()
        });
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        self.0.load_balancers().iter().map(facts).collect()
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let facts = |route: CloudRoute| RouteFacts {
            destination: route.route.destination,
            target: format!("simulated://{}", route.route.machine),
            is_ours: route.route.labels.contains_key("ccm-rs/cluster"),
        };
        self.0.routes().into_iter().map(facts).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let balancers = self
            .0
            .load_balancers()
            .into_iter()
            .map(|load_balancer| json!({"load balancer": load_balancer}));
        let routes = self
            .0
            .routes()
            .into_iter()
            .map(|route| json!({"route": route}));
        balancers.chain(routes).collect()
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let mut aliases = Vec::new();
        for machine in self.0.machines() {
            aliases.push((machine.id, format!("<machine {}>", machine.name)));
            for address in machine.addresses {
                aliases.push((
                    address.address.to_string(),
                    format!("<{:?} of {}>", address.kind, machine.name),
                ));
            }
        }
        for balancer in self.0.load_balancers() {
            aliases.push((balancer.id, format!("<id of {}>", balancer.spec.name)));
            aliases.extend(
                balancer
                    .ip
                    .map(|ip| (ip, format!("<address of {}>", balancer.spec.name))),
            );
        }
        for route in self.0.routes() {
            aliases.push((
                route.id,
                format!("<id of route {}>", route.route.destination),
            ));
        }
        aliases
    }

    fn leave_things_of_others(&self) {
        let machine = self.0.machines()[0].id.clone();
        let spec = |name: &str| LoadBalancerSpec {
            name: name.to_owned(),
            ..LoadBalancerSpec::default()
        };
        self.0.add_load_balancer(spec(THEIRS));
        for range in THEIR_RANGES {
            let route = NewRoute {
                destination: range.to_owned(),
                machine: machine.clone(),
                ..NewRoute::default()
            };
            self.0.add_route(route);
        }
    }
    fn things_of_others(&self) -> Vec<Value> {
        let balancers = self
            .0
            .load_balancers()
            .into_iter()
            .filter(|load_balancer| load_balancer.spec.name == THEIRS);
        let routes = self
            .0
            .routes()
            .into_iter()
            .filter(|route| THEIR_RANGES.contains(&&*route.route.destination));
        balancers
            .map(|load_balancer| json!(load_balancer.spec))
            .chain(routes.map(|route| json!(route.route)))
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        None
    }
    fn fail(&self, fault: Fault) {
        let refused = |entry: &Refused| entry.status.unwrap_or(500);
        let simulated = match fault.kind {
            FaultKind::Refused(refusal) => cloud::Fault::status(refused(&refusal)),
            FaultKind::Status(status) => cloud::Fault::status(status),
            FaultKind::LostAnswer => cloud::Fault::new(cloud::FaultKind::LostAnswer),
            FaultKind::Hang => cloud::Fault::new(cloud::FaultKind::Hang),
            FaultKind::EmptyList => cloud::Fault::new(cloud::FaultKind::EmptyList),
            FaultKind::MissingPage(page) => cloud::Fault::new(cloud::FaultKind::MissingPage)
                .at_page(page)
                .without_total(),
            FaultKind::EarlyEnd(page) => cloud::Fault::new(cloud::FaultKind::EarlyEnd)
                .at_page(page)
                .without_total(),
            FaultKind::Latency(time) => {
                cloud::Fault::latency(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
            }
            other => panic!("the simulated cloud has no fault {other:?}"),
        };
        self.0.inject(if fault.route.is_empty() {
            simulated
        } else {
            simulated.on(&fault.route)
        });
    }
    fn clear_faults(&self) {
        self.0.clear_faults();
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        use FaultKind::{EarlyEnd, EmptyList, Hang, LostAnswer, MissingPage};
        let of_all = [500, 401, 403, 404, 429, 503].map(|status| Fault::status("", status));
        let of_list = [EmptyList, MissingPage(2), EarlyEnd(1)].map(|kind| Fault::new(route, kind));
        [
            &of_all[..],
            &of_list,
            &[LostAnswer, Hang].map(|kind| Fault::new("", kind)),
        ]
        .concat()
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::status("POST /v1/load-balancers", 403))
    }
    fn protect(&self, is_protected: bool) -> bool {
        self.0.load_balancers().iter().all(|load_balancer| {
            self.0
                .protect_load_balancer(&load_balancer.id, is_protected)
        })
    }
    fn tamper(&self) -> bool {
        let change = || LoadBalancerChange {
            listeners: Some([].into()),
            ..LoadBalancerChange::default()
        };
        self.0.load_balancers().iter().all(|load_balancer| {
            self.0
                .edit_load_balancer(&load_balancer.id, change())
                .is_some()
        })
    }
    fn remove_load_balancers(&self) -> bool {
        self.0
            .load_balancers()
            .iter()
            .all(|load_balancer| self.0.remove_load_balancer(&load_balancer.id))
    }
    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        let spec = LoadBalancerSpec {
            name: default_load_balancer_name(service),
            ..LoadBalancerSpec::default()
        };
        self.0.add_load_balancer(spec);
        Some(Namesake::Refused)
    }

    fn add_twins(&self) -> bool {
        for load_balancer in self.0.load_balancers() {
            let name = format!("twin-of-{}", load_balancer.id);
            let spec = LoadBalancerSpec {
                name,
                address: String::new(),
                ..load_balancer.spec
            };
            self.0.add_load_balancer(spec);
        }
        true
    }

    /// Makes operations immediate, because polls for their end would be counted.
    fn prepare(&mut self, _machines: usize) {
        self.0.set_options(Options::default());
    }
    fn change_addresses(&self, name: &str, internal: &str, external: &str) -> bool {
        let addresses = [
            (AddressType::InternalIP, internal),
            (AddressType::ExternalIP, external),
        ];
        let addresses = addresses
            .map(|(kind, address)| NodeAddress::new(kind, address))
            .into();
        let change = MachineChange {
            addresses: Some(addresses),
            ..MachineChange::default()
        };
        self.0.change_machine(name, change).is_some()
    }
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        const PAGES: usize = NODES.div_ceil(PAGE_SIZE);
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 4 * PAGES,
            },
            created: Limit {
                changes: SERVICES,
                reads: SERVICES,
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
                changes: SERVICES,
                reads: PAGES + 5,
            },
            // The load balancer and a machine, which shows that the credential is right, and the load balancer again.
            deleted: Limit {
                changes: SERVICES,
                reads: 3 * SERVICES,
            },
        }
    }
}
