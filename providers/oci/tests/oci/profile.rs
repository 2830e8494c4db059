//! Oracle Cloud, as the conformance suite needs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use ccm_conformance::json::{list, number, same_targets, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, ProgramSettings,
};
use cloud_provider::{CloudProvider, ConfigFile, Fence, Setup};
use oci_fake::{COMPARTMENT, FINGERPRINT, Fault, Handle, KEY, LB_SUBNET, Oracle, TENANCY, USER};
use provider_kit::transport::in_process;
use provider_oci::config::Config;
use provider_oci::{NAME, Oci};
use serde_json::{Value, json};

/// The name of a load balancer of others.
const THEIRS: &str = "theirs";

/// Oracle Cloud with one compartment.
#[derive(Clone)]
pub(crate) struct OciCloud {
    /// The fake of the APIs.
    pub(crate) fake: Handle<Oracle>,
    is_network: bool,
    /// The network security group of the Nodes, if rules are written to groups.
    group: Option<String>,
}

impl Default for OciCloud {
    fn default() -> Self {
        Self {
            fake: Handle::new(Oracle::default()),
            is_network: false,
            group: None,
        }
    }
}

fn objects(value: &Value) -> impl Iterator<Item = &Value> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, object)| object)
}

impl OciCloud {
    /// A cloud whose Services have network load balancers.
    #[must_use]
    pub(crate) fn network() -> Self {
        Self {
            is_network: true,
            ..Self::default()
        }
    }

    /// A cloud whose rules are in network security groups.
    pub(crate) fn groups() -> Self {
        let cloud = Self::default();
        let group = Some(cloud.fake.lock().add_group("nodes"));
        Self { group, ..cloud }
    }

    fn text(endpoint: &str) -> String {
        let key = KEY.replace('\n', "\n    ");
        format!(
            "auth:\n  region: us-phoenix-1\n  tenancy: {TENANCY}\n  user: {USER}\n  fingerprint: {FINGERPRINT}\n  key: |\n    {key}\n\
             compartment: {COMPARTMENT}\nvcn: {}\nloadBalancer:\n  subnet1: {LB_SUBNET}\nendpoint: {endpoint}\n",
            oci_fake::VCN
        )
    }

    /// The annotations of Services that ask for load balancers of a kind; `null` removes one.
    fn annotations(is_network: bool) -> Value {
        json!({"oci.oraclecloud.com/load-balancer-type": if is_network { json!("nlb") } else { Value::Null }})
    }

    fn kind(&self) -> &'static str {
        if self.is_network {
            "networkloadbalancer"
        } else {
            "loadbalancer"
        }
    }

    fn facts(cloud: &Oracle, object: &Value) -> LoadBalancerFacts {
        let mut ports = BTreeSet::new();
        let mut sets = BTreeSet::new();
        for listener in objects(&object["listeners"]) {
            let set = &object["backendSets"][listener["defaultBackendSetName"]
                .as_str()
                .unwrap_or_default()];
            // Only backends show the node port.
            let port = list(&set["backends"])
                .next()
                .map_or(0, |backend| number(&backend["port"]));
            let protocol = if listener["protocol"] == "UDP" {
                "UDP"
            } else {
                "TCP"
            };
            ports.insert((number(&listener["port"]), protocol.to_owned(), port));
            let target = |backend: &Value| {
                let vnic = cloud
                    .all("vnic")
                    .find(|vnic| vnic["privateIp"] == backend["ipAddress"]);
                let instance = vnic.map(|vnic| text(&vnic["id"]).replace(".vnic.", ".instance."));
                instance.map_or_else(
                    || text(&backend["ipAddress"]),
                    |id| format!("{NAME}://{id}"),
                )
            };
            sets.insert(list(&set["backends"]).map(target).collect());
        }
        LoadBalancerFacts {
            service_uid: object["freeformTags"]["ccm-rs/service"]
                .as_str()
                .map(str::to_owned),
            address: object["ipAddresses"][0]["ipAddress"]
                .as_str()
                .map(str::to_owned),
            ports,
            targets: same_targets(sets),
        }
    }
}

impl CloudProfile for OciCloud {
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
            machines: "GET /instances",
            load_balancers: if self.is_network {
                "GET /networkLoadBalancers"
            } else {
                "GET /loadBalancers"
            },
            create: if self.is_network {
                "POST /networkLoadBalancers"
            } else {
                "POST /loadBalancers"
            },
            polls: &[
                "GET /loadBalancerWorkRequests/{id}",
                "GET /workRequests/{id}",
            ],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 21,
            chaos_seeds: 6,
        }
    }

    fn router(&self) -> Router {
        self.fake.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let file = ConfigFile {
            path: "cloud-provider.yaml".into(),
            text: Self::text("http://oci"),
        };
        let setup = Setup {
            fence: fence.clone(),
            ..Setup::of(file)
        };
        let config = Config::read(&setup).expect("a valid configuration");
        Arc::new(Oci::new(config, &setup, &in_process(api)).expect("a valid address"))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        ProgramSettings {
            environment: Vec::new(),
            cloud_config: Some(Self::text(url)),
        }
    }
    fn service_annotations(&self) -> Value {
        match &self.group {
            Some(group) => json!({
                "oci.oraclecloud.com/security-rule-management-mode": "NSG",
                "oci.oraclecloud.com/oci-backend-network-security-group": group,
            }),
            None if self.is_network => Self::annotations(true),
            None => Value::Null,
        }
    }
    fn has_session_affinity(&self) -> bool {
        false
    }

    fn add_machine(&self, name: &str) -> String {
        format!("{NAME}://{}", self.fake.lock().add_instance(name))
    }
    fn stop(&self, name: &str) {
        self.fake.lock().change_instance(name, |instance| {
            instance["lifecycleState"] = "STOPPED".into();
        });
    }
    fn start(&self, name: &str) {
        self.fake.lock().change_instance(name, |instance| {
            instance["lifecycleState"] = "RUNNING".into();
        });
    }
    fn terminate(&self, name: &str) {
        self.fake.lock().remove_instance(name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["displayName"]),
            provider_id: format!("{NAME}://{}", text(&object["id"])),
            is_stopped: object["lifecycleState"] == "STOPPED",
        };
        self.fake
            .lock()
            .all("instance")
            .filter(|object| !text(&object["id"]).contains("others"))
            .map(machine)
            .collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        let cloud = self.fake.lock();
        let all = cloud
            .all("loadbalancer")
            .chain(cloud.all("networkloadbalancer"));
        all.filter(|object| object["lifecycleState"] != "DELETING")
            .map(|object| Self::facts(&cloud, object))
            .collect()
    }
    fn leftovers(&self) -> Vec<String> {
        if !self.load_balancers().is_empty() {
            return Vec::new();
        }
        let is_left = |object: &Value| {
            object["freeformTags"]["CreatedBy"] == "CCM"
                || object["rule"].is_object() && object["rule"]["description"] != "ssh"
        };
        self.objects()
            .into_iter()
            .filter(is_left)
            .map(|object| object.to_string())
            .collect()
    }
    fn objects(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let kinds = [
            "loadbalancer",
            "networkloadbalancer",
            "securitylist",
            "networksecuritygroup",
        ];
        let mut all: Vec<Value> = kinds
            .iter()
            .flat_map(|kind| cloud.all(kind))
            .cloned()
            .collect();
        let mut rules = Vec::new();
        for object in &mut all {
            for key in ["id", "timeCreated", "etag"] {
                object.as_object_mut().map(|object| object.remove(key));
            }
            // Groups of Nodes keep the mark that rules are managed.
            object["freeformTags"]
                .as_object_mut()
                .map(|freeform_tags| freeform_tags.remove("ManagedBy"));
            // A change that is the last one may still be in progress.
            if object["lifecycleState"] == "UPDATING" {
                object["lifecycleState"] = "ACTIVE".into();
            }
            // Each rule is an object of its own: their order depends on node ports, which differ from run to run.
            for key in ["ingressSecurityRules", "egressSecurityRules"] {
                let of = object["displayName"].clone();
                rules.extend(
                    list(&object[key].take())
                        .map(|rule| json!({"list": of, "direction": key, "rule": rule})),
                );
            }
            for mut rule in list(&object["securityRules"].take()).cloned() {
                rule["id"] = Value::Null;
                rules.push(json!({"list": object["displayName"], "rule": rule}));
            }
            for set in object["backendSets"]
                .as_object_mut()
                .into_iter()
                .flatten()
                .map(|(_, backend_set)| backend_set)
            {
                set["backends"]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|all| all.sort_by_key(ToString::to_string));
            }
        }
        [all, rules].concat()
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.fake.lock();
        let mut aliases = Vec::new();
        for current in cloud.all("vnic") {
            let name = text(&current["hostnameLabel"]);
            aliases.push((text(&current["privateIp"]), format!("<address of {name}>")));
            aliases.push((
                text(&current["id"]).replace(".vnic.", ".instance."),
                format!("<instance {name}>"),
            ));
        }
        for entry in cloud.all("networksecuritygroup") {
            aliases.push((
                text(&entry["id"]),
                format!("<group {}>", text(&entry["displayName"])),
            ));
        }
        for object in cloud
            .all("loadbalancer")
            .chain(cloud.all("networkloadbalancer"))
        {
            let name = text(&object["displayName"]);
            aliases.push((text(&object["id"]), format!("<load balancer {name}>")));
            for address in list(&object["ipAddresses"]) {
                aliases.push((text(&address["ipAddress"]), format!("<address of {name}>")));
            }
        }
        aliases
    }

    fn confuse(&self, is_confused: bool) {
        self.fake.lock().is_confused = is_confused;
    }
    fn add_machine_of_others(&self, name: &str) {
        self.fake.lock().add_instance_of_others(name);
    }
    fn leave_things_of_others(&self) {
        let mut cloud = self.fake.lock();
        cloud.add_balancer(THEIRS);
        cloud.add_group(THEIRS);
    }
    fn things_of_others(&self) -> Vec<Value> {
        self.objects()
            .into_iter()
            .filter(|object| object["displayName"] == THEIRS)
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.fake.fault_injector())
    }
    fn quota_fault(&self) -> Option<Fault> {
        let message = "The limit for flexible-bandwidth load balancers was reached.";
        Some(Fault::refused_as(
            self.api().create,
            400,
            "LimitExceeded",
            message,
        ))
    }
    fn tag_of_a_user(&self, key: &str, value: &str) -> Option<Value> {
        let prefix = if self.is_network {
            "oci-network-load-balancer"
        } else {
            "oci"
        };
        let annotation = format!("{prefix}.oraclecloud.com/initial-freeform-tags-override");
        let tags = json!({"team": "web", key: value}).to_string();
        Some(json!({"metadata": {"annotations": {annotation: tags}}}))
    }
    fn protect(&self, is_protected: bool) -> bool {
        let mut cloud = self.fake.lock();
        let all = cloud
            .objects
            .values_mut()
            .filter(|object| object["listeners"].is_object());
        all.for_each(|object| object["isDeleteProtectionEnabled"] = is_protected.into());
        !self.is_network
    }
    fn tamper(&self) -> bool {
        let mut cloud = self.fake.lock();
        let of = |id: &&mut Value| id["listeners"].is_object();
        cloud
            .objects
            .values_mut()
            .filter(of)
            .for_each(|object| object["listeners"] = json!({}));
        true
    }
    fn remove_load_balancers(&self) -> bool {
        let prefix = format!("ocid1.{}.", self.kind());
        self.fake
            .lock()
            .objects
            .retain(|id, object| !id.starts_with(&prefix) || object["displayName"] == THEIRS);
        true
    }

    fn add_alternative(&self) -> Option<Value> {
        Some(json!({"metadata": {"annotations": Self::annotations(!self.is_network)}}))
    }

    fn prepare(&mut self, _machines: usize) {}
    fn cost(&self) -> Cost {
        const SERVICES: usize = 40;
        let lists = usize::from(!self.is_network);
        Cost {
            nodes: 240,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 10,
            },
            // A load balancer, and the security lists of its subnet and of the Nodes.
            created: Limit {
                changes: SERVICES + lists * 2 * SERVICES,
                reads: 5 * SERVICES + 20,
            },
            // The subnets of the Nodes: three lists.
            unchanged: Limit {
                changes: 0,
                reads: 3,
            },
            steady: Limit {
                changes: 0,
                reads: 60,
            },
            // Each time, instances, VNIC attachments and private addresses: three lists.
            not_ready: Limit {
                changes: 0,
                reads: 380,
            },
            joined: Limit {
                changes: SERVICES * 2,
                reads: 12 * SERVICES,
            },
            deleted: Limit {
                changes: SERVICES * 3,
                reads: 12 * SERVICES,
            },
        }
    }
}
