//! Checks of `doctor`: Keystone, roles, the catalogue, servers, Octavia, networks, the router.

use std::collections::BTreeMap;

use cloud_provider::{Error, Finding, Result};
use provider_kit::catalog::quoted;
use provider_kit::checks::{self, endpoint_remedy, unavailable, undecided};
use provider_kit::gcfg::Key;
use provider_kit::transport::Call;
use serde_json::Value;

use crate::catalogue::Service;
use crate::config::{Balancers, Config};
use crate::keys::*;
use crate::services::Services;

/// Roles of which one is needed to change anything: Octavia has roles of its own.
const WRITING_ROLES: [&str; 6] = [
    "load-balancer_member",
    "load-balancer_admin",
    "member",
    "_member_",
    "manager",
    "admin",
];
/// Most names that a finding quotes.
const EXAMPLES: usize = 5;

/// The keys of networks and subnets, of `[LoadBalancer]` and of a class.
const PLACES: [&Key<String>; 5] = [
    &NETWORK_ID,
    &SUBNET_ID,
    &MEMBER_SUBNET_ID,
    &FLOATING_NETWORK_ID,
    &FLOATING_SUBNET_ID,
];
const CLASS_PLACES: [&Key<String>; 5] = [
    &CLASS_NETWORK_ID,
    &CLASS_SUBNET_ID,
    &CLASS_MEMBER_SUBNET_ID,
    &CLASS_FLOATING_NETWORK_ID,
    &CLASS_FLOATING_SUBNET_ID,
];

/// The services and the configuration that are checked.
pub(crate) struct Diagnosis<'a> {
    pub(crate) services: &'a Services,
    pub(crate) config: &'a Config,
}

/// The finding of a check; as an error, one that ends it.
type Found = Result<Finding, Finding>;

fn either(found: Found) -> Finding {
    found.unwrap_or_else(|last| last)
}

impl Diagnosis<'_> {
    /// Returns the findings, from the outside in; without a token nothing more can be checked.
    pub(crate) async fn findings(&self) -> Vec<Finding> {
        let warned = |text: &String| {
            Finding::warning("configuration", text, "correct the cloud configuration")
        };
        let mut findings: Vec<Finding> = self.config.warnings.iter().map(warned).collect();
        findings.push(self.keystone().await);
        let Ok(token) = self.services.token().await else {
            return findings;
        };
        findings.push(writing(&token.roles));
        // The first region of the catalogue is a matter of chance, and nothing is known of another one's servers.
        let regions = Vec::from_iter(token.regions.clone());
        let remedy = "set `region` in [Global]; until then the catalogue's first endpoint of each service is used";
        findings
            .extend(undecided("region", &regions, remedy).filter(|_| self.config.region.is_none()));
        findings.extend(self.used().map(|service| match token.access(service) {
            Ok(access) => Finding::ok(
                "catalogue",
                format!("{} is at {}", service.kind(), access.base()),
            ),
            Err(error) => Finding::failure(
                "catalogue",
                error.to_string(),
                "correct `region` or `os-endpoint-type` in [Global]",
            ),
        }));
        findings.extend(self.servers().await.unwrap_or_else(|last| vec![last]));
        if let Some(balancers) = &self.config.balancers {
            findings.push(either(self.octavia(balancers).await));
            findings.extend(self.places(balancers).await);
        }
        if let Some(router) = &self.config.router {
            findings.push(either(self.router(router).await));
        }
        findings
    }

    async fn keystone(&self) -> Finding {
        let place = &self.config.auth.url;
        match self.services.project_id().await {
            Ok(project) => Finding::ok(
                "keystone",
                format!("{place} gives a token for project {project}"),
            ),
            Err(error) if error.is_unauthorized() || error.is_invalid() => Finding::failure(
                "keystone",
                error.to_string(),
                "correct [Global] in the cloud configuration",
            ),
            Err(error) => Finding::failure(
                "keystone",
                error.to_string(),
                endpoint_remedy("auth-url", &error),
            ),
        }
    }

    /// Returns the services that are used, which must be in the catalogue.
    fn used(&self) -> impl Iterator<Item = Service> {
        let balancers = self.config.balancers.as_ref();
        let has_references = balancers.is_some_and(|balancers| {
            balancers.has_barbican() && balancers.get(&DEFAULT_TLS_CONTAINER_REF).is_some()
        });
        let balancer = balancers.map(|_| Service::Balancer);
        let keys = has_references.then_some(Service::Keys);
        [Service::Compute, Service::Network]
            .into_iter()
            .chain(balancer)
            .chain(keys)
    }

    /// Checks the names of servers, by which Nodes without a provider ID are found.
    async fn servers(&self) -> Result<Vec<Finding>, Finding> {
        const CHECK: &str = "servers";
        let call = Call::get("/servers", &[]);
        let servers = self
            .services
            .texts(&self.services.compute, call, CHECK, ["id", "name"])
            .await;
        let servers = servers.map_err(refused(CHECK))?;
        if servers.is_empty() {
            let remedy =
                "check the project in [Global]: Nodes without a server there would be deleted";
            return Err(Finding::failure(CHECK, "the project shows none", remedy));
        }
        let mut count = BTreeMap::<&str, usize>::new();
        servers
            .iter()
            .for_each(|[_, name]| *count.entry(name).or_default() += 1);
        let examples = |fits: fn(&str, usize) -> bool| {
            let mut names = count
                .iter()
                .filter(|(name, times)| fits(name, **times))
                .map(|pair| *pair.0)
                .peekable();
            names.peek().is_some().then(|| quoted(names, EXAMPLES))
        };
        let twice = examples(|_, times| times > 1).map(|names| {
            let text = format!("several have the name {names}: such a Node cannot be found by name");
            let remedy = "rename them, or start the kubelet there with --provider-id=openstack:///<server id>";
            Finding::warning(CHECK, text, remedy)
        });
        let odd = examples(|name, _| !may_be_a_node(name)).map(|names| {
            let remedy =
                "if Nodes run there, let their kubelets say --provider-id=openstack:///<server id>";
            Finding::warning(CHECK, format!("no Node can have the name {names}"), remedy)
        });
        let shown = Finding::ok(CHECK, format!("the project shows {}", servers.len()));
        Ok([Some(shown), twice, odd].into_iter().flatten().collect())
    }

    async fn octavia(&self, balancers: &Balancers) -> Found {
        const CHECK: &str = "octavia";
        let features = self.services.octavia().await.map_err(refused(CHECK))?;
        let call = Call::get("/lbaas/providers", &[]);
        let enabled = self
            .services
            .texts(&self.services.balancer, call, "providers", ["name"])
            .await;
        let enabled: Vec<_> = enabled
            .map_err(refused(CHECK))?
            .into_iter()
            .flatten()
            .collect();
        let (wanted, (major, minor)) = (&balancers.provider(), features.version);
        let enabled = enabled.iter().map(String::as_str);
        if let Some(missing) =
            unavailable(CHECK, "`lb-provider` in [LoadBalancer]", wanted, enabled)
        {
            return Err(Finding {
                text: format!("the provider {wanted:?} is not enabled"),
                ..missing
            });
        }
        if !features.tags {
            let remedy =
                "upgrade Octavia to 2.5 or later; load balancers cannot be shared until then";
            return Ok(Finding::warning(
                CHECK,
                format!("version {major}.{minor} has no tags"),
                remedy,
            ));
        }
        Ok(Finding::ok(
            CHECK,
            format!("version {major}.{minor}, provider {wanted:?}"),
        ))
    }

    /// Checks the networks and subnets that the configuration names, and the source of floating IPs.
    async fn places(&self, balancers: &Balancers) -> Vec<Finding> {
        let mut findings = Vec::new();
        let classes = balancers.classes.iter();
        let classes = classes
            .map(|(name, class)| (format!("[LoadBalancerClass {name:?}]"), class, CLASS_PLACES));
        let general = ("[LoadBalancer]".to_owned(), &balancers.settings, PLACES);
        for (section, settings, keys) in [general].into_iter().chain(classes) {
            for (key, id) in keys
                .iter()
                .filter_map(|key| Some((key.key().rsplit("] ").next()?, settings.get(key)?)))
            {
                findings.push(either(self.place(&section, key, &id).await));
            }
        }
        if balancers.get(&FLOATING_NETWORK_ID).is_none() && !balancers.flag(&INTERNAL_LB) {
            findings.push(either(self.external_networks().await));
        }
        findings
    }

    async fn place(&self, section: &str, key: &'static str, id: &str) -> Found {
        let (what, call) = match key.ends_with("network-id") {
            true => ("network", Call::get("/networks/{id}", &[id])),
            false => ("subnet", Call::get("/subnets/{id}", &[id])),
        };
        let setting = format!("{key} in {section}");
        let found = self.find(what, call, &setting, id).await?;
        let name = &found["name"];
        if key == "floating-network-id" && found["router:external"] == false {
            let remedy = format!("set {setting} to an external network");
            return Err(Finding::failure(
                what,
                format!("{setting}: {name} is not external"),
                remedy,
            ));
        }
        Ok(Finding::ok(what, format!("{setting}: {name} ({id})")))
    }

    /// Reads an object that a setting names.
    async fn find(
        &self,
        what: &'static str,
        call: Call,
        setting: &str,
        id: &str,
    ) -> Result<Value, Finding> {
        let found: Option<Value> = self
            .services
            .network
            .find(call.inside(what))
            .await
            .map_err(refused(what))?;
        found.ok_or_else(|| {
            let text = format!("{setting}: the project sees no {what} {id:?}");
            Finding::failure(what, text, format!("correct {setting}"))
        })
    }

    async fn external_networks(&self) -> Found {
        const CHECK: &str = "floating network";
        let call = Call::get("/networks", &[]).query("router:external", true);
        let networks = self
            .services
            .texts(&self.services.network, call, "networks", ["id", "name"])
            .await;
        let names: Vec<_> = networks
            .map_err(refused(CHECK))?
            .into_iter()
            .map(|[_, name]| name)
            .collect();
        let several = undecided(CHECK, &names, "set `floating-network-id` in [LoadBalancer]");
        Ok(several.unwrap_or_else(|| match names.first() {
            None => Finding::warning(
                CHECK,
                "the project sees no external network, so no Service gets a floating IP",
                "set `floating-network-id`, or `internal-lb=true` if none shall have one, in [LoadBalancer]",
            ),
            Some(only) => Finding::ok(CHECK, format!("{only:?}, the only external one")),
        }))
    }

    async fn router(&self, id: &str) -> Found {
        const CHECK: &str = "router";
        let router = self
            .find(
                CHECK,
                Call::get("/routers/{id}", &[id]),
                "router-id in [Route]",
                id,
            )
            .await?;
        let text = format!("{} ({id})", router["name"]);
        let remedy = "enable Neutron's extension extraroute-atomic";
        let has = async |alias: &str| {
            self.services
                .has_extension(alias)
                .await
                .map_err(refused(CHECK))
        };
        if has("extraroute-atomic").await? {
            return Ok(Finding::ok(CHECK, text));
        }
        if has("extraroute").await? {
            return Ok(Finding::warning(
                CHECK,
                format!("{text}; routes are changed one after the other"),
                remedy,
            ));
        }
        Err(Finding::failure(
            CHECK,
            format!("{text}; Neutron has no extra routes, so Pods get none"),
            remedy,
        ))
    }
}

/// Checks the roles, by which services decide; each has a policy of its own.
fn writing(roles: &[String]) -> Finding {
    let names = roles.join(", ");
    if roles.iter().any(|role| WRITING_ROLES.contains(&&**role)) {
        return Finding::ok("roles", names);
    }
    let remedy = "give the user the roles `member` and `load-balancer_member` in the project";
    let text = if names.is_empty() {
        "the token has none".to_owned()
    } else {
        format!("only {names}")
    };
    Finding::warning(
        "roles",
        format!("{text}: this may not be enough to change load balancers"),
        remedy,
    )
}

/// Returns the finding about a service's refusal.
fn refused(check: &'static str) -> impl Fn(Error) -> Finding {
    const ROLE: &str = "give the user a role that may read this, such as `load-balancer_member` for load balancers";
    move |error| checks::refused(check, "the catalogue's endpoint", ROLE, &error)
}

/// Returns `true` if a Node may have this name.
fn may_be_a_node(name: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(fits) && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}
