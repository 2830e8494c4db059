//! BLBs, listeners, backends and EIPs, as the API reads and writes them.

use cloud_provider::{LoadBalancerIngress, Result};
use provider_kit::load_balancers::{
    Attributes, Field, ObservedLoadBalancer, OwnerTags, Resource, ResourceGraph, ResourceKey, State,
};
use provider_kit::text_tags::{ADOPTED, TextTags};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::legacy::has_text;
use super::spec::EipSpec;
use crate::annotations as key;
use crate::api::Eip;

/// The only pool: all listeners of a BLB have the same backends.
pub(super) const POOL: &str = "main";
/// The setting of the pool with the weight of its backends.
pub(super) const WEIGHT: &str = "weight";
/// The weight of each backend.
pub(super) const FULL_WEIGHT: u32 = 100;
/// The setting of an EIP that was created for the Service.
pub(super) const OWN: &str = "own";
/// The settings of an EIP that only the user changes, unless the EIP was created for the Service.
pub(super) const EIP_SETTINGS: [&str; 3] = ["bandwidthInMbps", "paymentTiming", "billingMethod"];
/// The setting of an EIP that shares the bandwidth of a group.
pub(super) const SHARE_GROUP: &str = "shareGroupId";
/// The owner tags in descriptions: tags of the API can only be written when a BLB is created.
const OWNER_TAGS: TextTags = TextTags::of_length(64);
/// The label of a BLB with the rest of its description.
pub(super) const DESCRIPTION: &str = "desc";
/// The label of a BLB with its VPC.
pub(super) const VPC: &str = "vpcId";
/// The label of a BLB that is protected against deletion.
pub(super) const PROTECTED: &str = "allowDelete";

fn text(object: &Value, key: &str) -> Option<String> {
    object[key].as_str().map(str::to_owned)
}

fn number<T: TryFrom<u64>>(object: &Value, key: &str) -> Option<T> {
    object[key].as_u64().and_then(|key| T::try_from(key).ok())
}

/// Returns the key of the EIP.
pub(super) fn eip_key() -> ResourceKey {
    ResourceKey::created_after("EIP", "public")
}

/// The word of a description that keeps an EIP bound: the BLB had one before its Service used it.
pub(super) const KEPT_EIP: &str = "ccmrs-keep-eip";
/// The most characters of a description.
pub(super) const LONGEST_DESCRIPTION: usize = 200;

/// Returns a description with owner tags behind a text.
pub(super) fn described(owner: &OwnerTags, text: &str) -> String {
    let text = if text.is_empty() {
        Vec::new()
    } else {
        vec![text.to_owned()]
    };
    OWNER_TAGS.among(owner, text).join(" ")
}

/// The label of a BLB whose description lost the words of this cluster, and gets them again.
pub(super) const EDITED: &str = "edited";
/// The setting of a BLB whose description is written again.
pub(super) const GENERATED_WORDS: &str = "description";

/// A BLB, as lists and single reads show it. A field that is not understood counts as absent: the BLBs of others must
/// not fail the list.
#[derive(Clone, Default, Deserialize)]
#[serde(from = "Value")]
pub(super) struct Blb {
    pub(super) blb_id: String,
    name: Option<String>,
    desc: Option<String>,
    address: Option<String>,
    status: Option<String>,
    public_ip: Option<String>,
    ipv6: Option<String>,
    allow_delete: Option<bool>,
    vpc: Option<String>,
    pub(super) subnet: Option<String>,
}

impl From<Value> for Blb {
    fn from(object: Value) -> Self {
        Self {
            blb_id: text(&object, "blbId").unwrap_or_default(),
            name: text(&object, "name"),
            desc: text(&object, "desc"),
            address: text(&object, "address"),
            status: text(&object, "status"),
            public_ip: text(&object, "publicIp"),
            ipv6: text(&object, "ipv6"),
            allow_delete: object["allowDelete"].as_bool(),
            vpc: text(&object, VPC),
            subnet: text(&object, "subnetId"),
        }
    }
}

impl Blb {
    pub(super) fn has_ipv6(&self) -> bool {
        self.ipv6.as_ref().is_some_and(|ip| !ip.is_empty())
    }

    /// Returns everything but the resources. The address of the EIP has an `ipMode`, which tells it from the others. A
    /// BLB is adopted unless its description has the text of this cluster, `generated`, and does not say that it is.
    pub(super) fn observed(self, generated: &str) -> ObservedLoadBalancer {
        let description = self.desc.unwrap_or_default();
        let mut words: Vec<_> = description.split(' ').map(str::to_owned).collect();
        let owner_tags = OWNER_TAGS.take_from(&mut words);
        let plain = |ip: String| LoadBalancerIngress {
            ip: Some(ip),
            ..LoadBalancerIngress::default()
        };
        let addresses = [self.address, self.ipv6]
            .into_iter()
            .flatten()
            .filter(|ip| !ip.is_empty())
            .map(plain);
        let public = self
            .public_ip
            .filter(|ip| !ip.is_empty())
            .map(|ip| public(&ip));
        let vpc = self.vpc.map(|id| (VPC.to_owned(), id));
        let protected =
            (self.allow_delete == Some(false)).then(|| (PROTECTED.to_owned(), "false".to_owned()));
        ObservedLoadBalancer {
            id: self.blb_id,
            name: self.name.unwrap_or_default(),
            owner_tags,
            adopted: !has_text(&words.join(" "), generated)
                || words.iter().any(|word| word == ADOPTED),
            labels: [(DESCRIPTION.to_owned(), words.join(" "))]
                .into_iter()
                .chain(vpc)
                .chain(protected)
                .collect(),
            state: match self.status.as_deref().unwrap_or("creating") {
                "available" => State::Ready,
                "creating" | "updating" => State::Busy,
                other => State::Failed(format!("its status is {other}")),
            },
            ingress: addresses.chain(public).collect(),
            ..ObservedLoadBalancer::default()
        }
    }
}

/// Returns the ingress of an EIP.
pub(super) fn public(ip: &str) -> LoadBalancerIngress {
    LoadBalancerIngress {
        ip_mode: Some("VIP".to_owned()),
        ..ObservedLoadBalancer::ip(ip)
    }
}

/// Returns the desired settings of a BLB.
pub(super) fn balancer(has_ipv6: bool) -> Attributes {
    let settings = Attributes::default();
    if has_ipv6 {
        settings.set("allocateIpv6", true)
    } else {
        settings
    }
}

/// A backend of a BLB.
#[derive(Default, Deserialize)]
#[serde(from = "Value")]
pub(super) struct Backend {
    pub(super) instance_id: String,
    weight: Option<u32>,
}

impl From<Value> for Backend {
    fn from(object: Value) -> Self {
        Self {
            instance_id: text(&object, "instanceId").unwrap_or_default(),
            weight: number(&object, "weight"),
        }
    }
}

/// A listener of a BLB, as the API shows it. Those of other kinds than TCP and UDP have other fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Value", rename_all = "camelCase")]
pub(super) struct Listener {
    #[serde(skip_serializing)]
    pub(super) listener_port: u16,
    #[serde(skip_serializing)]
    pub(super) listener_type: String,
    pub(super) backend_port: u16,
    pub(super) scheduler: String,
    pub(super) health_check_timeout_in_second: Option<u32>,
    pub(super) health_check_interval: Option<u32>,
    pub(super) unhealthy_threshold: Option<u32>,
    pub(super) healthy_threshold: Option<u32>,
    pub(super) health_check_string: Option<String>,
}

impl From<Value> for Listener {
    fn from(object: Value) -> Self {
        Self {
            listener_port: number(&object, "listenerPort").unwrap_or_default(),
            listener_type: text(&object, "listenerType").unwrap_or_default(),
            backend_port: number(&object, "backendPort").unwrap_or_default(),
            scheduler: text(&object, "scheduler").unwrap_or_default(),
            health_check_timeout_in_second: number(&object, "healthCheckTimeoutInSecond"),
            health_check_interval: number(&object, "healthCheckInterval"),
            unhealthy_threshold: number(&object, "unhealthyThreshold"),
            healthy_threshold: number(&object, "healthyThreshold"),
            health_check_string: text(&object, "healthCheckString"),
        }
    }
}

impl Resource for Listener {
    const FIELDS: &'static [Field] = &[
        Field::update("backendPort"),
        Field::update("scheduler").setting(&key::SCHEDULER),
        Field::update("healthCheckTimeoutInSecond").setting(&key::CHECK_TIMEOUT),
        Field::update("healthCheckInterval").setting(&key::CHECK_INTERVAL),
        Field::update("unhealthyThreshold").setting(&key::UNHEALTHY),
        Field::update("healthyThreshold").setting(&key::HEALTHY),
        Field::update("healthCheckString").setting(&key::CHECK_STRING),
    ];
}

impl Listener {
    /// Returns port and protocol.
    pub(super) fn port(&self) -> (u16, String) {
        (self.listener_port, self.listener_type.to_ascii_uppercase())
    }
}

/// The settings of an EIP.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EipSettings {
    ip: Option<String>,
    bound: bool,
    bandwidth_in_mbps: Option<u32>,
    payment_timing: Option<String>,
    billing_method: Option<String>,
    share_group_id: Option<String>,
    own: Option<bool>,
}

impl Resource for EipSettings {
    const FIELDS: &'static [Field] = &[
        Field::create_only("ip"),
        Field::update("bound"),
        Field::update("bandwidthInMbps").setting(&key::BANDWIDTH),
        Field::update("paymentTiming").setting(&key::PAYMENT),
        Field::update("billingMethod").setting(&key::BILLING),
        Field::observed(SHARE_GROUP),
        Field::observed(OWN),
    ];
}

impl EipSettings {
    /// Returns what the annotations say; what they leave open stays as it is.
    pub(super) fn desired(spec: &EipSpec) -> Self {
        let EipSpec {
            fixed_ip,
            bandwidth,
            payment,
            billing,
            ..
        } = spec;
        // Settings of an EIP of the user are the user's.
        let is_own = fixed_ip.is_none();
        Self {
            ip: fixed_ip.clone(),
            bound: true,
            bandwidth_in_mbps: bandwidth.filter(|_| is_own),
            payment_timing: payment.clone().filter(|_| is_own),
            billing_method: billing.clone().filter(|_| is_own),
            ..Self::default()
        }
    }

    pub(super) fn observed(eip: &Eip, blb: &str, is_own: bool) -> Self {
        Self {
            ip: Some(eip.eip.clone()),
            bound: eip.instance() == Some(blb) && !eip.is_busy(),
            bandwidth_in_mbps: Some(eip.bandwidth_in_mbps),
            payment_timing: eip.payment_timing.clone(),
            billing_method: eip.billing_method.clone(),
            share_group_id: eip.share_group_id.clone().filter(|_| eip.is_shared()),
            own: is_own.then_some(true),
        }
    }
}

/// Returns the resources of a BLB. Listeners of other kinds (HTTP, HTTPS, SSL) are left alone.
pub(super) fn graph(
    has_ipv6: bool,
    listeners: Vec<Listener>,
    backends: &[Backend],
    eip: Option<&EipSettings>,
) -> Result<ResourceGraph> {
    let mut weights = backends.iter().filter_map(|backend| backend.weight);
    let weight = weights
        .find(|weight| *weight != FULL_WEIGHT)
        .unwrap_or(FULL_WEIGHT);
    let targets = backends
        .iter()
        .map(|backend| &backend.instance_id)
        .collect();
    let pool = Attributes::default().set(WEIGHT, weight);
    let mut graph =
        ResourceGraph::default()
            .balancer(balancer(has_ipv6))
            .pool(POOL, pool, Some(targets));
    for listener in listeners {
        let (port, transport) = listener.port();
        if ["TCP", "UDP"].contains(&&*transport) {
            graph = graph.listener(port, transport, POOL, Attributes::observed(&listener)?);
        }
    }
    Ok(match eip {
        Some(eip) => graph.resource(eip_key(), Attributes::observed(eip)?),
        None => graph,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "auto generated by cce:c-1";

    #[test]
    fn every_field_has_a_rule() {
        let listener = Listener {
            health_check_timeout_in_second: Some(3),
            health_check_interval: Some(3),
            unhealthy_threshold: Some(3),
            healthy_threshold: Some(3),
            health_check_string: Some("x".into()),
            ..Listener::default()
        };
        assert_eq!(Listener::undeclared_fields(&listener).unwrap(), [""; 0]);
        assert_eq!(
            EipSettings::undeclared_fields(&EipSettings::default()).unwrap(),
            [""; 0]
        );
    }

    #[test]
    fn owner_tags_stand_behind_the_description_of_the_go_program() {
        let owner = OwnerTags {
            cluster: Some("5c1d".into()),
            service: Some("0b0a".into()),
        };
        let text = described(&owner, "cce_auto_create_eipauto generated by cce:c-1");
        assert_eq!(
            text,
            "cce_auto_create_eipauto generated by cce:c-1 ccmrs-cluster:5c1d ccmrs-service:0b0a"
        );
        let observed = Blb {
            desc: Some(text),
            ..Blb::default()
        }
        .observed(OURS);
        assert_eq!((&observed.owner_tags, observed.adopted), (&owner, false));
        assert_eq!(
            observed.labels[DESCRIPTION],
            "cce_auto_create_eipauto generated by cce:c-1"
        );
        let adopted = Blb {
            desc: Some(described(&owner, &format!("{OURS} {ADOPTED}"))),
            ..Blb::default()
        };
        assert!(adopted.observed(OURS).adopted);
        let lent = Blb {
            desc: Some(described(&owner, "mine, all mine")),
            ..Blb::default()
        }
        .observed(OURS);
        assert_eq!(
            (&*lent.labels[DESCRIPTION], lent.adopted),
            ("mine, all mine", true)
        );
    }
}
