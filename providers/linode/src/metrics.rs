//! The metric series of Linode's Go cloud controller manager, under their old names.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::CloudMetrics;

provider_kit::series! {
    /// Requests to the API.
    REQUESTS: Counter = "ccm_linode_client_requests_total", "method", "result";
}

/// The functions of the vendor's client, by which requests are counted.
const METHODS: &[(&str, &str)] = &[
    ("GET /profile", "GetProfile"),
    ("GET /linode/instances", "ListInstances"),
    ("GET /linode/instances/{id}", "GetInstance"),
    ("GET /linode/instances/{id}/configs", "ListInstanceConfigs"),
    ("GET /linode/instances/{id}/interfaces", "ListInterfaces"),
    (
        "PUT /linode/instances/{id}/interfaces/{interface}",
        "UpdateInterface",
    ),
    (
        "PUT /linode/instances/{id}/configs/{config}/interfaces/{interface}",
        "UpdateInstanceConfigInterface",
    ),
    ("GET /vpcs", "ListVPCs"),
    ("GET /vpcs/{id}/ips", "ListVPCIPAddresses"),
    ("GET /vpcs/{id}/ipv6s", "ListVPCIPv6Addresses"),
    ("GET /nodebalancers", "ListNodeBalancers"),
    ("POST /nodebalancers", "CreateNodeBalancer"),
    ("GET /nodebalancers/{id}", "GetNodeBalancer"),
    ("PUT /nodebalancers/{id}", "UpdateNodeBalancer"),
    ("DELETE /nodebalancers/{id}", "DeleteNodeBalancer"),
    ("GET /nodebalancers/{id}/configs", "ListNodeBalancerConfigs"),
    (
        "POST /nodebalancers/{id}/configs",
        "CreateNodeBalancerConfig",
    ),
    (
        "DELETE /nodebalancers/{id}/configs/{config}",
        "DeleteNodeBalancerConfig",
    ),
    (
        "POST /nodebalancers/{id}/configs/{config}/rebuild",
        "RebuildNodeBalancerConfig",
    ),
    (
        "GET /nodebalancers/{id}/configs/{config}/nodes",
        "ListNodeBalancerNodes",
    ),
    (
        "GET /nodebalancers/{id}/firewalls",
        "ListNodeBalancerFirewalls",
    ),
    ("POST /networking/firewalls", "CreateFirewall"),
    ("DELETE /networking/firewalls/{id}", "DeleteFirewall"),
    (
        "PUT /networking/firewalls/{id}/rules",
        "UpdateFirewallRules",
    ),
    (
        "GET /networking/firewalls/{id}/devices",
        "ListFirewallDevices",
    ),
    (
        "POST /networking/firewalls/{id}/devices",
        "CreateFirewallDevice",
    ),
    (
        "DELETE /networking/firewalls/{id}/devices/{device}",
        "DeleteFirewallDevice",
    ),
    (
        "DELETE /networking/reserved/ips/{address}",
        "DeleteReservedIPAddress",
    ),
];

/// Counts requests under the names of the Go program.
pub(crate) struct Requests(pub(crate) Arc<dyn CloudMetrics>);

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, status: Option<u16>, _took: Duration) {
        let method = METHODS
            .iter()
            .find(|(route, _)| *route == operation)
            .map_or("other", |(_, method)| method);
        let result = if status.is_some_and(|status| status < 400) {
            "ok"
        } else {
            "error"
        };
        self.0.record(&REQUESTS, &[method, result], 1.0);
    }
}
