//! DigitalOcean, as the proofs need it: the provider over the fake of its API.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use ccm_conformance::json::list;
use ccm_conformance::{
    ApiRequests, Capabilities, CloudApi, CloudProfile, Cost, FaultInjector, Limit,
    LoadBalancerFacts, Machine, Namesake, ProgramSettings,
};
use cloud_provider::{CloudProvider, Fence, Service, Setup, default_load_balancer_name};
use digitalocean_fake::{ACCOUNT, Droplet, Fake, Fault, Options, REGION, TOKEN};
use provider_digitalocean::DigitalOcean;
use provider_digitalocean::config::{Config, LoadBalancerType};
use provider_kit::transport::{Credential, Transport};
use serde_json::{Value, json};

const OTHERS: &str = "another account";
const THEIRS: &str = "theirs";
const SERVICE_TAG: &str = "ccmrs-service:";

/// DigitalOcean with one account.
#[derive(Clone)]
pub struct DigitalOceanCloud(pub Fake);

impl Default for DigitalOceanCloud {
    /// Creates a cloud whose load balancers take a little while: not a whole number of the provider's polls, so that
    /// their end and a poll never meet.
    fn default() -> Self {
        let creation_time = Duration::from_millis(1400);
        let change_time = Duration::from_millis(600);
        Self(Fake::new(Options {
            creation_time,
            change_time,
            ..Options::default()
        }))
    }
}

fn id_of(droplet: &Droplet) -> String {
    format!("digitalocean://{}", droplet.id)
}

fn facts(shown: &Value) -> LoadBalancerFacts {
    let port = |rule: &Value| {
        let number = |key: &str| {
            rule[key]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or_default()
        };
        let protocol = if rule["entry_protocol"] == "udp" {
            "UDP"
        } else {
            "TCP"
        };
        (
            number("entry_port"),
            protocol.to_owned(),
            number("target_port"),
        )
    };
    let tags = list(&shown["tags"]).filter_map(Value::as_str);
    LoadBalancerFacts {
        service_uid: tags
            .filter_map(|tag| tag.strip_prefix(SERVICE_TAG))
            .next()
            .map(str::to_owned),
        address: shown["ip"]
            .as_str()
            .filter(|ip| !ip.is_empty())
            .map(str::to_owned),
        ports: list(&shown["forwarding_rules"]).map(port).collect(),
        targets: list(&shown["droplet_ids"])
            .map(|id| format!("digitalocean://{id}"))
            .collect(),
    }
}

impl DigitalOceanCloud {
    /// Returns the configuration: only what has no default, and load balancers that lead to node ports.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            token: Credential::token(TOKEN),
            endpoint: "http://digitalocean".to_owned(),
            metadata: "http://metadata".to_owned(),
            region: Some(REGION.to_owned()),
            cluster_id: None,
            vpc: None,
            load_balancer_type: LoadBalancerType::Regional,
            adoptable_tag: None,
            rate: None,
            firewall: None,
            debug_address: None,
            metrics_address: None,
        }
    }
}

impl CloudProfile for DigitalOceanCloud {
    fn name(&self) -> &'static str {
        "digitalocean"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            routes: false,
            accounts: true,
        }
    }
    fn api(&self) -> ApiRequests {
        ApiRequests {
            machines: "GET /droplets",
            load_balancers: "GET /load_balancers",
            create: "POST /load_balancers",
            polls: &["GET /load_balancers/{id}"],
        }
    }

    fn router(&self) -> Router {
        self.0.router()
    }
    fn provider(&self, api: CloudApi, fence: &Fence) -> Arc<dyn CloudProvider> {
        let setup = Setup {
            fence: fence.clone(),
            ..Setup::default()
        };
        let config = self.config();
        let cloud = provider_digitalocean::cloud(&config, &setup).expect("a connection");
        let cloud = cloud
            .service(api)
            .build()
            .expect("the address is an address");
        let metadata = Transport::builder("http://metadata")
            .service(self.0.router())
            .build();
        Arc::new(DigitalOcean::new(
            config,
            cloud,
            metadata.expect("the address is an address"),
        ))
    }
    fn program(&self, url: &str) -> ProgramSettings {
        let variables = [
            ("DO_ACCESS_TOKEN", TOKEN),
            ("DO_OVERRIDE_URL", url),
            ("REGION", REGION),
        ];
        let environment = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        ProgramSettings {
            environment,
            cloud_config: None,
        }
    }

    fn add_machine(&self, name: &str) -> String {
        id_of(&self.0.add_droplet(name))
    }
    fn stop(&self, name: &str) {
        self.0
            .change_droplet(name, |droplet| droplet.status = "off".to_owned());
    }
    fn start(&self, name: &str) {
        self.0
            .change_droplet(name, |droplet| droplet.status = "active".to_owned());
    }
    fn terminate(&self, name: &str) {
        self.0.delete_droplet(name);
    }
    fn machines(&self) -> Vec<Machine> {
        let machine = |droplet: Droplet| Machine {
            provider_id: id_of(&droplet),
            is_stopped: droplet.status == "off",
            name: droplet.name,
        };
        self.0.droplets().into_iter().map(machine).collect()
    }

    fn confuse(&self, confused: bool) {
        self.0
            .set_token(TOKEN, if confused { OTHERS } else { ACCOUNT });
    }
    fn add_machine_of_others(&self, name: &str) {
        self.0.add_droplet_to(OTHERS, name);
    }

    fn load_balancers(&self) -> Vec<LoadBalancerFacts> {
        self.0.load_balancers().iter().map(facts).collect()
    }
    fn objects(&self) -> Vec<Value> {
        let mut objects = self.0.objects();
        for object in &mut objects {
            for key in ["forwarding_rules", "droplet_ids", "tags"] {
                if let Some(list) = object[key].as_array_mut() {
                    list.sort_by_cached_key(|object| {
                        (object["entry_port"].as_u64(), object.to_string())
                    });
                }
            }
        }
        objects
    }

    fn aliases(&self) -> Vec<(String, String)> {
        let mut aliases = Vec::new();
        for droplet in self.0.droplets() {
            let name = &droplet.name;
            aliases.push((droplet.id.to_string(), format!("<machine {name}>")));
            aliases.extend(
                droplet
                    .public_v4
                    .map(|ip| (ip.to_string(), format!("<IPv4 of {name}>"))),
            );
            aliases.extend(
                droplet
                    .public_v6
                    .map(|ip| (ip.to_string(), format!("<IPv6 of {name}>"))),
            );
            aliases.extend(
                droplet
                    .private_v4
                    .iter()
                    .map(|ip| (ip.to_string(), format!("<private IPv4 of {name}>"))),
            );
        }
        for shown in self.0.load_balancers() {
            let name = shown["name"].as_str().unwrap_or_default();
            for key in ["id", "ip", "ipv6"] {
                let value = shown[key].as_str().filter(|key| !key.is_empty());
                aliases.extend(value.map(|text| (text.to_owned(), format!("<{key} of {name}>"))));
            }
        }
        aliases
    }

    fn leave_things_of_others(&self) {
        self.0.add_load_balancer(THEIRS);
        self.0.add_load_balancer(THEIRS);
    }
    fn things_of_others(&self) -> Vec<Value> {
        self.0
            .objects()
            .into_iter()
            .filter(|object| object["name"] == THEIRS)
            .collect()
    }

    fn fault_injector(&self) -> Option<&FaultInjector> {
        Some(&self.0)
    }
    fn list_faults(&self, route: &str) -> Vec<Fault> {
        let own =
            ["server_error", "too_many_requests", "unauthorized"].map(|code| Fault::code("", code));
        Fault::of_list(route).into_iter().chain(own).collect()
    }
    fn quota_fault(&self) -> Option<Fault> {
        let message = "This will exceed your load balancer limit";
        Some(Fault::refused_as(
            "POST /load_balancers",
            422,
            "unprocessable_entity",
            message,
        ))
    }
    fn remove_load_balancers(&self) -> bool {
        for object in self.0.load_balancers() {
            self.0
                .delete_load_balancer(object["name"].as_str().unwrap_or_default());
        }
        true
    }

    fn add_namesake(&self, service: &Service) -> Option<Namesake> {
        self.0
            .add_load_balancer(&default_load_balancer_name(service));
        Some(Namesake::Adopted)
    }
    fn add_alternative(&self) -> Option<Value> {
        let id = &self.0.add_load_balancer("alternative")["id"];
        Some(
            json!({"metadata": {"annotations": {"kubernetes.digitalocean.com/load-balancer-id": id}}}),
        )
    }

    fn add_twins(&self) -> bool {
        self.0.copy_load_balancers();
        true
    }
    fn setting_of_the_creation(&self) -> Option<Value> {
        let key = "service.beta.kubernetes.io/do-loadbalancer-network";
        Some(json!({"metadata": {"annotations": {key: "INTERNAL"}}}))
    }

    fn tamper(&self) -> bool {
        let all = self.0.load_balancers();
        all.iter().all(|object| {
            let name = object["name"].as_str().unwrap_or_default();
            self.0
                .change_load_balancer(name, |load_balancer| {
                    load_balancer["forwarding_rules"] = Value::Array(Vec::new());
                })
                .is_some()
        })
    }

    fn prepare(&mut self, _machines: usize) {
        self.0 = Fake::new(Options {
            limit: 360_000,
            remaining: 360_000,
            ..Options::default()
        });
    }
    fn cost(&self) -> Cost {
        const NODES: usize = 480;
        const SERVICES: usize = 40;
        const PAGES: usize = NODES.div_ceil(200);
        // A creation takes 30 s, as in the cloud. All waiting load balancers are polled by one list a second.
        const POLLS: usize = 30;
        Cost {
            nodes: NODES,
            services: SERVICES,
            initialised: Limit {
                changes: 0,
                reads: 4 * PAGES + 5,
            },
            created: Limit {
                changes: SERVICES,
                reads: SERVICES + POLLS + PAGES,
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
            // The load balancer and a machine, which shows that the credential is right, and the load balancer again.
            deleted: Limit {
                changes: SERVICES,
                reads: 3 * SERVICES,
            },
        }
    }
}
