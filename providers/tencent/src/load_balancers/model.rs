//! Load balancers and listeners, with the names of the API: each table says how a field changes, and which annotation
//! sets it.

use provider_kit::load_balancers::{Field, Resource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::CREATED_TAG;
use crate::annotations as key;
use crate::api::{list, text};

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
    /// A load balancer of Tencent Cloud.
    Balancer [
        Field::create_only("LoadBalancerType").setting(&key::TYPE),
        Field::create_only("SubnetId").setting(&key::SUBNET),
        Field::create_only("InternetChargeType").setting(&key::CHARGE),
        Field::update("InternetMaxBandwidthOut").setting(&key::BANDWIDTH),
        Field::update("SecurityGroups").setting(&key::SECURITY_GROUPS).unordered_list(),
        Field::update("LoadBalancerPassToTarget").setting(&key::PASS_TO_TARGET),
        Field::update("DeleteProtect").setting(&key::PROTECTION),
        // The tag of load balancers that the program may delete.
        Field::update("IsCreated"),
        Field::observed("Foreign"),
        Field::observed("Groups"),
    ]
    /// A listener of a load balancer.
    Listener [
        Field::create_only("Protocol").setting(&key::PROTOCOLS),
        Field::update("CertId").setting(&key::PROTOCOLS),
        Field::update("Scheduler").setting(&key::LISTENER),
        Field::update("SessionExpireTime"),
        Field::update("IdleConnectTimeout").setting(&key::LISTENER),
        Field::update("HealthCheck.HealthSwitch").setting(&key::LISTENER),
        Field::update("HealthCheck.CheckType").setting(&key::LISTENER),
        Field::update("HealthCheck.CheckPort").setting(&key::LISTENER).null_removes(),
        Field::update("HealthCheck.TimeOut").setting(&key::LISTENER),
        Field::update("HealthCheck.IntervalTime").setting(&key::LISTENER),
        Field::update("HealthCheck.HealthNum").setting(&key::LISTENER),
        Field::update("HealthCheck.UnHealthNum").setting(&key::LISTENER),
        Field::update("HealthCheck.SourceIpType").setting(&key::LISTENER),
        Field::update("HealthCheck.HttpCheckPath").setting(&key::LISTENER),
        Field::update("HealthCheck.HttpCheckDomain").setting(&key::LISTENER),
        Field::update("HealthCheck.HttpCheckMethod").setting(&key::LISTENER),
        Field::update("HealthCheck.HttpVersion").setting(&key::LISTENER),
        Field::update("HealthCheck.HttpCode").setting(&key::LISTENER),
    ]
    /// The security group that admits the source ranges of a Service.
    Group [Field::update("Ranges").unordered_list(), Field::update("IsAttached")]
}

/// Settings of health checks on creation, unless others are stated.
pub(super) fn default_health_check() -> Value {
    json!({"HealthSwitch": 1, "TimeOut": 2, "IntervalTime": 5, "HealthNum": 3, "UnHealthNum": 3, "SourceIpType": 1})
}

/// Returns `true` for a load balancer that is protected against deletion, as the API shows it.
pub(super) fn is_protected(object: &Value) -> bool {
    list(&object["AttributeFlags"]).any(|flag| flag == "DeleteProtect")
}

impl Balancer {
    /// Returns a load balancer as the API shows it, with the names of requests. `managed`: the ID of the security group
    /// that the program manages; `foreign`: ports of listeners that are not the Service's.
    pub(super) fn observed(object: &Value, managed: &str, foreign: &[String]) -> Self {
        let network = &object["NetworkAttributes"];
        Self(json!({
            "LoadBalancerType": object["LoadBalancerType"], "SubnetId": object["SubnetId"],
            "InternetChargeType": network["InternetChargeType"],
            "InternetMaxBandwidthOut": network["InternetMaxBandwidthOut"],
            "SecurityGroups": list(&object["SecureGroups"]).filter(|id| **id != *managed).collect::<Vec<_>>(),
            "LoadBalancerPassToTarget": object["LoadBalancerPassToTarget"],
            "DeleteProtect": is_protected(object),
            "IsCreated": list(&object["Tags"]).any(|tag| tag["TagKey"] == CREATED_TAG && tag["TagValue"] == "yes"),
            "Foreign": foreign,
            "Groups": list(&object["SecureGroups"]).collect::<Vec<_>>(),
        }))
    }
}

impl Listener {
    /// Returns a listener as the API shows it, with the names of requests.
    pub(super) fn observed(object: &Value) -> Self {
        let protocol = text(object, "Protocol").to_ascii_uppercase();
        let mut all = json!({"Protocol": protocol, "Scheduler": object["Scheduler"],
            "SessionExpireTime": object["SessionExpireTime"], "IdleConnectTimeout": object["IdleConnectTimeout"],
            "HealthCheck": object["HealthCheck"], "CertId": object["Certificate"]["CertId"]});
        // Listeners of the older API have no type of check: it is that of their protocol.
        if all["HealthCheck"].is_object() && text(&all["HealthCheck"], "CheckType").is_empty() {
            all["HealthCheck"]["CheckType"] = usual_check(&protocol).into();
        }
        if all["HealthCheck"]["CheckPort"]
            .as_i64()
            .is_none_or(|port| port <= 0)
        {
            all["HealthCheck"]
                .as_object_mut()
                .into_iter()
                .for_each(|health_check| drop(health_check.remove("CheckPort")));
        }
        Self(all)
    }
}

/// Returns the type of health check of a protocol.
pub(super) fn usual_check(protocol: &str) -> &'static str {
    if protocol == "UDP" { "PING" } else { "TCP" }
}
