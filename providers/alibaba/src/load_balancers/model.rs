//! Load balancers and their resources, with the names of the APIs: each table says how a field changes, and which
//! annotation sets it.

use provider_kit::load_balancers::{Field, Resource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::annotations as key;

/// Declares an object of the API and the table of its fields.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident [$($field:expr),* $(,)?])*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub(super) struct $name(pub(super) Value);

        impl Resource for $name {
            const FIELDS: &'static [Field] = &[$($field),*];
        }
    )*};
}

objects! {
    /// A classic load balancer (CLB).
    ClassicBalancer [
        Field::create_only("AddressType").filled_by(&key::ADDRESS_TYPE),
        Field::create_only("AddressIPVersion").filled_by(&key::IP_VERSION),
        Field::create_only("NetworkType").filled_by(&key::NETWORK_TYPE),
        Field::create_only("VSwitchId").filled_by(&key::VSWITCH),
        Field::create_only("MasterZoneId").filled_by(&key::MASTER_ZONE),
        Field::create_only("SlaveZoneId").filled_by(&key::SLAVE_ZONE),
        Field::create_only("Address").filled_by(&key::ADDRESS_IP),
        Field::create_only("ResourceGroupId").filled_by(&key::RESOURCE_GROUP),
        Field::update("LoadBalancerName").filled_by(&key::LB_NAME),
        Field::update("LoadBalancerSpec").filled_by(&key::SPEC),
        Field::update("InstanceChargeType").filled_by(&key::INSTANCE_CHARGE),
        Field::update("InternetChargeType").filled_by(&key::CHARGE),
        Field::update("Bandwidth").filled_by(&key::BANDWIDTH),
        Field::update("DeleteProtection").filled_by(&key::DELETE_PROTECTION),
        Field::update("ModificationProtectionStatus").filled_by(&key::MODIFICATION_PROTECTION),
    ]
    /// A listener of a CLB, of any protocol.
    ClassicListener [
        Field::update("Scheduler").filled_by(&key::SCHEDULING),
        Field::update("ProxyProtocolV2Enabled").filled_by(&key::PROXY),
        Field::update("EstablishedTimeout").filled_by(&key::ESTABLISHED),
        Field::update("PersistenceTimeout").filled_by(&key::PERSISTENCE),
        Field::update("ConnectionDrain").filled_by(&key::DRAINING),
        Field::update("ConnectionDrainTimeout").filled_by(&key::DRAINING_TIMEOUT),
        Field::update("IdleTimeout").filled_by(&key::IDLE),
        Field::update("RequestTimeout").filled_by(&key::REQUEST),
        Field::update("StickySession").filled_by(&key::STICKY),
        Field::update("StickySessionType").filled_by(&key::STICKY_TYPE),
        Field::update("Cookie").filled_by(&key::COOKIE),
        Field::update("CookieTimeout").filled_by(&key::COOKIE_TIMEOUT),
        Field::update("AclStatus").filled_by(&key::ACL_STATUS),
        Field::update("AclIds").filled_by(&key::ACL).unordered_list(),
        Field::update("AclType").filled_by(&key::ACL_TYPE),
        Field::update("XForwardedFor_proto").filled_by(&key::FORWARDED_PROTO),
        Field::update("XForwardedFor_SLBPORT").filled_by(&key::FORWARDED_PORT),
        Field::update("XForwardedFor_ClientSrcPort").filled_by(&key::FORWARDED_CLIENT),
        Field::update("ServerCertificateId").setting(&key::CERTIFICATE),
        Field::update("DomainExtensions").filled_by(&key::DOMAINS).unordered_list(),
        Field::update("TLSCipherPolicy").filled_by(&key::TLS_POLICY),
        Field::update("EnableHttp2").filled_by(&key::HTTP2),
        Field::update("HealthCheckSwitch").filled_by(&key::CHECK_SWITCH),
        Field::update("HealthCheck").filled_by(&key::CHECK_FLAG),
        Field::update("HealthCheckType").filled_by(&key::CHECK_TYPE),
        Field::update("HealthCheckURI").filled_by(&key::CHECK_PATH),
        Field::update("HealthCheckDomain").filled_by(&key::CHECK_DOMAIN),
        Field::update("HealthCheckConnectPort").filled_by(&key::CHECK_PORT),
        Field::update("HealthCheckInterval").filled_by(&key::CHECK_INTERVAL),
        Field::update("HealthCheckConnectTimeout").filled_by(&key::CHECK_CONNECT),
        Field::update("HealthCheckTimeout").filled_by(&key::CHECK_TIMEOUT),
        Field::update("HealthCheckHttpCode").filled_by(&key::CHECK_CODES),
        Field::update("HealthCheckMethod").filled_by(&key::CHECK_METHOD),
        Field::update("HealthyThreshold").filled_by(&key::HEALTHY),
        Field::update("UnhealthyThreshold").filled_by(&key::UNHEALTHY),
        Field::create_only("Protocol").setting(&key::PROTOCOL_PORT),
        Field::create_only("ForwardPort").setting(&key::FORWARD),
        Field::update("Status"),
    ]
    /// A network load balancer (NLB).
    NetworkBalancer [
        Field::create_only("AddressIpVersion").filled_by(&key::IP_VERSION),
        Field::create_only("ResourceGroupId").filled_by(&key::RESOURCE_GROUP),
        Field::update("AddressType").filled_by(&key::ADDRESS_TYPE),
        Field::update("Ipv6AddressType").filled_by(&key::IPV6_ADDRESS),
        Field::update("ZoneMappings").filled_by(&key::ZONE_MAPS).unordered_list(),
        Field::update("SecurityGroupIds").filled_by(&key::SECURITY_GROUPS).unordered_list(),
        Field::update("SourceRanges").unordered_list(),
        Field::update("BandwidthPackageId").filled_by(&key::BANDWIDTH_PACKAGE),
        Field::update("CrossZoneEnabled").filled_by(&key::CROSS_ZONE),
        Field::update("LoadBalancerName").filled_by(&key::LB_NAME),
    ]
    /// A listener of an NLB.
    NetworkListener [
        Field::update("IdleTimeout").filled_by(&key::IDLE),
        Field::update("SecurityPolicyId").filled_by(&key::TLS_POLICY),
        Field::update("CertificateIds").filled_by(&key::CERTIFICATE).unordered_list(),
        Field::update("CaCertificateIds").filled_by(&key::CA_CERTIFICATES).unordered_list(),
        Field::update("AdditionalCertificateIds").filled_by(&key::ADDITIONAL_CERTIFICATES).unordered_list(),
        Field::update("CaEnabled").filled_by(&key::CA_ENABLED),
        Field::update("AlpnEnabled").filled_by(&key::ALPN),
        Field::update("AlpnPolicy").filled_by(&key::ALPN_POLICY),
        Field::update("Cps").filled_by(&key::CPS),
        Field::update("ProxyProtocolEnabled").filled_by(&key::PROXY),
        Field::update("ProxyProtocolV2Config.Ppv2PrivateLinkEpIdEnabled").filled_by(&key::PROXY_ENDPOINT),
        Field::update("ProxyProtocolV2Config.Ppv2PrivateLinkEpsIdEnabled").filled_by(&key::PROXY_SERVICE),
        Field::update("ProxyProtocolV2Config.Ppv2VpcIdEnabled").filled_by(&key::PROXY_VPC),
        Field::create_only("ListenerPort").setting(&key::PORT_RANGES),
        Field::create_only("StartPort").setting(&key::PORT_RANGES),
        Field::create_only("EndPort").setting(&key::PORT_RANGES),
        Field::create_only("ListenerProtocol").setting(&key::PROTOCOL_PORT),
        Field::update("ListenerStatus"),
    ]
    /// A server group of an NLB.
    NetworkGroup [
        Field::create_only("Protocol"),
        Field::create_only("AddressIPVersion").setting(&key::BACKEND_IP),
        Field::update("IpVersionAffinityMode").setting(&key::BACKEND_IP),
        Field::create_only("AnyPortEnabled").setting(&key::PORT_RANGES),
        Field::create_only("ServerGroupType").filled_by(&key::SERVER_GROUP),
        Field::update("Scheduler").filled_by(&key::SCHEDULING),
        Field::update("ConnectionDrainEnabled").setting(&key::DRAINING),
        Field::update("ConnectionDrainTimeout").filled_by(&key::DRAINING_TIMEOUT),
        Field::update("PreserveClientIpEnabled").filled_by(&key::PRESERVE_IP),
        Field::update("HealthCheckConfig.HealthCheckEnabled").setting(&key::CHECK_FLAG),
        Field::update("HealthCheckConfig.HealthCheckType").setting(&key::CHECK_TYPE),
        Field::update("HealthCheckConfig.HealthCheckUrl").filled_by(&key::CHECK_PATH),
        Field::update("HealthCheckConfig.HealthCheckDomain").filled_by(&key::CHECK_DOMAIN),
        Field::update("HealthCheckConfig.HealthCheckConnectPort").filled_by(&key::CHECK_PORT),
        Field::update("HealthCheckConfig.HealthCheckConnectTimeout").filled_by(&key::CHECK_CONNECT),
        Field::update("HealthCheckConfig.HealthCheckInterval").filled_by(&key::CHECK_INTERVAL),
        Field::update("HealthCheckConfig.HealthyThreshold").filled_by(&key::HEALTHY),
        Field::update("HealthCheckConfig.UnhealthyThreshold").filled_by(&key::UNHEALTHY),
    ]
}

/// Fields of CLB listeners that not all protocols have: t TCP, u UDP, h HTTP, s HTTPS.
pub(super) const PROTOCOLS: [(&str, &str); 28] = [
    ("ProxyProtocolV2Enabled", "tu"),
    ("EstablishedTimeout", "t"),
    ("PersistenceTimeout", "t"),
    ("ConnectionDrain", "t"),
    ("ConnectionDrainTimeout", "t"),
    ("IdleTimeout", "hs"),
    ("RequestTimeout", "hs"),
    ("StickySession", "hs"),
    ("StickySessionType", "hs"),
    ("Cookie", "hs"),
    ("CookieTimeout", "hs"),
    ("XForwardedFor_proto", "hs"),
    ("XForwardedFor_SLBPORT", "hs"),
    ("XForwardedFor_ClientSrcPort", "hs"),
    ("ServerCertificateId", "s"),
    ("DomainExtensions", "s"),
    ("TLSCipherPolicy", "s"),
    ("EnableHttp2", "s"),
    ("HealthCheckSwitch", "tu"),
    ("HealthCheck", "hs"),
    ("HealthCheckType", "t"),
    ("HealthCheckURI", "ths"),
    ("HealthCheckDomain", "ths"),
    ("HealthCheckConnectTimeout", "tu"),
    ("HealthCheckTimeout", "hs"),
    ("HealthCheckHttpCode", "ths"),
    ("HealthCheckMethod", "hs"),
    ("ForwardPort", "h"),
];

/// Returns `true` if CLB listeners of the protocol have the field.
pub(super) fn has_field(protocol: &str, field: &str) -> bool {
    let letter = match protocol {
        "https" => 's',
        other => other.chars().next().unwrap_or('t'),
    };
    PROTOCOLS
        .iter()
        .find(|(name, _)| *name == field)
        .is_none_or(|(_, letters)| letters.contains(letter))
}
