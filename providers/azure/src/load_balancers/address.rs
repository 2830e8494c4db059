//! Public addresses of Services.

use std::collections::BTreeMap;

use cloud_provider::{Error, Result, Service};
use provider_kit::json_path::place;
use provider_kit::load_balancers::{Attributes, OwnerTags, ResourceKey};
use serde_json::{Value, json};

use super::AzureLoadBalancers;
use super::document::{CLUSTER_TAG, MOST_NAME, prefix};
use super::spec::{Family, Spec};
use crate::arm::{PUBLIC_ADDRESSES, items, name_of, overlay, place_of, text};
use crate::config::ResourceGroup;
use crate::tags;

/// The kind of resource, in messages.
pub(crate) const KIND: &str = "public IP address";
/// The tags that the Go cloud controller manager writes and reads, each with its former name.
const SERVICE: [&str; 2] = ["k8s-azure-service", "service"];
pub(super) const CLUSTER: [&str; 2] = ["k8s-azure-cluster-name", "kubernetes-cluster-name"];
const DNS_OWNER: &str = "k8s-azure-dns-label-service";
/// The tag with the UID of the Service. Azure does not accept a slash in the name of a tag.
const SERVICE_TAG: &str = "ccm-rs-service";

/// Returns the part of a resource graph for an address.
pub(crate) fn resource(name: &str) -> ResourceKey {
    ResourceKey::created_before(0, KIND, name.to_ascii_lowercase())
}

/// Returns the name of the address of a Service.
pub(crate) fn default_name(cluster: &str, owner: &str, family: &Family) -> String {
    let mut name = format!("{cluster}-{owner}");
    name.extend(family.prefix.iter().map(|id| format!("-{}", name_of(id))));
    name.truncate(MOST_NAME);
    name + family.suffix
}

/// Returns the Service's resource in the name of an address.
pub(crate) fn owner_in(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let starts = name
        .match_indices('a')
        .map(|(at, _)| at)
        .filter(|at| *at > 0 && name.as_bytes()[at - 1] == b'-');
    { starts }.find_map(|at| name.get(at..).and_then(prefix).map(str::to_owned))
}

fn tag<'a>(address: &'a Value, names: &[&str]) -> Option<&'a str> {
    names
        .iter()
        .find_map(|name| address["tags"][*name].as_str())
}

/// Returns the Services in the tag of an address.
fn services(address: &Value) -> Vec<&str> {
    let all = tag(address, &SERVICE)
        .unwrap_or_default()
        .split(',')
        .map(str::trim);
    all.filter(|text| !text.is_empty()).collect()
}

/// Returns `true` if an address was made for the Service whose elements begin with `owner`, and not handed over.
pub(crate) fn is_of(address: &Value, owner: &str) -> bool {
    let is_its_uid = |uid: String| format!("a{}", uid.replace('-', "")).starts_with(owner);
    owner_in(text(address, "/name")).as_deref() == Some(owner)
        && owner_tags(address).service.is_none_or(is_its_uid)
}

/// Returns `true` if an address belongs to Services of the cluster, and not to a user.
pub(crate) fn is_managed(address: &Value, cluster: &str) -> bool {
    !services(address).is_empty()
        && tag(address, &CLUSTER).is_none_or(|tag| tag.eq_ignore_ascii_case(cluster))
}

pub(crate) fn owner_tags(address: &Value) -> OwnerTags {
    let text = |key: &str| address["tags"][key].as_str().map(str::to_owned);
    match (text(CLUSTER_TAG), text(SERVICE_TAG)) {
        (Some(cluster), Some(service)) => OwnerTags {
            cluster: Some(cluster),
            service: Some(service),
        },
        _ => OwnerTags::default(),
    }
}

/// Returns the settings of an address that changes compare.
fn observed(address: &Value) -> Attributes {
    let mut attributes = Attributes::default();
    if let Some(label) = address["properties"]["dnsSettings"]["domainNameLabel"].as_str() {
        attributes = attributes.set("dnsLabel", label.to_ascii_lowercase());
    }
    if address["properties"]["ipTags"].is_array() {
        let tag = |object: &Value| {
            (
                text(object, "/ipTagType").to_owned(),
                text(object, "/tag").to_owned(),
            )
        };
        attributes = attributes.set(
            "ipTags",
            items(address, "ipTags")
                .map(tag)
                .collect::<BTreeMap<_, _>>(),
        );
    }
    attributes
}

/// Returns the tag of an address with a further Service.
fn with(services: Vec<&str>, service: &str) -> String {
    let is_known = services.contains(&service);
    services
        .into_iter()
        .chain((!is_known).then_some(service))
        .collect::<Vec<_>>()
        .join(",")
}

pub(super) fn full_name(service: &Service) -> String {
    let text = |entry: &Option<String>| entry.clone().unwrap_or_default();
    format!(
        "{}/{}",
        text(&service.metadata.namespace),
        text(&service.metadata.name)
    )
}

impl AzureLoadBalancers {
    /// Returns the group of a Service's address.
    pub(crate) fn address_group(&self, spec: &Spec) -> ResourceGroup {
        let mut group = self.config().load_balancers.clone();
        if let Some(name) = &spec.address_group {
            group.name = name.to_ascii_lowercase();
        }
        group
    }

    /// Returns the tags that an address of the Service must have.
    pub(crate) fn address_tags(
        &self,
        spec: &Spec,
        service: &Service,
        cluster: &str,
        owner: &OwnerTags,
    ) -> BTreeMap<String, String> {
        let mut tags = self.config().tags.clone();
        tags.extend(spec.address_tags.clone());
        tags.insert(SERVICE[0].to_owned(), full_name(service));
        tags.insert(CLUSTER[0].to_owned(), cluster.to_owned());
        for (key, value) in [(CLUSTER_TAG, &owner.cluster), (SERVICE_TAG, &owner.service)] {
            tags.extend(value.iter().map(|value| (key.to_owned(), value.clone())));
        }
        if spec
            .dns_label
            .as_ref()
            .is_some_and(|dns_label| !dns_label.is_empty())
        {
            tags.insert(DNS_OWNER.to_owned(), full_name(service));
        }
        tags
    }

    /// Returns the settings of an address that changes compare. Its Service may no longer exist.
    pub(crate) fn observed_address(
        &self,
        address: &Value,
        service: Option<&Service>,
    ) -> Attributes {
        let config = self.config();
        let wanted = service.map(|service| {
            let spec = Spec::of(service, &config).spec;
            self.address_tags(&spec, service, self.cluster(), &OwnerTags::default())
        });
        tags::observed(
            observed(address),
            &config,
            address,
            &wanted.unwrap_or_default(),
        )
    }

    /// Returns the settings of the address that a Service asks for. Tags that only ccm-rs reads are written along with
    /// other changes.
    pub(crate) fn desired_address(
        &self,
        spec: &Spec,
        service: &Service,
        cluster: &str,
    ) -> Attributes {
        let mut attributes = Attributes::default();
        if let Some(label) = &spec.dns_label {
            attributes = match label.is_empty() {
                true => attributes.set("dnsLabel", ()),
                false => attributes.set("dnsLabel", label.to_ascii_lowercase()),
            };
        }
        if let Some(tags) = spec
            .ip_tags
            .as_ref()
            .filter(|_| self.config().file.changes_ip_tags)
        {
            attributes = match tags.is_empty() {
                true => attributes.set("ipTags", ()),
                false => attributes.set("ipTags", tags),
            };
        }
        let tags = self.address_tags(spec, service, cluster, &OwnerTags::default());
        let legacy = |key: &&String| ![SERVICE[0], CLUSTER[0]].contains(&key.as_str());
        tags::desired(
            attributes,
            &self.config(),
            tags.iter().filter(|(key, _)| legacy(key)),
        )
    }

    /// Finds an existing address that the Service names or states.
    ///
    /// # Errors
    /// *Invalid* if there is none, or if it belongs to a user and lacks the DNS label of the Service.
    pub(crate) async fn stated_address(
        &self,
        spec: &Spec,
        family: &Family,
    ) -> Result<Option<Value>> {
        let found = self.find_stated_address(spec, family).await?;
        let users = found
            .as_ref()
            .filter(|object| !is_managed(object, self.cluster()));
        if let (Some(address), Some(label)) = (
            users,
            spec.dns_label
                .as_deref()
                .filter(|dns_label| !dns_label.is_empty()),
        ) && !text(address, "/properties/dnsSettings/domainNameLabel")
            .eq_ignore_ascii_case(label)
        {
            return Err(Error::invalid(format!(
                "public IP address {} is not managed by Kubernetes and does not have DNS label {label:?}; set the label \
                 there, or remove annotation {}",
                text(address, "/name"),
                crate::annotations::DNS_LABEL.key()
            )));
        }
        Ok(found)
    }

    async fn find_stated_address(&self, spec: &Spec, family: &Family) -> Result<Option<Value>> {
        let group = self.address_group(spec);
        if let Some(name) = &family.address_name {
            let found = self
                .arm()
                .get::<Value>(&PUBLIC_ADDRESSES, &group, &[name])
                .await?;
            let missing = || {
                Error::invalid(format!(
                    "public IP address {name:?} does not exist in resource group {}",
                    group.name
                ))
            };
            return found.map(Some).ok_or_else(missing);
        }
        let Some(ip) = family.address else {
            return Ok(None);
        };
        let all = self.arm().all(&PUBLIC_ADDRESSES, &group).await?;
        let found = all
            .into_iter()
            .find(|object| text(object, "/properties/ipAddress").parse() == Ok(ip));
        let missing = || {
            Error::invalid(format!(
                "no public IP address of resource group {} has address {ip}; create it first, or name its group",
                group.name
            ))
        };
        found.map(Some).ok_or_else(missing)
    }

    /// Creates or changes the address of a Service.
    pub(crate) async fn write_address(&self, name: &str, wanted: Wanted<'_>) -> Result<()> {
        let Wanted {
            spec,
            family,
            service,
            cluster,
            owner,
        } = wanted;
        let group = self.address_group(spec);
        let found = self
            .arm()
            .get::<Value>(&PUBLIC_ADDRESSES, &group, &[name])
            .await?;
        let is_new = found.is_none();
        let mut address = found.unwrap_or_else(|| self.config().new_resource());
        let before = address.clone();
        if let Some(other) = owner_tags(&before)
            .cluster
            .filter(|cluster| Some(cluster) != owner.cluster.as_ref())
        {
            return Err(Error::invalid(format!(
                "public IP address {name} carries tag {CLUSTER_TAG} of another cluster, {other:?}; it is left alone"
            )));
        }
        if is_new {
            let zones = self.zones().await?;
            if !zones.is_empty() {
                *place(&mut address, &["zones"]) = json!(zones);
            }
            *place(&mut address, &["sku"]) = json!({ "name": self.config().file.sku() });
            *place(&mut address, &["properties"]) = json!({
                "publicIPAllocationMethod": if self.config().file.is_basic() && family.is_ipv6 { "Dynamic" } else { "Static" },
                "publicIPAddressVersion": family.name(),
            });
            if let Some(prefix) = &family.prefix {
                *place(&mut address, &["properties", "publicIPPrefix"]) = json!({ "id": prefix });
            }
        }
        if let Some(tags) = spec
            .ip_tags
            .as_ref()
            .filter(|ip_tag| self.config().file.changes_ip_tags || (is_new && !ip_tag.is_empty()))
        {
            let tags = tags
                .iter()
                .map(|(key, value)| json!({"ipTagType": key, "tag": value}));
            *place(&mut address, &["properties", "ipTags"]) = tags.collect();
        }
        let mut tags = self.address_tags(spec, service, cluster, owner);
        // Other Services that share the address stay in its tag.
        tags.insert(
            SERVICE[0].to_owned(),
            with(services(&before), &full_name(service)),
        );
        tags::write(&self.config(), &mut address, &tags);
        match spec.dns_label.as_deref() {
            Some("") => overlay(&mut address, &json!({"properties": {"dnsSettings": null}})),
            Some(label) => {
                let holder = before["tags"][DNS_OWNER]
                    .as_str()
                    .filter(|dns_owner| *dns_owner != full_name(service));
                if let Some(holder) = holder {
                    return Err(Error::invalid(format!(
                        "the DNS label of public IP address {name} is held by Service {holder}"
                    )));
                }
                overlay(
                    &mut address,
                    &json!({"properties": {"dnsSettings": {"domainNameLabel": label.to_ascii_lowercase()}}}),
                );
            }
            None => {}
        }
        if address == before {
            return Ok(());
        }
        self.arm()
            .write(&PUBLIC_ADDRESSES, &group, &[name], &address)
            .await
            .map(drop)
    }

    /// Reads an address; `None` if it does not exist or belongs to a user.
    async fn managed_address<'a>(
        &self,
        id: &'a str,
    ) -> Result<Option<(ResourceGroup, &'a str, Value)>> {
        let Some((group, name)) = place_of(id) else {
            return Ok(None);
        };
        let found = self
            .arm()
            .get::<Value>(&PUBLIC_ADDRESSES, &group, &[name])
            .await?;
        Ok(found
            .filter(|object| is_managed(object, self.cluster()))
            .map(|address| (group, name, address)))
    }

    /// Adds a Service to the tag of an address that was made for another Service.
    pub(crate) async fn join_address(&self, id: &str, service: &Service) -> Result<()> {
        let service_name = full_name(service);
        let Some((group, name, address)) = self.managed_address(id).await? else {
            return Ok(());
        };
        if services(&address).contains(&&*service_name) {
            return Ok(());
        }
        let tags = json!({"tags": {SERVICE[0]: with(services(&address), &service_name)}});
        self.change_address(&group, name, address, &tags).await
    }

    /// Removes a Service from the tag of an address, which is deleted with its last Service.
    pub(crate) async fn leave_address(&self, id: &str, service: &Service) -> Result<()> {
        let Some((group, name, address)) = self.managed_address(id).await? else {
            return Ok(());
        };
        let service_name = full_name(service);
        let all = self.services();
        // A Service that was deleted meanwhile does not keep the address.
        let exists = |name: &str| all.iter().any(|entry| full_name(entry) == name);
        let others: Vec<&str> = services(&address)
            .into_iter()
            .filter(|service| *service != service_name && exists(service))
            .collect();
        let Some(heir) = others.first() else {
            if owner_in(name).is_some() {
                return self.delete_address(&group, name).await;
            }
            // No program generates such a name: a user made the address, and an earlier program tagged it.
            let tags = [
                &SERVICE[..],
                &CLUSTER,
                &[CLUSTER_TAG, SERVICE_TAG, DNS_OWNER],
            ]
            .concat();
            let tags: serde_json::Map<_, _> = tags
                .iter()
                .map(|key| ((*key).to_owned(), Value::Null))
                .collect();
            return self
                .change_address(&group, name, address, &json!({ "tags": tags }))
                .await;
        };
        let mut tags = json!({"tags": {SERVICE[0]: others.join(",")}});
        if owner_tags(&address).service == service.metadata.uid {
            let heir = all
                .iter()
                .find(|entry| full_name(entry) == *heir)
                .and_then(|entry| entry.metadata.uid.clone());
            tags["tags"][SERVICE_TAG] = heir.unwrap_or_else(|| "shared".to_owned()).into();
        }
        if address["tags"][DNS_OWNER] == service_name {
            tags["tags"][DNS_OWNER] = Value::Null;
        }
        self.change_address(&group, name, address, &tags).await
    }

    async fn change_address(
        &self,
        group: &ResourceGroup,
        name: &str,
        mut address: Value,
        change: &Value,
    ) -> Result<()> {
        overlay(&mut address, change);
        self.arm()
            .write(&PUBLIC_ADDRESSES, group, &[name], &address)
            .await
            .map(drop)
    }

    /// Deletes an address. One that something else uses by now stays.
    async fn delete_address(&self, group: &ResourceGroup, name: &str) -> Result<()> {
        match self.arm().delete(&PUBLIC_ADDRESSES, group, &[name]).await {
            Err(error) if error.code() == "PublicIPAddressCannotBeDeleted" => {
                tracing::warn!(name, %error, "public IP address stays, because it is in use");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Reads the address of a frontend.
    pub(crate) async fn address_by_id(&self, id: &str) -> Result<Option<Value>> {
        let Some((group, name)) = place_of(id) else {
            return Ok(None);
        };
        self.arm().get(&PUBLIC_ADDRESSES, &group, &[name]).await
    }
}

/// The Service that an address is for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) family: &'a Family,
    pub(crate) service: &'a Service,
    pub(crate) cluster: &'a str,
    pub(crate) owner: &'a OwnerTags,
}
