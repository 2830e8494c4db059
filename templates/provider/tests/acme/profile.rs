//! Acme Cloud, as the conformance suite needs it.

use std::sync::Arc;

use axum::Router;
use ccm_conformance::json::{list, number, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings,
};
use cloud_provider::{CloudProvider, Fence, Service, default_load_balancer_name};
use fake_cloud::{Fault, Handle};
use provider_acme::NAME;
use provider_kit::transport::{Credential, Transport};
use serde_json::{Value, json};

use crate::fake::{ACCOUNT, Acme, TOKEN};

/// The account of others.
const OTHERS: &str = "others";
/// The name of a load balancer of others in our account.
const THEIRS: &str = "theirs";

/// The fake and its settings.
#[derive(Clone)]
pub(crate) struct AcmeCloud(Handle<Acme>);

impl Default for AcmeCloud {
    fn default() -> Self {
        Self(Handle::new(Acme::default()))
    }
}

fn provider_id(server: &Value) -> String {
    format!("{NAME}://{}", text(server))
}

fn facts(load_balancer: &Value) -> LoadBalancerFacts {
    let port = |rule: &Value| {
        (
            number(&rule["port"]),
            text(&rule["protocol"]),
            number(&rule["target_port"]),
        )
    };
    LoadBalancerFacts {
        service_uid: list(&load_balancer["tags"])
            .find_map(|tag| Some(text(tag).strip_prefix("ccmrs-service:")?.to_owned())),
        address: load_balancer["ip"].as_str().map(str::to_owned),
        ports: list(&load_balancer["rules"]).map(port).collect(),
        targets: list(&load_balancer["targets"]).map(provider_id).collect(),
    }
}

impl AcmeCloud {
    fn add_server(&self, account: &str, name: &str) -> String {
        let mut cloud = self.0.lock();
        let number = cloud.number();
        let id = format!("srv-{number}");
        cloud.servers.push(json!({
            "id": id, "account": account, "name": name, "region": "north", "plan": "small", "status": "running",
            "public_ip": format!("198.51.{}.{}", number / 256, number % 256),
            "private_ip": format!("10.0.{}.{}", number / 256, number % 256),
        }));
        provider_id(&id.into())
    }

    fn add_load_balancer(&self, name: &str) {
        let theirs = json!({"id": "lb-0", "account": ACCOUNT, "name": name, "status": "active", "tags": ["team:db"]});
        self.0.lock().load_balancers.push(theirs);
    }

    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        self.0
            .lock()
            .servers
            .iter_mut()
            .filter(|server| server["name"] == name)
            .for_each(change);
    }

    fn change_all(&self, change: impl Fn(&mut Value)) -> bool {
        self.0.lock().load_balancers.iter_mut().for_each(change);
        true
    }
}

impl CloudProfile for AcmeCloud {
    fn name(&self) -> &'static str {
        NAME
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: false,
            accounts: true,
        }
    }
    fn api(&self) -> ApiRequests {
        ApiRequests {
            machines: "GET /servers",
            load_balancers: "GET /load_balancers",
            create: "POST /load_balancers",
            polls: &["GET /load_balancers/{id}"],
        }
    }
    /// Less than the default, which tries every crash point and 60 seeds: the template is to be tested in seconds.
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
        let http = Transport::builder("http://acme")
            .credential(Credential::token(TOKEN))
            .fence(fence.clone());
        Arc::new(provider_acme::Acme::new(http.service(api)).expect("a valid address"))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let cloud_config = Some(format!("endpoint: {url}\ntoken: {TOKEN}\n"));
        ProgramSettings {
            cloud_config,
            ..ProgramSettings::default()
        }
    }

    fn add_machine(&self, name: &str) -> String {
        self.add_server(ACCOUNT, name)
    }
    fn stop(&self, name: &str) {
        self.change(name, |server| server["status"] = "stopped".into());
    }
    fn start(&self, name: &str) {
        self.change(name, |server| server["status"] = "running".into());
    }
    fn terminate(&self, name: &str) {
        self.0
            .lock()
            .servers
            .retain(|server| server["name"] != name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |server: &Value| Machine {
            name: text(&server["name"]),
            provider_id: provider_id(&server["id"]),
            is_stopped: server["status"] == "stopped",
        };
        self.0
            .lock()
            .servers
            .iter()
            .filter(|server| server["account"] == ACCOUNT)
            .map(machine)
            .collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        self.0.lock().load_balancers.iter().map(facts).collect()
    }
    fn objects(&self) -> Vec<Value> {
        self.0.lock().load_balancers.clone()
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.0.lock();
        let alias = |object: &Value, key: &str| {
            (
                text(&object[key]),
                format!("<{key} of {}>", text(&object["name"])),
            )
        };
        let of = |all: &[Value], keys: &[&str]| {
            all.iter()
                .flat_map(|object| {
                    keys.iter()
                        .map(|key| alias(object, key))
                        .collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        [
            of(&cloud.servers, &["id", "public_ip", "private_ip"]),
            of(&cloud.load_balancers, &["id", "ip"]),
        ]
        .concat()
    }

    fn confuse(&self, is_confused: bool) {
        self.0.lock().account = if is_confused { OTHERS } else { ACCOUNT };
    }
    fn add_machine_of_others(&self, name: &str) {
        self.add_server(OTHERS, name);
    }
    fn leave_things_of_others(&self) {
        self.add_load_balancer(THEIRS);
    }
    fn things_of_others(&self) -> Vec<Value> {
        self.0
            .lock()
            .load_balancers
            .iter()
            .filter(|load_balancer| load_balancer["name"] == THEIRS)
            .cloned()
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.0.fault_injector())
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::code("POST /load_balancers", "quota_exceeded"))
    }
    fn protect(&self, is_protected: bool) -> bool {
        self.change_all(|load_balancer| load_balancer["protected"] = is_protected.into())
    }
    fn tamper(&self) -> bool {
        self.change_all(|load_balancer| load_balancer["rules"] = json!([]))
    }
    fn remove_load_balancers(&self) -> bool {
        self.0.lock().load_balancers.clear();
        true
    }
    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        self.add_load_balancer(&default_load_balancer_name(service));
        Some(Namesake::Refused)
    }

    fn change_addresses(&self, name: &str, internal: &str, external: &str) -> bool {
        self.change(name, |server| {
            server["private_ip"] = internal.into();
            server["public_ip"] = external.into();
        });
        true
    }
    /// The limits allow a list of load balancers before each creation, because their names are not unique.
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        const PAGES: usize = NODES.div_ceil(100);
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 4 * PAGES,
            },
            created: Limit {
                changes: SERVICES,
                reads: 2 * SERVICES,
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
            deleted: Limit {
                changes: SERVICES,
                reads: 3 * SERVICES,
            },
        }
    }
}
