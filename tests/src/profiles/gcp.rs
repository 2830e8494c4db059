//! Google Cloud, as the proofs need it: the provider over the fake of its API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use ccm_conformance::json::{list, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, ProgramSettings, RouteFacts,
};
use cloud_provider::{CloudProvider, ConfigFile, Environment, Fence, Setup};
use gcp_fake::{Fault, Gcp, Handle, PROJECT, REGION, ZONE, path_of};
use parking_lot::Mutex;
use provider_gcp::Gce;
use provider_gcp::config::Config;
use provider_kit::transport::in_process;
use serde_json::{Value, json};

/// The name of what others have.
const THEIRS: &str = "theirs";

/// Google Cloud with one project.
#[derive(Clone)]
pub struct GcpCloud {
    /// The fake of the API.
    pub fake: Handle<Gcp>,
    is_internal: bool,
    /// UIDs of Services by the names of their load balancers, which contain only a part of them.
    owners: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Default for GcpCloud {
    fn default() -> Self {
        Self {
            fake: Handle::new(Gcp::default()),
            is_internal: false,
            owners: Arc::default(),
        }
    }
}

fn provider_id(url: &str) -> String {
    let parts: Vec<_> = path_of(url).split('/').collect();
    format!("gce://{}/{}/{}", parts[0], parts[2], parts[4])
}

impl GcpCloud {
    /// A cloud whose load balancers are internal.
    #[must_use]
    pub fn internal() -> Self {
        Self {
            is_internal: true,
            ..Self::default()
        }
    }

    fn text(&self, endpoint: &str) -> String {
        let kind = if self.is_internal {
            "Internal"
        } else {
            "External"
        };
        format!(
            "[global]\nproject-id = {PROJECT}\nlocal-zone = {ZONE}\nnetwork-name = default\nsubnetwork-name = default\n\
             node-tags = node\napi-endpoint = {endpoint}/compute/v1/\nload-balancer-type = {kind}\n"
        )
    }

    /// Returns the route on which the pool of a load balancer is created.
    fn pool_route(&self) -> &'static str {
        match self.is_internal {
            true => "POST /projects/{project}/regions/{region}/backendServices",
            false => "POST /projects/{project}/regions/{region}/targetPools",
        }
    }

    /// Returns an object of the API by its URL.
    fn at(cloud: &Gcp, url: &Value) -> Value {
        cloud
            .objects
            .get(path_of(url.as_str().unwrap_or_default()))
            .cloned()
            .unwrap_or_default()
    }

    fn facts(cloud: &Gcp, rule: &Value) -> LoadBalancerFacts {
        let description: Value =
            serde_json::from_str(&text(&rule["description"])).unwrap_or_default();
        let labelled = rule["labels"]["ccm-rs-service"]
            .as_str()
            .or(description["ccm-rs/service"].as_str());
        let name = format!("k8s-fw-{}", text(&rule["name"]));
        let firewall = cloud
            .all("firewalls")
            .find(|object| object["name"] == name.as_str())
            .cloned()
            .unwrap_or_default();
        let protocol = text(&rule["IPProtocol"]);
        let mut ports = BTreeSet::new();
        for range in list(&firewall["allowed"][0]["ports"]).map(text) {
            let (first, last) = range.split_once('-').unwrap_or((&range, &range));
            let bounds: [u16; 2] = [first, last].map(|text| text.parse().unwrap_or_default());
            ports.extend((bounds[0]..=bounds[1]).map(|port| (port, protocol.clone(), 0)));
        }
        let pool = if rule["target"].is_string() {
            Self::at(cloud, &rule["target"])
        } else {
            Self::at(cloud, &rule["backendService"])
        };
        let groups: Vec<Value> = list(&pool["backends"])
            .map(|backends| Self::at(cloud, &backends["group"]))
            .collect();
        let members = groups.iter().flat_map(|group| list(&group["members"]));
        LoadBalancerFacts {
            service_uid: labelled.map(str::to_owned),
            address: rule["IPAddress"].as_str().map(str::to_owned),
            ports,
            targets: list(&pool["instances"])
                .chain(members)
                .map(|url| provider_id(&text(url)))
                .collect(),
        }
    }
}

impl CloudProfile for GcpCloud {
    fn name(&self) -> &'static str {
        "gce"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: true,
            accounts: false,
        }
    }
    fn api(&self) -> ApiRequests {
        ApiRequests {
            machines: "GET /projects/{project}/aggregated/instances",
            load_balancers: "GET /projects/{project}/regions/{region}/forwardingRules",
            // The first object that only one load balancer has.
            create: self.pool_route(),
            polls: &[
                "GET /projects/{project}/global/operations",
                "GET /projects/{project}/regions/{region}/operations",
                "GET /projects/{project}/zones/{zone}/operations",
                "GET /computeMetadata/v1/instance/service-accounts/default/token",
            ],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 9,
            chaos_seeds: 10,
        }
    }

    fn uses_kubernetes(&self) -> bool {
        true
    }
    fn router(&self) -> Router {
        self.fake.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let file = ConfigFile {
            path: "gce.conf".into(),
            text: self.text("http://gcp"),
        };
        let environment = Environment::of([("GCE_METADATA_HOST", "gcp")]);
        let setup = Setup {
            environment,
            fence: fence.clone(),
            ..Setup::of(file)
        };
        let config = Config::read(&setup).expect("a valid configuration");
        Arc::new(Gce::new(config, &setup, &in_process(api)).expect("a valid address"))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let host = url.trim_start_matches("http://").to_owned();
        ProgramSettings {
            environment: vec![("GCE_METADATA_HOST".to_owned(), host)],
            cloud_config: Some(self.text(url)),
        }
    }

    fn add_machine(&self, name: &str) -> String {
        self.fake.lock().add_instance(name, ZONE)
    }
    fn stop(&self, name: &str) {
        self.fake
            .lock()
            .change_instance(name, |instance| instance["status"] = "TERMINATED".into());
    }
    fn start(&self, name: &str) {
        self.fake
            .lock()
            .change_instance(name, |instance| instance["status"] = "RUNNING".into());
    }
    fn terminate(&self, name: &str) {
        self.fake.lock().remove_instance(name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["name"]),
            provider_id: provider_id(&text(&object["selfLink"])),
            is_stopped: object["status"] == "TERMINATED",
        };
        self.fake.lock().all("instances").map(machine).collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        let cloud = self.fake.lock();
        let mut owners = self.owners.lock();
        let mut all = Vec::new();
        for rule in cloud.all("forwardingRules") {
            let facts = Self::facts(&cloud, rule);
            owners.extend(
                facts
                    .service_uid
                    .iter()
                    .map(|uid| (text(&rule["name"]), uid.clone())),
            );
            all.push(facts);
        }
        // The firewall for traffic is deleted last, so one without a forwarding rule belongs to an incomplete deletion.
        let has_rule = |name: &str| {
            cloud
                .all("forwardingRules")
                .any(|rule| rule["name"] == name)
        };
        let names = cloud
            .all("firewalls")
            .filter_map(|object| object["name"].as_str()?.strip_prefix("k8s-fw-"));
        for name in names.filter(|name| !has_rule(name)) {
            let ports = BTreeSet::new();
            let targets = BTreeSet::new();
            all.push(LoadBalancerFacts {
                service_uid: owners.get(name).cloned(),
                address: None,
                ports,
                targets,
            });
        }
        all
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let cloud = self.fake.lock();
        let route = |object: &Value| RouteFacts {
            destination: text(&object["destRange"]),
            target: provider_id(&text(&object["nextHopInstance"])),
            is_ours: object["description"] == "k8s-node-route",
        };
        cloud.all("routes").map(route).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let is_made = |path: &&String| {
            ![
                "/instances/",
                "/networks/",
                "/subnetworks/",
                "/zones/us-central1-a",
                "/zones/us-central1-b",
            ]
            .iter()
            .any(|zones_us_central1_b| {
                path.contains(zones_us_central1_b) && !path.contains("/instanceGroups/")
            })
        };
        let all = cloud
            .objects
            .iter()
            .filter(|(path, _)| is_made(path))
            .map(|(_, object)| object.clone());
        let mut all: Vec<Value> = all.collect();
        for object in &mut all {
            for key in ["id", "fingerprint", "labelFingerprint"] {
                object.as_object_mut().map(|object| object.remove(key));
            }
            for key in ["instances", "members", "backends"] {
                object[key]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|all| all.sort_by_key(ToString::to_string));
            }
        }
        all
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.fake.lock();
        let mut aliases = Vec::new();
        for instance in cloud.all("instances") {
            let name = text(&instance["name"]);
            let nic = &instance["networkInterfaces"][0];
            aliases.push((text(&nic["networkIP"]), format!("<address of {name}>")));
            aliases.push((
                text(&nic["accessConfigs"][0]["natIP"]),
                format!("<external address of {name}>"),
            ));
        }
        for forwarding_rule in cloud.all("forwardingRules") {
            let description: Value =
                serde_json::from_str(&text(&forwarding_rule["description"])).unwrap_or_default();
            let service = text(&description["kubernetes.io/service-name"]);
            aliases.push((
                text(&forwarding_rule["IPAddress"]),
                format!("<address of {service}>"),
            ));
            aliases.push((
                text(&forwarding_rule["name"]),
                format!("<load balancer of {service}>"),
            ));
        }
        for health_check in cloud
            .all("healthChecks")
            .chain(cloud.all("httpHealthChecks"))
        {
            if let Some(id) = text(&health_check["name"])
                .strip_prefix("k8s-")
                .and_then(|text| text.strip_suffix("-node"))
            {
                aliases.push((id.to_owned(), "<cluster>".to_owned()));
            }
        }
        aliases
    }

    fn leave_things_of_others(&self) {
        let mut cloud = self.fake.lock();
        let pool = format!("{PROJECT}/regions/{REGION}/targetPools/{THEIRS}");
        cloud.insert(&pool, json!({"instances": [], "sessionAffinity": "NONE"}));
        let rule = json!({"target": cloud.link(&pool), "IPAddress": "203.0.113.250", "IPProtocol": "TCP", "portRange": "80-80",
            "loadBalancingScheme": "EXTERNAL", "description": THEIRS});
        cloud.insert(
            &format!("{PROJECT}/regions/{REGION}/forwardingRules/{THEIRS}"),
            rule,
        );
        let network = cloud.link(&format!("{PROJECT}/global/networks/default"));
        let firewall =
            json!({"network": network, "allowed": [{"IPProtocol": "tcp"}], "priority": 900});
        cloud.insert(&format!("{PROJECT}/global/firewalls/{THEIRS}"), firewall);
        let hop = cloud.link(&format!("{PROJECT}/zones/{ZONE}/instances/worker-1"));
        let route = json!({"network": network, "destRange": "192.168.7.0/24", "nextHopInstance": hop, "priority": 1000});
        cloud.insert(&format!("{PROJECT}/global/routes/{THEIRS}"), route);
    }
    fn things_of_others(&self) -> Vec<Value> {
        self.objects()
            .into_iter()
            .filter(|object| object["name"] == THEIRS)
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.fake.fault_injector())
    }
    fn quota_fault(&self) -> Option<Fault> {
        // That of forwarding rules would refuse their replacement as well, which needs no further one in the cloud.
        let message = "Quota of pools exceeded. Limit: 15.0 in region us-central1.";
        Some(Fault::refused_as(
            self.pool_route(),
            403,
            "quotaExceeded",
            message,
        ))
    }
    fn tamper(&self) -> bool {
        self.fake
            .lock()
            .objects
            .retain(|path, _| !path.contains("/firewalls/k8s-fw-"));
        true
    }
    fn remove_load_balancers(&self) -> bool {
        let is_kept = |path: &str| {
            !path.contains("/forwardingRules/") && !path.contains("/firewalls/k8s-fw-")
        };
        self.fake
            .lock()
            .objects
            .retain(|path, object| is_kept(path) || object["name"] == THEIRS);
        true
    }

    fn prepare(&mut self, _machines: usize) {}
    fn cost(&self) -> Cost {
        const SERVICES: usize = 40;
        // More than a target pool is created with. Instance groups have no such limit.
        let nodes = if self.is_internal { 120 } else { 210 };
        // A pool, a forwarding rule and a firewall; once a check and its firewall. A target pool is created with at most 200
        // instances, so the others are added to it.
        let created = if self.is_internal {
            3 * SERVICES + 10
        } else {
            4 * SERVICES + 5
        };
        Cost {
            nodes,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 10,
            },
            // The forwarding rule and a held address.
            created: Limit {
                changes: created,
                reads: 2 * SERVICES + 60,
            },
            unchanged: Limit {
                changes: 0,
                reads: 0,
            },
            steady: Limit {
                changes: 0,
                reads: 60,
            },
            not_ready: Limit {
                changes: 0,
                reads: 260,
            },
            joined: Limit {
                changes: SERVICES + 5,
                reads: 4 * SERVICES + 20,
            },
            deleted: Limit {
                changes: 3 * SERVICES + 5,
                reads: 9 * SERVICES,
            },
        }
    }
}
