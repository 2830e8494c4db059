//! Rancher, as the conformance suite needs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use ccm_conformance::json::number;
pub(crate) use ccm_conformance::json::{list, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings,
};
use cloud_provider::{
    CloudProvider, Environment, Fence, Service, Setup, default_load_balancer_name,
};
use provider_rancher::config::Config;
use provider_rancher::{NAME, Rancher, cloud};
use serde_json::{Value, json};

use rancher_fake::{ACCESS_KEY, ENVIRONMENT, Handle, Rancher as Fake, SECRET_KEY};

/// The environment of others.
const OTHERS: &str = "others";
/// The name of services of others in our environment.
const THEIRS: &str = "theirs";

/// The fake and its settings.
#[derive(Clone)]
pub(crate) struct RancherCloud(pub(crate) Handle<Fake>);

impl Default for RancherCloud {
    fn default() -> Self {
        Self(Handle::new(Fake::default()))
    }
}

fn provider_id(host: &Value) -> String {
    format!("{NAME}://{}", text(&host["uuid"]))
}

/// Returns the variables of a program that uses the fake at a URL.
pub(crate) fn variables(url: &str) -> [(&'static str, String); 3] {
    let [access, secret] = [ACCESS_KEY, SECRET_KEY].map(str::to_owned);
    [
        ("CATTLE_URL", url.to_owned()),
        ("CATTLE_ACCESS_KEY", access),
        ("CATTLE_SECRET_KEY", secret),
    ]
}

fn is_balancer(object: &Value) -> bool {
    object["type"] == "loadBalancerService"
}

/// Adds a service as another program does.
fn insert(cloud: &mut Fake, kind: &str, name: &str, more: &Value) -> String {
    let id = format!("1s{}", cloud.number());
    let mut service = json!({
        "id": id, "type": kind, "environment": ENVIRONMENT, "name": name, "stackId": "1st9", "state": "active",
        "removed": null, "metadata": {"team": "db"}, "linkedServices": {}, "publicEndpoints": [],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        service[key] = value.clone();
    }
    cloud.services.push(service);
    id
}

impl RancherCloud {
    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        self.0
            .lock()
            .hosts
            .iter_mut()
            .filter(|host| host["hostname"] == name)
            .for_each(change);
    }

    fn facts(&self, object: &Value) -> LoadBalancerFacts {
        let cloud = self.0.lock();
        let mut ports = BTreeSet::new();
        let mut targets = BTreeSet::new();
        for rule in list(&object["lbConfig"]["portRules"]) {
            ports.insert((
                number(&rule["sourcePort"]),
                "TCP".to_owned(),
                number(&rule["targetPort"]),
            ));
            let service = cloud
                .services
                .iter()
                .find(|service| service["id"] == rule["serviceId"] && service["removed"].is_null());
            let ip = service
                .map(|service| text(&service["externalIpAddresses"][0]))
                .unwrap_or_default();
            let host = cloud.hosts.iter().find(|host| host["addresses"][0] == *ip);
            targets.insert(host.map_or(ip, provider_id));
        }
        LoadBalancerFacts {
            service_uid: object["metadata"]["ccm-rs/service"]
                .as_str()
                .map(str::to_owned),
            address: object["publicEndpoints"][0]["ipAddress"]
                .as_str()
                .map(str::to_owned),
            ports,
            targets,
        }
    }

    fn live(&self) -> Vec<Value> {
        let mut cloud = self.0.lock();
        cloud.finish();
        cloud
            .services
            .iter()
            .filter(|service| service["removed"].is_null())
            .cloned()
            .collect()
    }
}

impl CloudProfile for RancherCloud {
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
            machines: "GET /hosts",
            load_balancers: "GET /loadbalancerservices",
            create: "POST /loadbalancerservices",
            polls: &[
                "GET /loadbalancerservices/{id}",
                "GET /loadbalancerservices",
            ],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 3,
            chaos_seeds: 20,
        }
    }

    fn router(&self) -> Router {
        self.0.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let environment = Environment::of(variables("http://rancher"));
        let setup = Setup {
            environment,
            fence: fence.clone(),
            ..Setup::default()
        };
        let config = Config::read(&setup).expect("a valid configuration");
        let http = cloud(&config, &setup)
            .service(api)
            .build()
            .expect("a valid address");
        Arc::new(Rancher::new(config, http))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let environment = variables(url)
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        ProgramSettings {
            environment,
            cloud_config: None,
        }
    }
    fn has_session_affinity(&self) -> bool {
        false
    }

    fn add_machine(&self, name: &str) -> String {
        format!("{NAME}://{}", self.0.lock().add_host(ENVIRONMENT, name))
    }
    fn stop(&self, name: &str) {
        self.change(name, |object| object["state"] = "inactive".into());
    }
    fn start(&self, name: &str) {
        self.change(name, |object| object["state"] = "active".into());
    }
    fn terminate(&self, name: &str) {
        self.0.lock().hosts.retain(|host| host["hostname"] != name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["hostname"]),
            provider_id: provider_id(object),
            is_stopped: object["state"] == "inactive",
        };
        self.0
            .lock()
            .hosts
            .iter()
            .filter(|host| host["environment"] == ENVIRONMENT)
            .map(machine)
            .collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        self.live()
            .iter()
            .filter(|object| is_balancer(object))
            .map(|object| self.facts(object))
            .collect()
    }
    fn leftovers(&self) -> Vec<String> {
        let live = self.live();
        let used: BTreeSet<String> = live
            .iter()
            .flat_map(|object| list(&object["lbConfig"]["portRules"]))
            .map(|port_rule| text(&port_rule["serviceId"]))
            .collect();
        let is_ours = |object: &&Value| {
            let is_tagged = object["metadata"]["ccm-rs/cluster"]
                .as_str()
                .is_some_and(|ccm_rs_cluster| ccm_rs_cluster != "another");
            !is_balancer(object) && is_tagged && !used.contains(&text(&object["id"]))
        };
        live.iter()
            .filter(is_ours)
            .map(|object| format!("external service {}", object["name"]))
            .collect()
    }
    fn objects(&self) -> Vec<Value> {
        let mut all = self.live();
        all.sort_by_key(|object| (text(&object["type"]), text(&object["name"])));
        all
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.0.lock();
        let mut aliases = Vec::new();
        for entry in &cloud.hosts {
            let name = text(&entry["hostname"]);
            aliases.extend([
                (text(&entry["uuid"]), format!("<host {name}>")),
                (text(&entry["addresses"][0]), format!("<address of {name}>")),
            ]);
        }
        for object in cloud
            .services
            .iter()
            .filter(|service| service["removed"].is_null())
        {
            let name = text(&object["name"]);
            let owner = object["metadata"]["ccm-rs/service"]
                .as_str()
                .unwrap_or(&name)
                .to_owned();
            aliases.push((
                text(&object["id"]),
                format!("<{} of {owner}>", text(&object["type"])),
            ));
            aliases.push((
                text(&object["publicEndpoints"][0]["ipAddress"]),
                format!("<address of {owner}>"),
            ));
            if is_balancer(object) && owner != name {
                aliases.push((name, format!("<name of {owner}>")));
            }
        }
        aliases.extend(
            cloud
                .stacks
                .iter()
                .map(|stack| (text(&stack["id"]), "<stack>".to_owned())),
        );
        aliases.retain(|(value, _)| !value.is_empty());
        aliases
    }

    fn confuse(&self, is_confused: bool) {
        self.0.lock().environment = if is_confused { OTHERS } else { ENVIRONMENT };
    }
    fn add_machine_of_others(&self, name: &str) {
        self.0.lock().add_host(OTHERS, name);
    }
    fn leave_things_of_others(&self) {
        let mut cloud = self.0.lock();
        let backend = insert(
            &mut cloud,
            "externalService",
            THEIRS,
            &json!({"externalIpAddresses": ["192.0.2.1"]}),
        );
        let rule =
            json!({"sourcePort": 80, "targetPort": 80, "serviceId": backend, "protocol": "tcp"});
        let balancer =
            json!({"lbConfig": {"portRules": [rule]}, "linkedServices": {THEIRS: backend}});
        insert(&mut cloud, "loadBalancerService", THEIRS, &balancer);
        let tagged = json!({"metadata": {"ccm-rs/cluster": "another"}, "externalIpAddresses": ["192.0.2.2"]});
        insert(
            &mut cloud,
            "externalService",
            &format!("{THEIRS}-2"),
            &tagged,
        );
    }
    fn things_of_others(&self) -> Vec<Value> {
        self.live()
            .into_iter()
            .filter(|object| text(&object["name"]).starts_with(THEIRS))
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.0.fault_injector())
    }
    fn tamper(&self) -> bool {
        let mut cloud = self.0.lock();
        let ours = cloud
            .services
            .iter_mut()
            .filter(|service| is_balancer(service) && service["name"] != THEIRS);
        ours.for_each(|object| object["lbConfig"]["portRules"] = json!([]));
        true
    }
    fn remove_load_balancers(&self) -> bool {
        self.0
            .lock()
            .services
            .retain(|service| !is_balancer(service));
        true
    }
    /// A load balancer with the name of the Go program is the Service's own.
    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        let mut cloud = self.0.lock();
        let launch = json!({"ports": ["80:80/tcp"], "imageUuid": "docker:lb"});
        let config = json!({"state": "inactive", "launchConfig": launch, "lbConfig": {}});
        insert(
            &mut cloud,
            "loadBalancerService",
            &format!("lb-{}", default_load_balancer_name(service)),
            &config,
        );
        Some(Namesake::Adopted)
    }
    fn change_addresses(&self, name: &str, internal: &str, _external: &str) -> bool {
        self.change(name, |object| object["addresses"] = json!([internal]));
        true
    }

    fn add_twins(&self) -> bool {
        let mut cloud = self.0.lock();
        for mut twin in cloud.services.clone().into_iter().filter(is_balancer) {
            let number = cloud.number();
            // A stack has no two services of the same name.
            (twin["id"], twin["stackId"]) = (format!("1s{number}").into(), "1st99".into());
            twin["publicEndpoints"] =
                json!([{"ipAddress": format!("203.0.114.{number}"), "port": 80}]);
            cloud.services.push(twin);
        }
        true
    }

    fn prepare(&mut self, _machines: usize) {}
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
                changes: 3 * SERVICES + NODES + 1,
                reads: 20 * SERVICES,
            },
            unchanged: Limit {
                changes: 0,
                reads: 0,
            },
            steady: Limit {
                changes: 0,
                reads: 60,
            },
            // A list of hosts for each of the 120 checks.
            not_ready: Limit {
                changes: 0,
                reads: 122 * PAGES,
            },
            joined: Limit {
                changes: 2 * SERVICES + 1,
                reads: 20 * SERVICES,
            },
            deleted: Limit {
                changes: SERVICES + NODES + 5,
                reads: 20 * SERVICES,
            },
        }
    }
}
