//! The configuration file: JSON or YAML, in the form of `/etc/kubernetes/azure.json`.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Reload, Result, Setup};
use ipnet::IpNet;
use parking_lot::RwLock;
use provider_kit::document::Document;
use serde_json::{Value, json};

pub(crate) use self::file::{CREDENTIALS, IdentityKind};
pub use self::file::{File, PoolKind};
use self::file::{RELOADED, refused};
pub use crate::auxiliary_tokens::AuxiliarySecret;
use crate::clouds::CloudEndpoints;
pub use crate::load_balancers::placement::StandardBalancer;
pub use crate::rate_limits::RateLimit;

/// A resource group of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceGroup {
    /// ID of the subscription.
    pub subscription: String,
    /// Name of the resource group, in lower case.
    pub name: String,
}

impl ResourceGroup {
    /// Returns the ID of a resource in the group: `kind` is `Microsoft.Network/loadBalancers`.
    #[must_use]
    pub fn id(&self, kind: &str, name: &str) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/{kind}/{name}",
            self.subscription, self.name
        )
    }
}

/// The validated configuration of the provider.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "docs/providers/azure.md explains each key")]
pub struct Config {
    pub file: File,
    pub endpoints: CloudEndpoints,
    /// The group of the Nodes.
    pub nodes: ResourceGroup,
    /// The group of load balancers.
    pub load_balancers: ResourceGroup,
    pub security_group: ResourceGroup,
    pub route_table: ResourceGroup,
    pub vnet: ResourceGroup,
    pub private_links: ResourceGroup,
    /// Tags of resources that the provider creates.
    pub tags: BTreeMap<String, String>,
    pub maximum_rules: usize,
    /// Ranges of further addresses of Services; `None` allows all public addresses.
    pub additional_ranges: Option<Vec<IpNet>>,
    pub has_shared_probe: bool,
    pub grace_period: Duration,
    /// The file without credentials, which are read again where a token is requested.
    settings: Value,
}

/// The configuration in use. Clones share it.
#[derive(Clone)]
pub(crate) struct CurrentConfig(Arc<RwLock<Arc<Config>>>);

impl CurrentConfig {
    pub(crate) fn new(config: Config) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    pub(crate) fn get(&self) -> Arc<Config> {
        Arc::clone(&self.0.read())
    }

    /// Uses those changes of `new` that need no restart, and logs the keys of the others.
    pub(crate) fn update(&self, new: &Config) -> Result<Reload> {
        let (config, keys) = self.get().updated(new)?;
        *self.0.write() = Arc::new(config);
        if keys.is_empty() {
            return Ok(Reload::Done);
        }
        tracing::warn!(
            keys = keys.join(", "),
            "changes of these keys of the cloud configuration need a restart"
        );
        Ok(Reload::NeedsRestart)
    }
}

impl Config {
    /// Reads the configuration file.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes.
    pub fn read(setup: &Setup) -> Result<Self> {
        let path = setup
            .config
            .as_ref()
            .map_or("no configuration file", |file| &file.path);
        let mut document = Document::of_option(setup.config.as_ref())?;
        let mut warnings = File::spell(&mut document);
        // Secrets are read where a token is requested.
        document.retain(|key, value| {
            let key = key.to_ascii_lowercase();
            !value.is_null() && !["secret", "password"].iter().any(|end| key.ends_with(end))
        });
        let mut settings = document.values().clone();
        settings.retain(|key, _| !CREDENTIALS.contains(&&**key));
        let settings = Value::Object(settings);
        let (mut file, below) = File::read(&document)?;
        warnings.extend(below);
        // A file of workload identity may leave the tenant to the environment.
        if file.tenant_id.is_empty() {
            file.tenant_id = setup
                .environment
                .get("AZURE_TENANT_ID")
                .unwrap_or_default()
                .to_owned();
        }
        let mut mistakes = refused(&file);
        let is_offline = setup.environment.is_offline();
        for (key, value) in [
            ("subscriptionId", &file.subscription_id),
            ("resourceGroup", &file.resource_group),
            ("location", &file.location),
        ] {
            if value.is_empty() && !is_offline {
                mistakes.push(format!("{key} is missing"));
            }
        }
        let endpoints = CloudEndpoints::of(&file.cloud, &file.resource_manager_endpoint, setup);
        mistakes.extend(endpoints.as_ref().err().map(ToString::to_string));
        let Some(endpoints) = endpoints.ok().filter(|_| mistakes.is_empty()) else {
            return Err(Error::invalid(format!("{path}: {}", mistakes.join("; "))));
        };
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        Ok(Self::of(file, endpoints, settings))
    }

    fn of(file: File, endpoints: CloudEndpoints, settings: Value) -> Self {
        let network = if file.network_subscription.is_empty() {
            &file.subscription_id
        } else {
            &file.network_subscription
        };
        let group = |subscription: &str, name: &str| {
            let name = if name.is_empty() {
                &file.resource_group
            } else {
                name
            };
            ResourceGroup {
                subscription: subscription.to_owned(),
                name: name.to_ascii_lowercase(),
            }
        };
        Self {
            nodes: group(&file.subscription_id, ""),
            load_balancers: group(network, &file.load_balancer_resource_group),
            security_group: group(network, &file.security_group_resource_group),
            route_table: group(network, &file.route_table_resource_group),
            vnet: group(network, &file.vnet_resource_group),
            private_links: group(network, &file.private_link_service_resource_group),
            additional_ranges: { file.additional_ranges.as_ref() }
                .map(|all| all.iter().filter_map(|range| range.parse().ok()).collect()),
            maximum_rules: file.maximum_load_balancer_rule_count.unwrap_or(250),
            has_shared_probe: file.probe_mode.eq_ignore_ascii_case("shared"),
            grace_period: Duration::from_secs(file.grace_period),
            tags: crate::tags::parsed(&file.tags, &file.tags_map),
            endpoints,
            settings,
            file,
        }
    }

    /// Returns the configuration with those changes of `new` that need no restart, and the keys of the others.
    fn updated(&self, new: &Self) -> Result<(Self, Vec<String>)> {
        let mut settings = self.settings.clone();
        let (Some(used), Some(wanted)) = (settings.as_object_mut(), new.settings.as_object())
        else {
            return Err(Error::other("the configuration is no object"));
        };
        let keys: BTreeSet<String> = used.keys().chain(wanted.keys()).cloned().collect();
        let changed = keys
            .into_iter()
            .filter(|key| used.get(key) != wanted.get(key));
        let (reloaded, others): (Vec<_>, Vec<_>) =
            changed.partition(|key| RELOADED.contains(&&**key));
        for key in reloaded {
            used.remove(&key);
            used.extend(wanted.get(&key).map(|value| (key, value.clone())));
        }
        let values = settings.as_object().cloned().unwrap_or_default();
        let (file, _) = File::read(&Document::from_values("cloud configuration", values))?;
        let file = File {
            tenant_id: self.file.tenant_id.clone(),
            ..file
        };
        Ok((Self::of(file, self.endpoints.clone(), settings), others))
    }

    /// Returns the names of the load balancers for Services, without the suffix of internal ones; never empty.
    #[must_use]
    pub fn balancer_names(&self, cluster: &str) -> Vec<String> {
        let name = if self.file.load_balancer_name.is_empty() {
            cluster
        } else {
            &self.file.load_balancer_name
        };
        match self.file.balancers.is_empty() {
            true => vec![name.to_owned()],
            false => self
                .file
                .balancers
                .iter()
                .map(|load_balancer| load_balancer.name.clone())
                .collect(),
        }
    }

    /// Returns `true` in an edge zone.
    #[must_use]
    pub fn is_edge(&self) -> bool {
        !self.file.extended_location_name.is_empty()
    }

    /// Returns a resource that does not exist yet.
    #[must_use]
    pub fn new_resource(&self) -> Value {
        let mut resource =
            json!({"location": self.file.location, "tags": self.tags, "properties": {}});
        if self.is_edge() {
            let File {
                extended_location_name: name,
                extended_location_type: kind,
                ..
            } = &self.file;
            resource["extendedLocation"] = json!({"name": name, "type": kind});
        }
        resource
    }

    /// Returns the ID of the virtual network, which members of pools of addresses name.
    #[must_use]
    pub fn vnet_id(&self) -> Option<String> {
        let name = &self.file.vnet_name;
        (!name.is_empty()).then(|| self.vnet.id("Microsoft.Network/virtualNetworks", name))
    }

    /// Returns the ID of a subnet in lower case.
    #[must_use]
    pub fn subnet_id(&self, name: &str) -> String {
        let vnet = self
            .vnet
            .id("Microsoft.Network/virtualNetworks", &self.file.vnet_name);
        format!("{vnet}/subnets/{name}").to_ascii_lowercase()
    }

    /// Returns `true` if Nodes may be machines outside of uniform scale sets.
    #[must_use]
    pub fn has_machines(&self) -> bool {
        let is_vmss = matches!(&*self.file.vm_type.to_ascii_lowercase(), "" | "vmss");
        !(is_vmss && self.file.disable_availability_set_nodes && !self.file.enable_vmss_flex_nodes)
    }

    /// Returns `true` if Nodes may be instances of uniform scale sets.
    #[must_use]
    pub fn has_scale_sets(&self) -> bool {
        !matches!(
            &*self.file.vm_type.to_ascii_lowercase(),
            "standard" | "vmssflex"
        )
    }

    /// Returns the region in the form of labels: `westeurope`.
    #[must_use]
    pub fn region(&self) -> String {
        self.file.location.to_ascii_lowercase().replace(' ', "")
    }
}
