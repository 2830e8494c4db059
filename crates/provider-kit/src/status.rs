//! The status of a Service: `status.loadBalancer.ingress`.

use std::net::IpAddr;

use cloud_provider::{LoadBalancerIngress, LoadBalancerStatus, Service};

/// A builder of the status of a Service, from the addresses of its load balancer and the user's settings.
///
/// ```
/// use provider_kit::status::Status;
///
/// let status = Status::default().proxied(false).addresses(["203.0.113.8", "2001:db8::1", "10.0.0.9"]);
/// let ingress = status.clone().without_ipv6(true).build().ingress.unwrap();
/// assert_eq!(ingress.iter().filter_map(|it| it.ip.as_deref()).collect::<Vec<_>>(), ["203.0.113.8", "10.0.0.9"]);
/// assert!(ingress.iter().all(|it| it.ip_mode.as_deref() == Some("VIP")));
///
/// let ingress = status.hostname(Some("lb.example.com")).build().ingress.unwrap();
/// assert_eq!((ingress.len(), ingress[0].hostname.as_deref()), (1, Some("lb.example.com")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Status {
    hostname: Option<String>,
    ip_mode: Option<&'static str>,
    is_without_ipv6: bool,
    addresses: Vec<String>,
}

impl Status {
    /// Sets a host name that is shown instead of all addresses, for clients that must not bypass the load balancer.
    /// `None` and an empty name mean addresses.
    #[must_use]
    pub fn hostname(self, name: Option<&str>) -> Self {
        Self {
            hostname: name.filter(|name| !name.is_empty()).map(str::to_owned),
            ..self
        }
    }

    /// Sets the `ipMode` of all addresses: `Proxy` if traffic from inside the cluster must also go through the load
    /// balancer, because Pods expect the PROXY protocol from it; else `VIP`. If the method is not called, the status
    /// has no `ipMode`, which means `VIP`.
    #[must_use]
    pub fn proxied(self, is_proxied: bool) -> Self {
        Self {
            ip_mode: Some(if is_proxied { "Proxy" } else { "VIP" }),
            ..self
        }
    }

    /// Sets whether IPv6 addresses are left out.
    #[must_use]
    pub fn without_ipv6(self, is_without_ipv6: bool) -> Self {
        Self {
            is_without_ipv6,
            ..self
        }
    }

    /// Adds addresses in this order. Addresses that are present already are not repeated.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        for address in addresses.into_iter().map(Into::into) {
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
        self
    }

    /// Builds the status. Without an address or a name, the list is absent, which means "none yet".
    #[must_use]
    pub fn build(self) -> LoadBalancerStatus {
        let Self {
            hostname,
            ip_mode,
            is_without_ipv6,
            addresses,
        } = self;
        let ingress = if hostname.is_some() {
            vec![LoadBalancerIngress {
                hostname,
                ..LoadBalancerIngress::default()
            }]
        } else {
            let shown = addresses
                .into_iter()
                .filter(|text| !(is_without_ipv6 && is_ipv6(text)));
            let ip_mode = ip_mode.map(str::to_owned);
            shown
                .map(|ip| LoadBalancerIngress {
                    ip: Some(ip),
                    ip_mode: ip_mode.clone(),
                    ..Default::default()
                })
                .collect()
        };
        LoadBalancerStatus {
            ingress: Some(ingress).filter(|ingress| !ingress.is_empty()),
        }
    }
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6())
}

/// Returns the addresses in a Service's status.
///
/// ```
/// assert!(provider_kit::status::shown(&cloud_provider::Service::default()).is_empty());
/// ```
#[must_use]
pub fn shown(service: &Service) -> &[LoadBalancerIngress] {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_without_addresses_has_no_list() {
        assert_eq!(Status::default().build(), LoadBalancerStatus::default());
        assert_eq!(
            Status::default()
                .without_ipv6(true)
                .addresses(["::1"])
                .build(),
            LoadBalancerStatus::default()
        );
        assert_eq!(
            Status::default().hostname(Some("")).build(),
            LoadBalancerStatus::default()
        );
    }

    #[test]
    fn addresses_keep_their_order_and_are_not_repeated() {
        let ingress = Status::default()
            .addresses(["b", "a"])
            .addresses(["b", "c"])
            .build()
            .ingress
            .unwrap();
        assert_eq!(
            ingress
                .iter()
                .filter_map(|ingress| ingress.ip.as_deref())
                .collect::<Vec<_>>(),
            ["b", "a", "c"]
        );
        assert!(ingress.iter().all(|ingress| ingress.ip_mode.is_none()));
    }

    #[test]
    fn proxy_protocol_sets_the_ip_mode_proxy() {
        let ingress = Status::default()
            .proxied(true)
            .addresses(["203.0.113.8"])
            .build()
            .ingress
            .unwrap();
        assert_eq!(ingress[0].ip_mode.as_deref(), Some("Proxy"));
    }
}
