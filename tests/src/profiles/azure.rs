//! Azure, as the proofs need it: the provider over a fake of Azure Resource Manager.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use azure_fake::{
    Azure as Cloud, CLIENT, Fault, GROUP, Handle, LOCATION, NETWORK, ROUTE_TABLE, SECURITY_GROUP,
    SUBSCRIPTION, TENANT, id,
};
use ccm_conformance::json::{list, text};
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, Effort, FaultInjector, Limit,
    LoadBalancerFacts, Machine, ProgramSettings, RouteFacts,
};
use cloud_provider::{CloudProvider, ConfigFile, Fence, Setup};
use provider_azure::{Azure, NAME};
use serde_json::{Value, json};

const BALANCERS: &str = "Microsoft.Network/loadBalancers";
const ADDRESSES: &str = "Microsoft.Network/publicIPAddresses";
const GROUPS: &str = "Microsoft.Network/networkSecurityGroups";
const TABLES: &str = "Microsoft.Network/routeTables";
/// The name of elements of others.
const THEIRS: &str = "theirs";
const THEIR_RANGE: &str = "192.0.2.0/24";
/// Pods are in this range.
const POD_RANGE: &str = "10.244.";

/// The form of pools, and the kind of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Addresses of standalone machines.
    Addresses,
    /// Network interfaces of the standalone machines of an availability set.
    AvailabilitySet,
    /// Network interfaces of the instances of a uniform scale set.
    ScaleSet,
}

/// The fake and its settings.
#[derive(Clone)]
pub struct AzureCloud {
    fake: Handle<Cloud>,
    form: Form,
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    list(&value["properties"][name])
}

/// Returns the part of an element's name that tells its Service.
fn owner(name: &str) -> Option<&str> {
    let owner = name.get(..32)?;
    (owner.starts_with('a') && owner.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(owner)
}

fn provider_id(machine: &Value) -> String {
    format!("{NAME}://{}", text(&machine["id"]))
}

/// Returns the destinations of a security rule.
fn destinations(rule: &Value) -> Vec<String> {
    let properties = &rule["properties"];
    let single =
        Some(text(&properties["destinationAddressPrefix"])).filter(|text| !text.is_empty());
    list(&properties["destinationAddressPrefixes"])
        .map(text)
        .chain(single)
        .collect()
}

/// Returns an object without what differs from run to run and concerns nobody.
fn comparable(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("etag");
    }
    if let Some(properties) = object["properties"].as_object_mut() {
        [
            "priority",
            "destinationAddressPrefix",
            "destinationAddressPrefixes",
            "loadBalancerBackendAddresses",
        ]
        .iter()
        .for_each(|key| drop(properties.remove(*key)));
    }
    object
}

impl AzureCloud {
    /// Creates a resource group whose load balancers have pools of this form.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self {
            fake: Handle::new(Cloud::default()),
            form,
        }
    }

    /// Returns the configuration file, with further keys.
    fn config(&self, more: &Value) -> String {
        let mut config = json!({
            "tenantId": TENANT, "subscriptionId": SUBSCRIPTION, "aadClientId": CLIENT.0, "aadClientSecret": CLIENT.1,
            "resourceGroup": GROUP, "location": LOCATION, "securityGroupName": SECURITY_GROUP, "routeTableName": ROUTE_TABLE,
            "vnetName": NETWORK.0, "subnetName": NETWORK.1,
            "loadBalancerBackendPoolConfigurationType": if self.form == Form::Addresses { "nodeIP" } else { "nodeIPConfiguration" },
        });
        match self.form {
            Form::Addresses => {}
            Form::AvailabilitySet => config["vmType"] = "standard".into(),
            Form::ScaleSet => config["disableAvailabilitySetNodes"] = true.into(),
        }
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        config.to_string()
    }

    fn members(cloud: &Cloud, pool: &Value) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let by_ip: BTreeMap<String, String> = cloud
            .machines()
            .map(|machine| (cloud.address_of(machine), provider_id(machine)))
            .collect();
        for address in items(pool, "loadBalancerBackendAddresses") {
            let ip = text(&address["properties"]["ipAddress"]);
            found.insert(by_ip.get(&ip).cloned().unwrap_or(ip));
        }
        let interface = |object: &Value| {
            text(&object["properties"]["networkProfile"]["networkInterfaces"][0]["id"])
        };
        let machines: BTreeMap<String, String> = cloud
            .machines()
            .map(|machine| (interface(machine), provider_id(machine)))
            .collect();
        for configuration in cloud.members_of(&text(&pool["id"])) {
            let interface = configuration
                .split("/ipConfigurations/")
                .next()
                .unwrap_or_default();
            found.insert(machines.get(interface).cloned().unwrap_or(configuration));
        }
        found
    }

    /// Returns the members of each pool, by its ID.
    fn pools(cloud: &Cloud) -> BTreeMap<String, BTreeSet<String>> {
        let pools = cloud
            .all(BALANCERS)
            .flat_map(|object| items(object, "backendAddressPools"));
        pools
            .map(|pool| (text(&pool["id"]), Self::members(cloud, pool)))
            .collect()
    }

    fn facts(
        cloud: &Cloud,
        balancer: &Value,
        frontend: &Value,
        pools: &BTreeMap<String, BTreeSet<String>>,
    ) -> LoadBalancerFacts {
        let name = text(&frontend["name"]);
        let address = cloud
            .get(&text(&frontend["properties"]["publicIPAddress"]["id"]))
            .cloned()
            .unwrap_or_default();
        let mut ports = BTreeSet::new();
        let mut targets = BTreeSet::new();
        let number =
            |value: &Value| u16::try_from(value.as_u64().unwrap_or_default()).unwrap_or_default();
        for rule in items(balancer, "loadBalancingRules")
            .filter(|load_balancing_rule| text(&load_balancing_rule["name"]).starts_with(&name))
        {
            let properties = &rule["properties"];
            let keeps_port = properties["enableFloatingIP"] == true;
            ports.insert((
                number(&properties["frontendPort"]),
                text(&properties["protocol"]).to_uppercase(),
                if keeps_port {
                    0
                } else {
                    number(&properties["backendPort"])
                },
            ));
            let members = pools.get(&text(&properties["backendAddressPool"]["id"]));
            targets.extend(members.into_iter().flatten().cloned());
        }
        LoadBalancerFacts {
            service_uid: owner(&name)
                .and_then(|_| address["tags"]["ccm-rs-service"].as_str())
                .map(str::to_owned),
            address: address["properties"]["ipAddress"]
                .as_str()
                .map(str::to_owned),
            ports,
            targets,
        }
    }
}

impl CloudProfile for AzureCloud {
    fn name(&self) -> &'static str {
        NAME
    }
    fn tag_of_a_user(&self, key: &str, value: &str) -> Option<Value> {
        let annotation = "service.beta.kubernetes.io/azure-pip-tags";
        let tag = format!("{}={value}", key.replace('/', "-"));
        Some(json!({"metadata": {"annotations": {annotation: format!("team=web,{tag}")}}}))
    }
    /// A subscription is in the path of each request: there is no other one that a credential could show instead.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: true,
            accounts: false,
        }
    }
    fn api(&self) -> ApiRequests {
        ApiRequests {
            machines: if self.form == Form::ScaleSet {
                "GET /Microsoft.Compute/virtualMachineScaleSets/{name}/virtualMachines"
            } else {
                "GET /Microsoft.Compute/virtualMachines"
            },
            load_balancers: "GET /Microsoft.Network/loadBalancers",
            create: "PUT /Microsoft.Network/publicIPAddresses/{name}",
            polls: &[
                "GET /{namespace}/locations/{location}/operations/{operation}",
                "POST /{tenant}/oauth2/v2.0/token",
            ],
        }
    }
    fn effort(&self) -> Effort {
        Effort {
            crash_every: 5,
            chaos_seeds: 20,
        }
    }

    fn router(&self) -> Router {
        self.fake.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let file = ConfigFile {
            path: "azure.json".into(),
            text: self.config(&Value::Null),
        };
        let setup = Setup {
            fence: fence.clone(),
            ..Setup::of(file)
        };
        Arc::new(
            Azure::new(&setup, move |http| http.service(api.clone()))
                .expect("a valid configuration"),
        )
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let path = std::env::temp_dir().join(format!(
            "azure-environment-{}.json",
            url.replace(|character: char| !character.is_ascii_digit(), "")
        ));
        let endpoints = json!({"activeDirectoryEndpoint": url, "resourceManagerEndpoint": url});
        std::fs::write(&path, endpoints.to_string()).expect("a file");
        let environment = vec![(
            "AZURE_ENVIRONMENT_FILEPATH".to_owned(),
            path.display().to_string(),
        )];
        ProgramSettings {
            environment,
            cloud_config: Some(self.config(&json!({"cloud": "AzureStackCloud"}))),
        }
    }

    fn add_machine(&self, name: &str) -> String {
        let mut cloud = self.fake.lock();
        let id = match self.form {
            Form::Addresses => cloud.add_machine(name),
            Form::AvailabilitySet => cloud.add_machine_of_set("workers", name),
            Form::ScaleSet => cloud.add_instance("workers", name),
        };
        format!("{NAME}://{id}")
    }
    fn stop(&self, name: &str) {
        self.fake.lock().set_power(name, true);
    }
    fn start(&self, name: &str) {
        self.fake.lock().set_power(name, false);
    }
    fn terminate(&self, name: &str) {
        self.fake.lock().terminate(name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |object: &Value| Machine {
            name: text(&object["properties"]["osProfile"]["computerName"]),
            provider_id: provider_id(object),
            is_stopped: object["properties"]["instanceView"]["statuses"][1]["code"]
                != "PowerState/running",
        };
        self.fake.lock().machines().map(machine).collect()
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        let cloud = self.fake.lock();
        let pools = Self::pools(&cloud);
        let of = |object: &Value| {
            let frontends = items(object, "frontendIPConfigurations");
            frontends
                .map(|frontend| Self::facts(&cloud, object, frontend, &pools))
                .collect::<Vec<_>>()
        };
        cloud.all(BALANCERS).flat_map(of).collect()
    }
    fn leftovers(&self) -> Vec<String> {
        let served: Vec<_> = self
            .load_balancers()
            .into_iter()
            .filter_map(|facts| facts.address)
            .collect();
        let cloud = self.fake.lock();
        let is_left = |object: &&Value| {
            object["tags"]["ccm-rs-service"].is_string()
                && !served.contains(&text(&object["properties"]["ipAddress"]))
        };
        let mut left: Vec<_> = cloud
            .all(ADDRESSES)
            .filter(is_left)
            .map(|object| format!("left over: {}", object["name"]))
            .collect();
        let rules = cloud
            .all(GROUPS)
            .flat_map(|object| items(object, "securityRules"));
        for rule in rules.filter(|rule| text(&rule["name"]).starts_with("k8s-azure-lb_")) {
            let stale = destinations(rule)
                .into_iter()
                .filter(|ip| !served.contains(ip));
            left.extend(stale.map(|ip| format!("left over: {ip} in rule {}", rule["name"])));
        }
        left
    }
    fn routes(&self) -> Vec<RouteFacts> {
        let cloud = self.fake.lock();
        let facts = |object: &Value| {
            let hop = text(&object["properties"]["nextHopIpAddress"]);
            let destination = text(&object["properties"]["addressPrefix"]);
            let target = cloud
                .machines()
                .find(|machine| cloud.address_of(machine) == hop)
                .map_or(hop.clone(), provider_id);
            RouteFacts {
                is_ours: destination.starts_with(POD_RANGE),
                destination,
                target,
            }
        };
        cloud
            .all(TABLES)
            .flat_map(|object| items(object, "routes"))
            .map(facts)
            .collect()
    }
    /// Returns each element of a document on its own: names are others in each run, and with them the order.
    fn objects(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let mut found: Vec<Value> = cloud.all(ADDRESSES).cloned().map(comparable).collect();
        for (kind, lists) in [
            (
                BALANCERS,
                &[
                    "frontendIPConfigurations",
                    "backendAddressPools",
                    "probes",
                    "loadBalancingRules",
                ][..],
            ),
            (GROUPS, &["securityRules"]),
            (TABLES, &["routes"]),
        ] {
            for document in cloud.all(kind) {
                found.push(json!({"document": document["id"], "tags": document["tags"]}));
                found.extend(
                    lists
                        .iter()
                        .flat_map(|list| items(document, list))
                        .cloned()
                        .map(comparable),
                );
                for pool in items(document, "backendAddressPools") {
                    found.extend(
                        Self::members(&cloud, pool)
                            .into_iter()
                            .map(|member| json!({"pool": pool["id"], "member": member})),
                    );
                }
                for rule in items(document, "securityRules") {
                    found.extend(destinations(rule).into_iter().map(
                        |destination| json!({"rule": rule["name"], "destination": destination}),
                    ));
                }
            }
        }
        found
    }
    fn aliases(&self) -> Vec<(String, String)> {
        let cloud = self.fake.lock();
        let mut aliases = Vec::new();
        for machine in cloud.machines() {
            let name = text(&machine["properties"]["osProfile"]["computerName"]);
            aliases.push((cloud.address_of(machine), format!("<address of {name}>")));
            aliases.push((provider_id(machine), format!("<provider ID of {name}>")));
            aliases.push((text(&machine["id"]), format!("<ID of {name}>")));
        }
        for address in cloud.all(ADDRESSES) {
            aliases.push((
                text(&address["properties"]["ipAddress"]),
                format!("<address {}>", text(&address["name"])),
            ));
        }
        let frontends = cloud
            .all(BALANCERS)
            .flat_map(|object| items(object, "frontendIPConfigurations"));
        for name in frontends.map(|frontends| text(&frontends["name"])) {
            aliases.extend(
                owner(&name)
                    .map(|owner| (format!("external/{owner}"), format!("<share of {owner}>"))),
            );
        }
        aliases
    }

    fn leave_things_of_others(&self) {
        let mut cloud = self.fake.lock();
        cloud.add_frontend("kubernetes", THEIRS);
        cloud.add_frontend(THEIRS, THEIRS);
        cloud.edit(&id(GROUPS, SECURITY_GROUP), |group| {
            let rule = json!({"name": THEIRS, "properties": {
                "protocol": "Tcp", "access": "Allow", "direction": "Inbound", "priority": 500, "sourcePortRange": "*", "mystery": 7,
                "sourceAddressPrefix": "198.51.100.7/32", "destinationAddressPrefix": "*", "destinationPortRange": "22",
            }});
            group["properties"]["securityRules"].as_array_mut().into_iter().for_each(|all| all.push(rule.clone()));
        });
        let route = json!({"name": THEIRS, "properties": {"addressPrefix": THEIR_RANGE, "nextHopType": "Internet"}});
        let table = cloud.get(&id(TABLES, ROUTE_TABLE)).cloned();
        let mut table =
            table.unwrap_or_else(|| json!({"location": LOCATION, "properties": {"routes": []}}));
        table["properties"]["routes"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(route.clone()));
        cloud.insert(&id(TABLES, ROUTE_TABLE), table);
    }
    fn things_of_others(&self) -> Vec<Value> {
        let cloud = self.fake.lock();
        let mut found = Vec::new();
        for document in [BALANCERS, GROUPS, TABLES]
            .into_iter()
            .flat_map(|kind| cloud.all(kind))
        {
            let lists = document["properties"]
                .as_object()
                .into_iter()
                .flat_map(|property| property.values());
            let theirs = lists
                .flat_map(list)
                .filter(|object| object["name"] == THEIRS);
            found.extend(theirs.cloned().map(|mut object| {
                // Azure adds these when the document is written.
                ["id", "etag"]
                    .iter()
                    .for_each(|key| drop(object.as_object_mut().map(|object| object.remove(*key))));
                object["properties"]
                    .as_object_mut()
                    .into_iter()
                    .for_each(|property| drop(property.remove("provisioningState")));
                object
            }));
        }
        found.extend(cloud.get(&id(BALANCERS, THEIRS)).cloned());
        found
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(self.fake.fault_injector())
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        let codes = [
            (429, "SubscriptionRequestsThrottled"),
            (409, "RetryableError"),
            (500, "InternalServerError"),
        ];
        let of = |(status, code): (u16, &str)| Fault::refused_as("", status, code, "on purpose");
        Fault::of_list(route)
            .into_iter()
            .chain(codes.map(of))
            .collect()
    }
    fn quota_fault(&self) -> Option<Fault> {
        Some(Fault::refused_as(
            "PUT /Microsoft.Network/publicIPAddresses/{name}",
            400,
            "PublicIPCountLimitReached",
            "on purpose",
        ))
    }
    fn tamper(&self) -> bool {
        let mut cloud = self.fake.lock();
        let all: Vec<String> = cloud
            .all(BALANCERS)
            .map(|object| text(&object["id"]))
            .collect();
        for id in all {
            cloud.edit(&id, |cloud| {
                cloud["properties"]["loadBalancingRules"] = json!([]);
            });
        }
        true
    }
    fn remove_load_balancers(&self) -> bool {
        let mut cloud = self.fake.lock();
        let all: Vec<String> = cloud
            .all(BALANCERS)
            .chain(cloud.all(ADDRESSES))
            .map(|object| text(&object["id"]).to_lowercase())
            .collect();
        all.iter().for_each(|id| drop(cloud.objects.remove(id)));
        true
    }

    fn prepare(&mut self, _machines: usize) {
        self.fake.lock().page = 1000;
    }
    fn change_addresses(&self, name: &str, internal: &str, _external: &str) -> bool {
        self.fake.lock().set_address(name, internal);
        true
    }
    /// Load balancer and security group are written for many Services at once.
    fn cost(&self) -> Cost {
        const NODES: usize = 240;
        const SERVICES: usize = 40;
        // An interface is written on its own, after it was read.
        let members = if self.form == Form::Addresses {
            0
        } else {
            NODES + 2
        };
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 30,
            },
            // A public address each, and few writes of the documents.
            created: Limit {
                changes: SERVICES + 24 + members,
                reads: 4 * SERVICES + 40 + members,
            },
            // A list of instances may be due: their IDs are the members.
            unchanged: Limit {
                changes: 0,
                reads: if self.form == Form::ScaleSet { 4 } else { 0 },
            },
            steady: Limit {
                changes: 0,
                reads: 60,
            },
            // Every five seconds a list each of machines, their states, interfaces and scale sets.
            not_ready: Limit {
                changes: 0,
                reads: 500,
            },
            joined: Limit {
                changes: 24,
                reads: 4 * SERVICES + 40,
            },
            deleted: Limit {
                changes: SERVICES + 24 + members,
                reads: 5 * SERVICES + 40 + members,
            },
        }
    }
}
