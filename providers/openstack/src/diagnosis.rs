//! What `doctor` is told: Keystone, the catalogue, roles, servers, networks, Octavia, the router.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Finding, Result};
use provider_kit::diagnosis::endpoint_remedy;
use provider_kit::transport::{Call, Transport};
use serde_json::Value;

use crate::catalogue::Service;
use crate::config::{Balancers, Config, Networks};
use crate::services::Services;

/// One of these is needed to change anything: Octavia has roles of its own.
const WRITING_ROLES: [&str; 6] =
    ["load-balancer_member", "load-balancer_admin", "member", "_member_", "manager", "admin"];
/// So many examples are enough.
const EXAMPLES: usize = 5;

/// What is looked at.
pub(crate) struct Diagnosis<'a> {
    pub(crate) services: &'a Services,
    pub(crate) config: &'a Config,
}

impl Diagnosis<'_> {
    /// From the outside in; without a token there is nothing more to find out.
    pub(crate) async fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.keystone().await];
        let Ok(roles) = self.services.roles().await else { return findings };
        findings.push(writing(&roles));
        findings.extend(self.catalogue().await);
        findings.extend(self.servers().await);
        if let Some(balancers) = &self.config.balancers {
            findings.push(self.octavia(balancers).await);
            findings.extend(self.places(balancers).await);
        }
        findings.extend(self.router().await);
        findings
    }

    async fn keystone(&self) -> Finding {
        let place = &self.config.auth.url;
        match self.services.project_id().await {
            Ok(project) => Finding::ok("keystone", format!("{place} gives a token for project {project}")),
            Err(error) if error.is_unauthorized() || error.is_invalid() => {
                Finding::failure("keystone", error.to_string(), "correct [Global] in the cloud configuration")
            }
            Err(error) => Finding::failure("keystone", error.to_string(), endpoint_remedy("auth-url", &error)),
        }
    }

    /// Every service that is used has to be in it.
    async fn catalogue(&self) -> Vec<Finding> {
        let balancers = self.config.balancers.as_ref();
        let used = [
            (Service::Compute, true),
            (Service::Network, true),
            (Service::Balancer, balancers.is_some()),
            (Service::Keys, balancers.is_some_and(|it| it.barbican && it.tls_container.is_some())),
        ];
        let mut findings = Vec::new();
        for (service, _) in used.into_iter().filter(|(_, is_used)| *is_used) {
            findings.push(match self.services.endpoint(service).await {
                Ok(base) => Finding::ok("catalogue", format!("{} is at {base}", service.kind())),
                Err(error) => Finding::failure(
                    "catalogue",
                    error.to_string(),
                    "correct `region` or `os-endpoint-type` in [Global]",
                ),
            });
        }
        findings
    }

    /// Nodes that have no provider id yet are found by the names of servers.
    async fn servers(&self) -> Vec<Finding> {
        const CHECK: &str = "servers";
        let keep = |server: Value| (text(&server, "/id").to_owned(), text(&server, "/name").to_owned());
        let (services, call) = (self.services, Call::get("/servers", &[]));
        let key = |server: &(String, String)| server.0.clone();
        let servers = match services.list(&services.compute, call, "servers", keep, key).await {
            Ok(reading) => reading.into_items(),
            Err(error) => return vec![refused(CHECK, &error)],
        };
        let mut count = BTreeMap::<&str, usize>::new();
        servers.iter().for_each(|(_, name)| *count.entry(name).or_default() += 1);
        let twice = count.iter().filter(|(_, times)| **times > 1).map(|(name, _)| *name);
        let odd = count.keys().copied().filter(|name| !may_be_a_node(name));
        let (twice, odd) = (examples(twice), examples(odd));
        let mut findings = vec![Finding::ok(CHECK, format!("the project shows {}", servers.len()))];
        if servers.is_empty() {
            let remedy = "check the project in [Global]: Nodes without a server there would be deleted";
            findings = vec![Finding::failure(CHECK, "the project shows none", remedy)];
        }
        if let Some(twice) = twice {
            let remedy = "rename them, or start the kubelet there with --provider-id=openstack:///<server id>";
            findings.push(Finding::warning(
                CHECK,
                format!("several have the name {twice}: such a Node cannot be found by name"),
                remedy,
            ));
        }
        if let Some(odd) = odd {
            let remedy = "if Nodes run there, let their kubelets say --provider-id=openstack:///<server id>";
            findings.push(Finding::warning(CHECK, format!("no Node can have the name {odd}"), remedy));
        }
        findings
    }

    async fn octavia(&self, balancers: &Balancers) -> Finding {
        const CHECK: &str = "octavia";
        let features = match self.services.octavia().await {
            Ok(features) => features,
            Err(error) => return refused(CHECK, &error),
        };
        let call = Call::get("/lbaas/providers", &[]);
        let answer: Value = match self.services.balancer.read(call).await {
            Ok(answer) => answer,
            Err(error) => return refused(CHECK, &error),
        };
        let enabled: BTreeSet<_> = items(&answer, "providers").map(|it| text(it, "/name")).collect();
        let (wanted, (major, minor)) = (&*balancers.provider, features.version);
        if !enabled.contains(wanted) {
            let remedy = format!("set `lb-provider` in [LoadBalancer] to one of {}", join(enabled));
            return Finding::failure(CHECK, format!("the provider {wanted:?} is not enabled"), remedy);
        }
        if !features.tags {
            let remedy = "upgrade Octavia to 2.5 or later; load balancers cannot be shared until then";
            return Finding::warning(CHECK, format!("version {major}.{minor} has no tags"), remedy);
        }
        Finding::ok(CHECK, format!("version {major}.{minor}, provider {wanted:?}"))
    }

    /// Networks and subnets that the configuration names, and where floating IPs come from.
    async fn places(&self, balancers: &Balancers) -> Vec<Finding> {
        let mut findings = Vec::new();
        let classes =
            balancers.classes.iter().map(|(name, networks)| (format!("[LoadBalancerClass {name:?}]"), networks));
        for (section, networks) in [("[LoadBalancer]".to_owned(), &balancers.networks)].into_iter().chain(classes) {
            for (key, id) in named(networks) {
                findings.push(self.place(&section, key, id).await);
            }
        }
        if balancers.networks.floating_network.is_none() && !balancers.internal {
            findings.push(self.external_networks().await);
        }
        findings
    }

    async fn place(&self, section: &str, key: &'static str, id: &str) -> Finding {
        let (what, call) = match key.ends_with("network-id") {
            true => ("network", Call::get("/networks/{id}", &[id])),
            false => ("subnet", Call::get("/subnets/{id}", &[id])),
        };
        let setting = format!("{key} in {section}");
        let found = match self.find(what, call, &setting, id).await {
            Ok(found) => found,
            Err(finding) => return finding,
        };
        let name = text(&found, "/name");
        if key == "floating-network-id" && found.get("router:external") == Some(&Value::Bool(false)) {
            let remedy = format!("set {setting} to an external network");
            return Finding::failure(what, format!("{setting}: {name:?} is not external"), remedy);
        }
        Finding::ok(what, format!("{setting}: {name:?} ({id})"))
    }

    /// An object that a setting names, without what is around it.
    async fn find(
        &self,
        what: &'static str,
        call: Call,
        setting: &str,
        id: &str,
    ) -> std::result::Result<Value, Finding> {
        match self.services.network.find::<Value>(call).await {
            Ok(Some(mut answer)) => Ok(answer.get_mut(what).map(Value::take).unwrap_or_default()),
            Ok(None) => {
                let text = format!("{setting}: the project sees no {what} {id:?}");
                Err(Finding::failure(what, text, format!("correct {setting}")))
            }
            Err(error) => Err(refused(what, &error)),
        }
    }

    async fn external_networks(&self) -> Finding {
        const CHECK: &str = "floating network";
        let call = Call::get("/networks", &[]).query("router:external", true);
        match self.read(&self.services.network, call, "networks").await {
            Err(error) => refused(CHECK, &error),
            Ok(names) if names.is_empty() => Finding::warning(
                CHECK,
                "the project sees no external network, so no Service gets a floating IP",
                "set `floating-network-id`, or `internal-lb=true` if none shall have one, in [LoadBalancer]",
            ),
            Ok(names) if names.len() > 1 => Finding::warning(
                CHECK,
                format!("none is configured, and there are several: {}", join(names.iter().map(|it| &**it))),
                "set `floating-network-id` in [LoadBalancer]",
            ),
            Ok(names) => Finding::ok(CHECK, format!("{:?}, the only external one", names[0])),
        }
    }

    async fn router(&self) -> Option<Finding> {
        const CHECK: &str = "router";
        let id = self.config.router.as_ref()?;
        let router = match self.find("router", Call::get("/routers/{id}", &[id]), "router-id in [Route]", id).await {
            Ok(router) => router,
            Err(finding) => return Some(finding),
        };
        let mut has = Vec::new();
        for alias in ["extraroute", "extraroute-atomic"] {
            match self.services.has_extension(alias).await {
                Ok(there) => has.push(there),
                Err(error) => return Some(refused(CHECK, &error)),
            }
        }
        let text = format!("{:?} ({id})", text(&router, "/name"));
        let remedy = "enable Neutron's extension extraroute-atomic";
        Some(match has[..] {
            [_, true] => Finding::ok(CHECK, text),
            [true, false] => Finding::warning(CHECK, format!("{text}; routes are changed one after the other"), remedy),
            _ => Finding::failure(CHECK, format!("{text}; Neutron has no extra routes, so Pods get none"), remedy),
        })
    }

    /// The names in a list.
    async fn read(&self, transport: &Transport, call: Call, what: &'static str) -> Result<Vec<String>> {
        let keep = |item: Value| text(&item, "/name").to_owned();
        Ok(self.services.list(transport, call, what, keep, Clone::clone).await?.into_items())
    }
}

/// Services decide by roles; which they want is their own policy.
fn writing(roles: &[String]) -> Finding {
    let names = join(roles.iter().map(|role| &**role));
    if roles.iter().any(|role| WRITING_ROLES.contains(&&**role)) {
        return Finding::ok("roles", names);
    }
    let remedy = "give the user the roles `member` and `load-balancer_member` in the project";
    let text = if names.is_empty() { "the token has none".to_owned() } else { format!("only {names}") };
    Finding::warning("roles", format!("{text}: this may not be enough to change load balancers"), remedy)
}

fn named(networks: &Networks) -> impl Iterator<Item = (&'static str, &String)> {
    let all = [
        ("network-id", &networks.network),
        ("subnet-id", &networks.subnet),
        ("member-subnet-id", &networks.member_subnet),
        ("floating-network-id", &networks.floating_network),
        ("floating-subnet-id", &networks.floating_subnet_id),
    ];
    all.into_iter().filter_map(|(key, id)| Some((key, id.as_ref()?))).filter(|(_, id)| !id.is_empty())
}

/// A service's refusal.
fn refused(check: &str, error: &Error) -> Finding {
    let remedy = match error.is_unauthorized() {
        true => "give the user a role that may read this, such as `load-balancer_member` for load balancers".to_owned(),
        false => endpoint_remedy("the catalogue's endpoint", error),
    };
    Finding::failure(check, error.to_string(), remedy)
}

/// Whether a Node may have this name.
fn may_be_a_node(name: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(fits) && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// A few of them, quoted.
fn examples<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
    let more = if names.len() > EXAMPLES { format!(", and {} more", names.len() - EXAMPLES) } else { String::new() };
    let shown = names.get(..EXAMPLES).unwrap_or(&names).join(", ");
    (!names.is_empty()).then(|| shown + &more)
}

fn join<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn items<'a>(answer: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    answer.get(list).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
