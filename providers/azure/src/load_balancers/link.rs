//! Private link services: a frontend that other virtual networks reach by private endpoints.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result, Service};
use provider_kit::annotations::Annotations;
use provider_kit::json_path::place;
use provider_kit::load_balancers::{Field, Resource, ResourceKey};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::AzureLoadBalancers;
use super::address::{CLUSTER, full_name};
use super::document::Share;
use crate::annotations as key;
use crate::arm::{ENDPOINT_CONNECTIONS, PRIVATE_LINKS, SUBNETS, items, name_of, overlay, text};
use crate::config::{Config, ResourceGroup};

/// The kind of resource, in messages.
pub(super) const KIND: &str = "private link service";
/// The tag with namespace and name of the Service.
const OWNER: &str = "k8s-azure-owner-service";
/// The longest name of an IP configuration.
const MOST_NAME: usize = 80;

/// The settings of a private link service, as a Service states them and as Azure shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PrivateLink {
    /// ID of the subnet of its addresses, in lower case.
    subnet: String,
    /// The number of its addresses.
    count: u32,
    /// Static addresses: the first is the primary one, the others are in order.
    addresses: Vec<String>,
    enable_proxy_protocol: bool,
    fqdns: BTreeSet<String>,
    visibility: BTreeSet<String>,
    auto_approval: BTreeSet<String>,
}

impl Resource for PrivateLink {
    const FIELDS: &'static [Field] = &[
        Field::update("subnet").setting(&key::LINK_SUBNET),
        Field::update("count").setting(&key::LINK_COUNT),
        Field::update("addresses").setting(&key::LINK_ADDRESSES),
        Field::update("enableProxyProtocol").setting(&key::LINK_PROXY_PROTOCOL),
        Field::update("fqdns").setting(&key::LINK_FQDNS),
        Field::update("visibility").setting(&key::LINK_VISIBILITY),
        Field::update("autoApproval").setting(&key::LINK_AUTO_APPROVAL),
    ];
}

/// A private link service that a Service asks for.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    name: Option<String>,
    pub(super) settings: PrivateLink,
}

/// Returns the part of a resource graph for a private link service.
pub(super) fn resource(name: &str) -> ResourceKey {
    ResourceKey::created_after(KIND, name.to_ascii_lowercase())
}

/// Parses the annotations of a Service; `None` if it asks for no private link service.
pub(super) fn parse(
    config: &Config,
    annotations: &mut Annotations<'_>,
    subnet: Option<&str>,
    may: bool,
) -> Option<Link> {
    let is_stated = annotations.get(&key::LINK_CREATE) == Some(true);
    let mut words = |key| {
        let text: String = annotations.get(key).unwrap_or_default();
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut addresses = words(&key::LINK_ADDRESSES);
    let [fqdns, mut visibility, auto_approval] = [
        &key::LINK_FQDNS,
        &key::LINK_VISIBILITY,
        &key::LINK_AUTO_APPROVAL,
    ]
    .map(words);
    if visibility.iter().any(|visibility| visibility == "*") {
        visibility = vec!["*".to_owned()];
    }
    let stated = annotations
        .get(&key::LINK_SUBNET)
        .map(|link_subnet| link_subnet.trim().to_owned())
        .filter(|text| !text.is_empty());
    let count = annotations.get(&key::LINK_COUNT).unwrap_or(1);
    let name = annotations
        .get(&key::LINK_NAME)
        .map(|link_name| link_name.trim().to_owned())
        .filter(|text| !text.is_empty());
    let enable_proxy_protocol = annotations.get(&key::LINK_PROXY_PROTOCOL) == Some(true);
    if !is_stated {
        return None;
    }
    if !may {
        annotations.mistake(format!(
            "{}: a private link service needs an internal load balancer or no floating address, and the family IPv4",
            key::LINK_CREATE.key()
        ));
    }
    if let Some(wrong) = addresses
        .iter()
        .find(|address| address.parse::<std::net::Ipv4Addr>().is_err())
    {
        annotations.mistake(format!(
            "{}: {wrong:?} is no IPv4 address",
            key::LINK_ADDRESSES.key()
        ));
    }
    if addresses.len() > count as usize {
        annotations.mistake(format!(
            "{}: {count} is less than the number of addresses",
            key::LINK_COUNT.key()
        ));
    }
    let mut open = auto_approval
        .iter()
        .filter(|auto_approval| !visibility.contains(auto_approval) && visibility != ["*"]);
    if let Some(hidden) = open.next() {
        annotations.mistake(format!(
            "{}: {hidden:?} is not among those that see it",
            key::LINK_AUTO_APPROVAL.key()
        ));
    }
    addresses
        .get_mut(1..)
        .into_iter()
        .for_each(<[String]>::sort);
    let settings = PrivateLink {
        subnet: config.subnet_id(stated.as_deref().or(subnet).unwrap_or_default()),
        count,
        addresses,
        enable_proxy_protocol,
        fqdns: fqdns.into_iter().collect(),
        visibility: visibility.into_iter().collect(),
        auto_approval: auto_approval.into_iter().collect(),
    };
    Some(Link { name, settings })
}

impl Link {
    /// Returns the name: that of the annotation, or one that follows from the frontend.
    pub(super) fn name(&self, frontend: &str) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| format!("pls-{frontend}"))
    }
}

/// Returns the settings of a private link service as Azure shows it.
pub(super) fn observed(shown: &Value) -> PrivateLink {
    let properties = &shown["properties"];
    let texts = |value: &Value| {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|object| object.as_str().map(str::to_owned))
            .collect()
    };
    let mut configurations: Vec<&Value> = items(shown, "ipConfigurations").collect();
    configurations.sort_by_key(|configuration| {
        (
            configuration["properties"]["primary"] != true,
            text(configuration, "/properties/privateIPAddress"),
        )
    });
    let is_static =
        |object: &&&Value| text(object, "/properties/privateIPAllocationMethod") == "Static";
    let addresses = configurations
        .iter()
        .filter(is_static)
        .map(|configuration| text(configuration, "/properties/privateIPAddress").to_owned());
    PrivateLink {
        subnet: configurations
            .first()
            .map(|configurations| {
                text(configurations, "/properties/subnet/id").to_ascii_lowercase()
            })
            .unwrap_or_default(),
        count: u32::try_from(configurations.len()).unwrap_or_default(),
        addresses: addresses.collect(),
        enable_proxy_protocol: properties["enableProxyProtocol"] == true,
        fqdns: texts(&properties["fqdns"]),
        visibility: texts(&properties["visibility"]["subscriptions"]),
        auto_approval: texts(&properties["autoApproval"]["subscriptions"]),
    }
}

impl PrivateLink {
    /// Returns the properties as Azure reads them.
    fn properties(&self, name: &str, frontend: &str) -> Value {
        let has_static = !self.addresses.is_empty();
        let configuration = |end: String, ip: Option<&String>, is_primary: bool| {
            let mut start = format!("{}-{name}", name_of(&self.subnet));
            start.truncate(MOST_NAME - end.len());
            let mut properties = json!({
                "privateIPAllocationMethod": ip.map_or("Dynamic", |_| "Static"), "privateIPAddressVersion": "IPv4",
                "primary": is_primary, "subnet": {"id": self.subnet},
            });
            ip.iter()
                .for_each(|ip| properties["privateIPAddress"] = json!(ip));
            json!({"name": start + &end, "properties": properties})
        };
        let fixed = self
            .addresses
            .iter()
            .enumerate()
            .map(|(at, ip)| configuration(format!("-static-{ip}"), Some(ip), at == 0));
        let rest = (0..self.count as usize - self.addresses.len())
            .map(|at| configuration(format!("-dynamic-{at}"), None, !has_static && at == 0));
        json!({
            "loadBalancerFrontendIpConfigurations": [{"id": frontend}],
            "ipConfigurations": fixed.chain(rest).collect::<Vec<_>>(),
            "enableProxyProtocol": self.enable_proxy_protocol, "fqdns": self.fqdns,
            "visibility": {"subscriptions": self.visibility}, "autoApproval": {"subscriptions": self.auto_approval},
        })
    }
}

/// Returns the frontend that a private link service leads to.
fn frontend_of(link: &Value) -> &str {
    text(
        link,
        "/properties/loadBalancerFrontendIpConfigurations/0/id",
    )
}

impl AzureLoadBalancers {
    /// Returns the group of a Service's private link service.
    fn link_group(&self, service: Option<&Service>) -> ResourceGroup {
        let annotations = service.and_then(|service| service.metadata.annotations.as_ref());
        let stated = annotations
            .and_then(|annotations| annotations.get(key::LINK_GROUP.key()))
            .map(|entry| entry.trim());
        let mut group = self.config().private_links.clone();
        group.name = stated
            .filter(|text| !text.is_empty())
            .map_or(group.name, str::to_ascii_lowercase);
        group
    }

    /// Reads the private link services of a Service's group, if the Service asks for one, or if any Service does.
    pub(super) async fn links(&self, service: Option<&Service>) -> Result<Vec<Value>> {
        let asks = |service: &Service| {
            let annotations = service.metadata.annotations.as_ref();
            annotations
                .and_then(|annotations| annotations.get(key::LINK_CREATE.key()))
                .is_some_and(|entry| entry.trim().eq_ignore_ascii_case("true"))
        };
        let all = || {
            self.caches
                .get()
                .is_some_and(|caches| caches.services().iter().any(|service| asks(service)))
        };
        match service.map_or_else(all, asks) {
            true => {
                self.arm()
                    .all(&PRIVATE_LINKS, &self.link_group(service))
                    .await
            }
            false => Ok(Vec::new()),
        }
    }

    /// Returns the private link service of a share, among those that were read, if this cluster made it for the Service.
    pub(super) fn link_of<'a>(
        &self,
        share: &Share<'_>,
        links: &'a [Value],
        service: Option<&str>,
    ) -> Option<&'a Value> {
        let leads = |link: &&Value| {
            share
                .frontends
                .values()
                .any(|frontend| text(frontend, "/id").eq_ignore_ascii_case(frontend_of(link)))
        };
        let is_ours = |link: &&Value| {
            let owner = link["tags"][OWNER].as_str();
            self.made_link(link) && (service.is_none() || owner == service)
        };
        links.iter().find(|link| leads(link) && is_ours(link))
    }

    fn made_link(&self, link: &Value) -> bool {
        CLUSTER.iter().any(|key| {
            link["tags"][*key]
                .as_str()
                .is_some_and(|key| key.eq_ignore_ascii_case(self.cluster()))
        })
    }

    /// Creates or changes the private link service of a frontend.
    pub(super) async fn write_link(
        &self,
        name: &str,
        service: &Service,
        frontend: &str,
        wanted: &PrivateLink,
    ) -> Result<()> {
        let group = self.link_group(Some(service));
        let all = self.arm().all(&PRIVATE_LINKS, &group).await?;
        let service_name = full_name(service);
        let existing_link = all.into_iter().find(|object| {
            frontend_of(object).eq_ignore_ascii_case(frontend)
                || text(object, "/name").eq_ignore_ascii_case(name)
        });
        let is_own = |object: &Value| {
            self.made_link(object)
                && object["tags"][OWNER] == service_name
                && text(object, "/name").eq_ignore_ascii_case(name)
        };
        if let Some(other) = existing_link.as_ref().filter(|object| !is_own(object)) {
            return Err(Error::invalid(format!(
                "private link service {} of Service {} has the name or the frontend; a name cannot change, and a frontend \
                 has one private link service: remove annotation {}",
                text(other, "/name"),
                other["tags"][OWNER].as_str().unwrap_or("nobody"),
                key::LINK_CREATE.key()
            )));
        }
        self.allow_links(&wanted.subnet).await?;
        let mut link = existing_link.unwrap_or_else(|| self.config().new_resource());
        overlay(
            &mut link,
            &json!({"properties": wanted.properties(name, frontend)}),
        );
        let mut tags = self.config().tags.clone();
        tags.extend([
            (CLUSTER[0].to_owned(), self.cluster().to_owned()),
            (OWNER.to_owned(), service_name),
        ]);
        crate::tags::write(&self.config(), &mut link, &tags);
        self.arm()
            .write(&PRIVATE_LINKS, &group, &[name], &link)
            .await
            .map(drop)
    }

    /// Lets a subnet have addresses of private link services.
    async fn allow_links(&self, subnet: &str) -> Result<()> {
        let config = self.config();
        let group = &config.vnet;
        let vnet = &config.file.vnet_name;
        let names = [&**vnet, name_of(subnet)];
        let Some(mut shown) = self.arm().get::<Value>(&SUBNETS, group, &names).await? else {
            return Err(Error::invalid(format!(
                "subnet {} of network {vnet} does not exist",
                name_of(subnet)
            )));
        };
        if shown["properties"]["privateLinkServiceNetworkPolicies"] == "Disabled" {
            return Ok(());
        }
        *place(
            &mut shown,
            &["properties", "privateLinkServiceNetworkPolicies"],
        ) = "Disabled".into();
        self.arm()
            .write(&SUBNETS, group, &names, &shown)
            .await
            .map(drop)
    }

    /// Deletes the private link services of frontends that this cluster made, with their connections.
    pub(super) async fn delete_links(
        &self,
        service: &Service,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let group = self.link_group(Some(service));
        for link in self
            .arm()
            .all(&PRIVATE_LINKS, &group)
            .await?
            .iter()
            .filter(|object| is_wanted(object) && self.made_link(object))
        {
            let name = text(link, "/name");
            for connection in items(link, "privateEndpointConnections") {
                self.arm()
                    .delete(
                        &ENDPOINT_CONNECTIONS,
                        &group,
                        &[name, text(connection, "/name")],
                    )
                    .await?;
            }
            self.arm().delete(&PRIVATE_LINKS, &group, &[name]).await?;
        }
        Ok(())
    }

    /// Deletes the private link services of all frontends of a share.
    pub(super) async fn delete_links_of(
        &self,
        document: &Value,
        owner: &str,
        service: &Service,
    ) -> Result<()> {
        let share = Share::of(document, owner);
        let ids: Vec<&str> = share
            .frontends
            .values()
            .map(|frontend| text(frontend, "/id"))
            .collect();
        self.delete_links(service, |link| {
            ids.iter()
                .any(|id| frontend_of(link).eq_ignore_ascii_case(id))
        })
        .await
    }
}
