//! Keystone's catalogue: the URLs of the services.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result};
use serde_json::Value;

use crate::config::Interface;

/// A service that the provider uses, at the base of its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// Nova, at the URL in the catalogue.
    Compute,
    /// Neutron: `/v2.0`.
    Network,
    /// Octavia: `/v2.0`.
    Balancer,
    /// Octavia without a version, where the API lists its versions.
    BalancerRoot,
    /// Barbican, API version `/v1`.
    Keys,
}

impl Service {
    pub(crate) const ALL: [Self; 5] = [
        Self::Compute,
        Self::Network,
        Self::Balancer,
        Self::BalancerRoot,
        Self::Keys,
    ];

    /// Returns its type in the catalogue.
    pub(crate) fn kind(self) -> &'static str {
        self.names().0
    }

    /// Returns the service's type in the catalogue, and the version to append to the catalogue's URL, unless the URL
    /// already ends with it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Compute => ("compute", ""),
            Self::Network => ("network", "/v2.0"),
            Self::Balancer | Self::BalancerRoot => ("load-balancer", "/v2.0"),
            Self::Keys => ("key-manager", "/v1"),
        }
    }

    fn base(self, url: &str) -> String {
        let (url, (_, version)) = (url.trim_end_matches('/'), self.names());
        let root = url
            .strip_suffix(version)
            .unwrap_or(url)
            .trim_end_matches('/');
        if self == Self::BalancerRoot {
            root.to_owned()
        } else {
            format!("{root}{version}")
        }
    }
}

/// Returns the base URL of a service in a token's catalogue: its first endpoint with this interface, in this region if one is
/// configured.
///
/// # Errors
/// *Invalid*, with the endpoints that exist.
pub(crate) fn base(
    catalogue: &Value,
    service: Service,
    interface: Interface,
    region: Option<&str>,
) -> Result<String> {
    let kind = service.kind();
    let interface = name(interface);
    let endpoints: Vec<&Value> = endpoints(catalogue, kind).collect();
    let text = |endpoint: &Value, key: &str| endpoint[key].as_str().unwrap_or_default().to_owned();
    let fits = |object: &Value| {
        text(object, "interface").trim_end_matches("URL") == interface
            && region
                .is_none_or(|region| object["region"] == region || object["region_id"] == region)
    };
    if let Some(found) = endpoints.iter().find(|endpoint| fits(endpoint)) {
        return Ok(service.base(&text(found, "url")));
    }
    let region_of = |object: &Value| object["region"].as_str().unwrap_or("no region").to_owned();
    let mut known_regions: Vec<_> = endpoints
        .iter()
        .map(|endpoint| format!("{} in {}", text(endpoint, "interface"), region_of(endpoint)))
        .collect();
    known_regions.sort_unstable();
    known_regions.dedup();
    let known_regions = match known_regions.is_empty() {
        true => "it has none of that kind".to_owned(),
        false => format!("it has {}", known_regions.join(", ")),
    };
    let region = region.map_or_else(String::new, |region| format!(" in region {region:?}"));
    Err(Error::invalid(format!(
        "Keystone's catalogue has no {interface} endpoint of {kind}{region}: {known_regions}; check `region` and `os-endpoint-type` in [Global]"
    )))
}

/// Returns the regions of Nova and Neutron.
pub(crate) fn regions(catalogue: &Value) -> BTreeSet<String> {
    let used = [Service::Compute, Service::Network]
        .into_iter()
        .flat_map(|service| endpoints(catalogue, service.kind()));
    used.filter_map(|object| object["region"].as_str().or(object["region_id"].as_str()))
        .map(str::to_owned)
        .collect()
}

fn endpoints<'a>(catalogue: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    let services = catalogue
        .as_array()
        .into_iter()
        .flatten()
        .filter(move |catalogue| catalogue["type"] == kind);
    services
        .filter_map(|service| service["endpoints"].as_array())
        .flatten()
}

fn name(interface: Interface) -> &'static str {
    match interface {
        Interface::Public => "public",
        Interface::Internal => "internal",
        Interface::Admin => "admin",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalogue() -> Value {
        let endpoint = |interface: &str, region: &str, url: &str| json!({"interface": interface, "region": region, "region_id": region, "url": url});
        json!([
            {"type": "identity", "name": "keystone"},
            {"type": "compute", "endpoints": [
                endpoint("public", "One", "https://one/compute/v2.1/p1"), endpoint("public", "Two", "https://two/compute/v2.1/")]},
            {"type": "network", "endpoints": [
                endpoint("internal", "One", "http://net:9696"), endpoint("public", "One", "https://one/network/")]},
            {"type": "load-balancer", "endpoints": [endpoint("public", "One", "https://one/lb/v2.0/")]},
            {"type": "key-manager", "endpoints": [
                {"interface": "public", "region": null, "region_id": "One", "url": "https://one/keys"}]},
        ])
    }

    #[test]
    fn the_first_endpoint_of_interface_and_region_is_taken_and_gets_its_version() {
        let table = [
            (
                Service::Compute,
                Interface::Public,
                None,
                "https://one/compute/v2.1/p1",
            ),
            (
                Service::Compute,
                Interface::Public,
                Some("Two"),
                "https://two/compute/v2.1",
            ),
            (
                Service::Network,
                Interface::Public,
                Some("One"),
                "https://one/network/v2.0",
            ),
            (
                Service::Network,
                Interface::Internal,
                Some("One"),
                "http://net:9696/v2.0",
            ),
            (
                Service::Balancer,
                Interface::Public,
                Some("One"),
                "https://one/lb/v2.0",
            ),
            (
                Service::BalancerRoot,
                Interface::Public,
                Some("One"),
                "https://one/lb",
            ),
            (
                Service::Keys,
                Interface::Public,
                Some("One"),
                "https://one/keys/v1",
            ),
        ];
        for (service, interface, region, url) in table {
            assert_eq!(base(&catalogue(), service, interface, region).unwrap(), url);
        }
    }

    #[test]
    fn the_regions_are_those_of_the_services_that_nodes_depend_on() {
        assert_eq!(Vec::from_iter(regions(&catalogue())), ["One", "Two"]);
        assert!(regions(&Value::Null).is_empty());
    }

    #[test]
    fn a_missing_endpoint_is_told_with_what_there_is() {
        let text = base(
            &catalogue(),
            Service::Compute,
            Interface::Public,
            Some("Three"),
        )
        .unwrap_err()
        .to_string();
        assert!(
            text.contains("no public endpoint of compute in region \"Three\": it has public in One, public in Two"),
            "{text}"
        );
        let text = base(&Value::Null, Service::Keys, Interface::Admin, None)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("no admin endpoint of key-manager: it has none of that kind"),
            "{text}"
        );
    }
}
