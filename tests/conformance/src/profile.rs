//! Cloud profile: the cloud-specific parts of the conformance suite, the race and the scale benchmark.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use cloud_provider::{CloudProvider, Fence, Service};
use fake_cloud::{Fault, FaultInjector};
use serde_json::Value;

use crate::account::CloudApi;
use crate::proofs::Cost;

/// The fake of a cloud and the provider for it. Each run of a proof gets a profile with a fake of its own; clones of a profile
/// share the fake.
///
/// Profile of a cloud. A cloud that lacks a feature reports so in [`capabilities`](Self::capabilities) and keeps the
/// default of the methods concerned.
pub trait CloudProfile: Send + Sync + 'static {
    /// Returns the name of the provider, as `--cloud-provider` takes it.
    fn name(&self) -> &'static str;
    /// Returns the optional features of the cloud.
    fn capabilities(&self) -> Capabilities;
    /// Returns the requests of the cloud's API that proofs count and disturb.
    fn api(&self) -> ApiRequests;
    /// Returns the number of crash points and seeds that are tried.
    fn effort(&self) -> Effort {
        Effort::default()
    }

    /// Returns `true` if the provider keeps Kubernetes objects of its own, and so needs the program's client.
    fn uses_kubernetes(&self) -> bool {
        false
    }

    /// Returns the API of the fake.
    fn router(&self) -> Router;
    /// Returns the provider of one run of the program. It sends all its requests to `api`, which is
    /// [`router`](Self::router) behind the harness' fault injector, and obeys `fence`.
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider>;
    /// Returns the settings of a program, ours or the cloud's Go cloud-controller-manager, that uses the fake at `url`.
    fn program(&self, url: &str) -> ProgramSettings;

    /// Returns `false` if the provider refuses Services with session affinity.
    fn has_session_affinity(&self) -> bool {
        true
    }
    /// Returns `true` if the cloud refuses a stopped machine as a new target. One that was a target before it stopped may
    /// stay.
    fn refuses_stopped_targets(&self) -> bool {
        false
    }
    /// The annotations of all Services, such as for a kind of load balancers; null for none.
    fn service_annotations(&self) -> Value {
        Value::Null
    }

    /// Adds a running machine and returns its provider ID.
    fn add_machine(&self, name: &str) -> String;
    /// Shuts a machine down.
    fn stop(&self, name: &str);
    /// Starts a machine that was shut down.
    fn start(&self, name: &str);
    /// Removes a machine for good.
    fn terminate(&self, name: &str);
    /// Returns the machines of the cloud.
    fn machines(&self) -> Vec<Machine>;

    /// Returns the load balancers of all accounts (projects, regions), whoever created them.
    fn load_balancers(&self) -> Vec<LoadBalancerFacts>;
    /// Returns what is still there of load balancers that are gone, in words: auxiliary resources with owner tags.
    fn leftovers(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the routes, whoever created them.
    fn routes(&self) -> Vec<RouteFacts> {
        Vec::new()
    }
    /// Returns everything in the cloud that a Service, a Node or a route can leave behind, in full.
    fn objects(&self) -> Vec<Value>;
    /// Returns generated values (IDs, addresses) with a stable text for each, so that two runs can be compared. The text may
    /// itself contain a generated value.
    fn aliases(&self) -> Vec<(String, String)>;

    /// Switches the credential to another, empty account (project, region), or back.
    fn confuse(&self, _is_confused: bool) {}
    /// Adds a running machine to the account of a switched credential.
    fn add_machine_of_others(&self, _name: &str) {}
    /// Creates objects of other owners wherever the cluster shares something with them: load balancers in the account,
    /// routes in the network, settings on the ports of machines. `worker-1`, `worker-2` and `worker-3` exist.
    fn leave_things_of_others(&self);
    /// Returns what others have now.
    fn things_of_others(&self) -> Vec<Value>;

    /// Returns the fake's record of requests and faults; `None` if the fake has others, to which [`fail`](Self::fail) and
    /// [`clear_faults`](Self::clear_faults) translate.
    fn fault_injector(&self) -> Option<&FaultInjector>;
    /// Injects a fault into the fake, until [`clear_faults`](Self::clear_faults).
    fn fail(&self, fault: Fault) {
        if let Some(fault_injector) = self.fault_injector() {
            fault_injector.fail(fault);
        }
    }
    /// Removes all faults at once.
    fn clear_faults(&self) {
        self.fault_injector()
            .into_iter()
            .for_each(FaultInjector::clear_faults);
    }
    /// Returns the ways in which the list on this route, and everything else, can be wrong.
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        Fault::of_list(route)
    }
    /// Returns the most bytes of padding that a client read of one answer, and forgets it; `None` if the fake cannot
    /// send answers without an end.
    fn take_longest_padding(&self) -> Option<usize> {
        let fault_injector = self.fault_injector()?;
        let longest = fault_injector.longest_padding();
        fault_injector.forget_requests();
        Some(longest)
    }
    /// Returns the fault with which the cloud refuses a further load balancer because of a quota; `None` if it has
    /// none.
    fn quota_fault(&self) -> Option<Fault> {
        None
    }
    /// Protects all load balancers against deletion, or ends the protection; returns `false` if the cloud has none.
    fn protect(&self, _is_protected: bool) -> bool {
        false
    }
    /// Removes the ports of every load balancer by hand, as in the cloud's console; `false` if the fake cannot.
    fn tamper(&self) -> bool {
        false
    }
    /// Removes every load balancer by hand, as in the cloud's console; `false` if the fake cannot.
    fn remove_load_balancers(&self) -> bool {
        false
    }

    /// Creates a load balancer by hand, without owner tags and with the name that the load balancer of this Service has; `None`
    /// if the fake cannot.
    fn add_namesake(&self, _service: &Service) -> Option<Namesake> {
        None
    }
    /// Creates a load balancer as an operator does, and returns the patch of a Service that selects it; `None` if a
    /// Service cannot select another load balancer than its own.
    fn add_alternative(&self) -> Option<Value> {
        None
    }

    /// Copies every load balancer by hand, with its owner tags and under another ID and address; `false` if the fake
    /// cannot.
    fn add_twins(&self) -> bool {
        false
    }
    /// Returns the patch of a Service that chooses another value for a setting that the cloud only takes when a load
    /// balancer is created, and that the cloud chose by itself; `None` if there is none.
    fn setting_of_the_creation(&self) -> Option<Value> {
        None
    }

    /// Returns the patch of a Service whose annotation asks for this tag on its load balancer; `None` if the cloud has no
    /// such annotation.
    fn tag_of_a_user(&self, _key: &str, _value: &str) -> Option<Value> {
        None
    }

    /// Prepares a new fake for this number of machines, which are targets of many load balancers: limits, the length of
    /// pages.
    fn prepare(&mut self, _machines: usize) {}
    /// Gives a machine other addresses; `false` if the fake cannot.
    fn change_addresses(&self, _name: &str, _internal: &str, _external: &str) -> bool {
        false
    }
    /// Returns the limits of what Nodes and Services may cost.
    fn cost(&self) -> Cost;
}

/// A function that creates a new profile for each run.
pub type MakeProfile = fn() -> Box<dyn CloudProfile>;

/// The optional features of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The provider implements routes.
    pub routes: bool,
    /// A credential can be switched to another account by [`CloudProfile::confuse`].
    pub accounts: bool,
}

/// Policy of a provider for a load balancer that has the right name and no owner tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namesake {
    /// The Service gets it.
    Adopted,
    /// The load balancer stays unchanged, and the Service waits.
    Refused,
}

/// Requests of a cloud's API by method and path template (`GET /servers/{id}`); a prefix of the path is left out.
#[derive(Clone, Copy, Debug)]
pub struct ApiRequests {
    /// The list of machines.
    pub machines: &'static str,
    /// The list of load balancers.
    pub load_balancers: &'static str,
    /// The creation of a load balancer.
    pub create: &'static str,
    /// Requests that are sent as time passes and not as there is work: polls for readiness, requests for a token.
    pub polls: &'static [&'static str],
}

/// The effort of the proofs that could take any time.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Sampling of crash points: one of so many is tried. An odd number meets all kinds of crash points.
    pub crash_every: usize,
    /// Seeds of the chaos proof.
    pub chaos_seeds: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            crash_every: 1,
            chaos_seeds: 60,
        }
    }
}

impl Effort {
    /// Returns the effort for a cloud: its own, or a sample of it if `CCM_CHANGED_CLOUDS` is set and does not name the cloud.
    /// The variable is a list of names with blanks between them.
    #[must_use]
    pub fn of(cloud: &dyn CloudProfile) -> Self {
        cloud.effort().among(
            cloud.name(),
            std::env::var("CCM_CHANGED_CLOUDS").ok().as_deref(),
        )
    }

    fn among(self, name: &str, changed: Option<&str>) -> Self {
        if changed.is_none_or(|names| {
            names
                .split_whitespace()
                .any(|other_name| other_name == name)
        }) {
            return self;
        }
        Self {
            crash_every: self.crash_every * 5,
            chaos_seeds: self.chaos_seeds.div_ceil(5),
        }
    }
}

/// The settings of a program that uses a fake on a port.
#[derive(Clone, Debug, Default)]
pub struct ProgramSettings {
    /// Environment variables of the program.
    pub environment: Vec<(String, String)>,
    /// The contents of the file for `--cloud-config`, if the provider needs one.
    pub cloud_config: Option<String>,
}

/// A machine of the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the machine and of its Node.
    pub name: String,
    /// Provider ID of the machine.
    pub provider_id: String,
    /// If set, the machine is shut down.
    pub is_stopped: bool,
}

/// A load balancer, as far as every cloud has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerFacts {
    /// The UID of the Service in its owner tags; `None` without owner tags.
    pub service_uid: Option<String>,
    /// The address; `None` while it is created.
    pub address: Option<String>,
    /// Port, protocol, node port; 0 as the node port where traffic reaches Nodes at the Service's own port.
    pub ports: BTreeSet<(u16, String, u16)>,
    /// Provider IDs of the machines behind it.
    pub targets: BTreeSet<String>,
}

/// A route, as far as every cloud has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFacts {
    /// Destination range of the route.
    pub destination: String,
    /// The provider ID of the machine that it leads to.
    pub target: String,
    /// If set, the route has the cluster's owner tags.
    pub is_ours: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds_that_did_not_change_are_tried_at_a_fifth_of_the_crash_points_and_seeds() {
        let own = Effort {
            crash_every: 3,
            chaos_seeds: 12,
        };
        let table = [
            (None, 3, 12),
            (Some("other acme"), 3, 12),
            (Some("acme-two"), 15, 3),
            (Some(""), 15, 3),
        ];
        for (changed, crash_every, chaos_seeds) in table {
            let effort = own.among("acme", changed);
            assert_eq!(
                (effort.crash_every, effort.chaos_seeds),
                (crash_every, chaos_seeds),
                "{changed:?}"
            );
        }
    }
}
