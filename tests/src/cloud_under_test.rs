//! A cloud as the proofs need it: a provider whose requests pass a [`Gate`], levers for its machines, and everything in it
//! that can be leaked, in a form that can be compared.
//!
//! [`crash`](crate::crash) and [`chaos`](crate::chaos) are written against [`CloudUnderTest`]; a further provider takes part
//! in both by implementing it over the fake of its cloud. [`proofs`](crate::proofs) want
//! [`FakedCloud`](crate::faked_cloud::FakedCloud) as well.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud_provider::{CloudProvider, Fence};
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_PROJECT, DEFAULT_TOKEN, LoadBalancer, MachineState, NewMachine};
use provider_simulated::provider::Simulated;
use serde_json::{Value, json};

use crate::gate::{Gate, Side};

/// A cloud, fresh for each run.
pub trait CloudUnderTest: Send + Sync {
    /// The provider of one life of the program. All its requests pass `gate`.
    fn provider(&self, gate: &Gate) -> Arc<dyn CloudProvider>;
    /// The same behind a fence, as a leader has it. Without it, the fence is open.
    fn fenced_provider(&self, gate: &Gate, _fence: &Fence) -> Arc<dyn CloudProvider> {
        self.provider(gate)
    }

    /// Adds a running machine; its provider id.
    fn add_machine(&self, name: &str) -> String;
    /// Shuts a machine down.
    fn stop(&self, name: &str);
    /// Starts it again.
    fn start(&self, name: &str);
    /// Removes it for good.
    fn terminate(&self, name: &str);
    /// The machines.
    fn machines(&self) -> Vec<Machine>;

    /// The load balancers in the cloud, whoever made them.
    fn load_balancers(&self) -> Vec<BalancerFacts>;
    /// The routes in the cloud, whoever made them.
    fn routes(&self) -> Vec<RouteFacts>;
    /// Everything in the cloud that a Service, a Node or a route can leave behind, in full.
    fn objects(&self) -> Vec<Value>;
    /// What the cloud made up (ids, addresses) and what to read instead, so that two runs can be compared. What is read
    /// instead may itself contain such a value.
    fn aliases(&self) -> Vec<(String, String)>;
    /// From now on the credential is good for another, empty project (or account, or region), or for the right one again.
    /// Clouds that cannot be confused in this way do nothing.
    fn confuse(&self, _confused: bool) {}
    /// Adds a running machine to the project that a confused credential is good for.
    fn add_machine_of_others(&self, _name: &str) {}
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its name, which its Node has too.
    pub name: String,
    /// Its provider id.
    pub provider_id: String,
    /// Whether it is shut down.
    pub is_stopped: bool,
}

/// A load balancer, as far as every cloud has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerFacts {
    /// The UID of the Service that it is marked for; `None`: it carries no mark.
    pub service_uid: Option<String>,
    /// Where it is reached; none while it is made.
    pub address: Option<String>,
    /// Port, protocol, node port.
    pub ports: BTreeSet<(u16, String, u16)>,
    /// Provider ids of the machines behind it.
    pub targets: BTreeSet<String>,
}

/// A route, as far as every cloud has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFacts {
    /// The range.
    pub destination: String,
    /// Provider id of the machine that it leads to.
    pub target: String,
    /// Whether it is marked as the cluster's.
    pub is_ours: bool,
}

/// The project of others.
const OTHERS: &str = "another project";

/// The simulated cloud.
#[derive(Clone, Default)]
pub struct SimulatedCloud(pub Cloud);

/// A fresh simulated cloud, whose operations take a little while.
#[must_use]
pub fn simulated_cloud() -> Box<dyn CloudUnderTest> {
    let options = provider_simulated::cloud::Options { operation_milliseconds: 1500, ..Default::default() };
    Box::new(SimulatedCloud(Cloud::new(options)))
}

fn facts(balancer: &LoadBalancer) -> BalancerFacts {
    BalancerFacts {
        service_uid: balancer.spec.labels.get("ccm-rs/service").cloned(),
        address: balancer.ip.clone(),
        ports: balancer.spec.listeners.iter().map(|it| (it.port, it.protocol.clone(), it.target_port)).collect(),
        targets: balancer.spec.targets.iter().map(|id| format!("simulated://{id}")).collect(),
    }
}

impl CloudUnderTest for SimulatedCloud {
    fn provider(&self, gate: &Gate) -> Arc<dyn CloudProvider> {
        self.fenced_provider(gate, &Fence::open())
    }

    fn fenced_provider(&self, gate: &Gate, fence: &Fence) -> Arc<dyn CloudProvider> {
        let transport = Transport::builder("http://simulated")
            .credential(Credential::token(DEFAULT_TOKEN))
            .fence(fence.clone())
            .service(gate.before(Side::Cloud, self.0.router()))
            .build()
            .expect("the address is an address");
        Arc::new(Simulated::new(transport, None))
    }

    fn add_machine(&self, name: &str) -> String {
        let machine = self.0.add_machine(NewMachine { name: name.to_owned(), ..NewMachine::default() });
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
        let machine = |it: provider_simulated::cloud::Machine| Machine {
            provider_id: format!("simulated://{}", it.id),
            is_stopped: it.state == MachineState::Stopped,
            name: it.name,
        };
        self.0.machines().into_iter().map(machine).collect()
    }

    fn confuse(&self, confused: bool) {
        self.0.add_token(DEFAULT_TOKEN, if confused { OTHERS } else { DEFAULT_PROJECT });
    }
    fn add_machine_of_others(&self, name: &str) {
        let (name, project) = (name.to_owned(), OTHERS.to_owned());
        self.0.add_machine(NewMachine { name, project, ..NewMachine::default() });
    }

    fn load_balancers(&self) -> Vec<BalancerFacts> {
        self.0.load_balancers().iter().map(facts).collect()
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let facts = |it: provider_simulated::cloud::CloudRoute| RouteFacts {
            destination: it.route.destination,
            target: format!("simulated://{}", it.route.machine),
            is_ours: it.route.labels.contains_key("ccm-rs/cluster"),
        };
        self.0.routes().into_iter().map(facts).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let balancers = self.0.load_balancers().into_iter().map(|it| json!({"load balancer": it}));
        let routes = self.0.routes().into_iter().map(|it| json!({"route": it}));
        balancers.chain(routes).collect()
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let mut aliases = Vec::new();
        for machine in self.0.machines() {
            aliases.push((machine.id, format!("<machine {}>", machine.name)));
            for address in machine.addresses {
                aliases.push((address.address.to_string(), format!("<{:?} of {}>", address.kind, machine.name)));
            }
        }
        for balancer in self.0.load_balancers() {
            aliases.push((balancer.id, format!("<id of {}>", balancer.spec.name)));
            aliases.extend(balancer.ip.map(|ip| (ip, format!("<address of {}>", balancer.spec.name))));
        }
        for route in self.0.routes() {
            aliases.push((route.id, format!("<id of route {}>", route.route.destination)));
        }
        aliases
    }
}
