//! The Service, parsed into settings of a load balancer.

use cloud_provider::Service;
use provider_kit::addresses::AddressFamily;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::load_balancers::{Attributes, ReservedTags, Resource, filled};
use provider_kit::node_selector::NodeSelector;
use provider_kit::source_ranges::{allows_all, configured_source_ranges};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::SPEC_TAGS;
use super::backends::Mode;
use super::model::{ClassicBalancer, NetworkBalancer};
use super::names;
use super::ports::{Port, ports};
use super::source_ranges::RANGES;
use crate::annotations::{self as key, NLB_CLASS, PREFIX};
use crate::config::Config;

/// Keys of tags by which this program and the Go program know load balancers.
const RESERVED_TAGS: ReservedTags = ReservedTags {
    prefixes: &["acs:", "aliyun"],
    keys: &[
        "kubernetes.do.not.delete",
        "ack.aliyun.com",
        "kubernetes.reused.by.user",
    ],
};

/// A Service, parsed into the settings of its load balancer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    pub(super) kind: &'static str,
    /// If set, another controller provides the load balancer of the Service.
    pub(super) is_elsewhere: bool,
    /// ID of the load balancer of the user.
    pub(super) requested: Option<String>,
    /// Listeners of the load balancer of the user are changed, too.
    pub(super) overrides: bool,
    pub(super) is_preserved: bool,
    pub(super) hostname: Option<String>,
    /// The Service shows the EIP of its CLB.
    pub(super) shows_eip: bool,
    pub(super) balancer: Attributes,
    pub(super) ports: Vec<Port>,
    pub(super) mode: Mode,
    /// Backends of an NLB are addresses instead of instances.
    pub(super) has_addresses: bool,
    /// IP families of Pods as backends.
    pub(super) family: AddressFamily,
    pub(super) weight: u32,
    /// Weight of all backends together.
    pub(super) total_weight: Option<u32>,
    pub(super) ignores_weights: bool,
    pub(super) selector: NodeSelector,
    pub(super) removes_cordoned: bool,
    /// Settings that have no effect.
    pub(super) warnings: Vec<String>,
}

/// Returns `true` if a Service asks for an NLB.
pub(super) fn is_network(service: &Service, config: &Config) -> bool {
    let class = service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_class.as_deref());
    let is_named = || {
        Annotations::of(service)
            .get(&key::BALANCER_TYPE)
            .unwrap_or_default()
    };
    class == Some(NLB_CLASS) || config.has_type_annotation && is_named()
}

/// Returns the settings from annotations, as an object.
pub(super) fn object<R: Resource + DeserializeOwned + Default>(
    annotations: &mut Annotations<'_>,
) -> Value {
    match serde_json::to_value(filled::<R>(annotations)) {
        Ok(entry @ Value::Object(_)) => entry,
        _ => json!({}),
    }
}

pub(super) fn attributes<R: Resource>(resource: &R) -> Attributes {
    Attributes::desired(resource).unwrap_or_default()
}

pub(super) fn capitalized(text: &str) -> String {
    text.chars()
        .take(1)
        .flat_map(char::to_uppercase)
        .chain(text.chars().skip(1))
        .collect()
}

impl Spec {
    /// Parses a Service, and notes all mistakes that can be found without a request.
    pub(super) fn of(service: &Service, config: &Config) -> Parsed<Self> {
        let service = &key::with_new_prefix(service);
        let mut annotations = Annotations::of(service);
        let is_network = is_network(service, config);
        let requested = annotations.get(&key::ID).filter(|id| !id.is_empty());
        let balancer = balancer(is_network, config, &mut annotations);
        let overrides = annotations.get(&key::OVERRIDE);
        let mut tags = annotations.get(&key::TAGS).unwrap_or_default();
        tags.retain(|tag, _| RESERVED_TAGS.allows(tag, &key::TAGS, &mut annotations));
        let selector = annotations.get(&key::BACKEND_LABEL).unwrap_or_default();
        let spec = service.spec.clone().unwrap_or_default();
        let mode = match annotations
            .get(&key::BACKEND_TYPE)
            .unwrap_or(config.has_eni_backends)
        {
            true => Mode::Pods,
            false if spec.external_traffic_policy.as_deref() == Some("Local") => Mode::Local,
            false => Mode::Nodes,
        };
        if let Some(id) = requested
            .as_ref()
            .filter(|id| id.starts_with("nlb-") != is_network)
        {
            let (kind, other) = if is_network {
                ("an NLB", "nlb-")
            } else {
                ("a CLB", "lb-")
            };
            annotations.mistake(format!(
                "annotation {}: {id:?} is no ID of {kind}, which this Service asks for; name one that begins with {other}",
                key::ID.key()
            ));
        }
        // Groups and weights count in a load balancer of the user only.
        let groups = annotations.get(&key::GROUPS);
        let total_weight = annotations.get(&key::WEIGHT_TOTAL);
        let groups = groups.filter(|_| requested.is_some()).unwrap_or_default().0;
        let family = family(is_network, config, &mut annotations);
        let spec = Self {
            kind: names::kind(is_network, requested.is_some()),
            is_elsewhere: !is_network
                && (annotations
                    .get(&key::CLASS)
                    .is_some_and(|class| !class.is_empty())
                    || annotations.is_set(&key::TUNNEL)),
            overrides: overrides.unwrap_or_default(),
            is_preserved: annotations
                .get(&key::PRESERVE)
                .is_some_and(|preserve| !preserve.is_empty()),
            hostname: annotations
                .get(&key::HOSTNAME)
                .filter(|hostname| !hostname.is_empty()),
            shows_eip: !is_network
                && annotations
                    .get(&key::EXTERNAL_IP_TYPE)
                    .is_some_and(|external_ip_type| external_ip_type == "eip"),
            balancer: balancer.tagged(&SPEC_TAGS.among(tags)),
            warnings: Vec::new(),
            ports: ports(service, is_network, mode, family, &groups, &mut annotations),
            mode,
            has_addresses: is_network
                && annotations
                    .get(&key::SERVER_GROUP)
                    .is_some_and(|server_group| server_group == "Ip"),
            family,
            weight: annotations.get(&key::DEFAULT_WEIGHT).unwrap_or(100),
            total_weight: total_weight.filter(|_| !groups.is_empty()),
            ignores_weights: annotations.get(&key::IGNORE_WEIGHT).unwrap_or_default(),
            removes_cordoned: annotations.get(&key::REMOVE_CORDONED).unwrap_or_default(),
            selector,
            requested,
        };
        let mut spec = spec;
        let ranges = source_ranges(service, &mut annotations);
        match (ranges.is_empty(), is_network, spec.requested.is_some()) {
            (true, ..) => {}
            (false, true, false) => spec.balancer = spec.balancer.set(RANGES, ranges),
            (false, true, true) => annotations
                .warning("loadBalancerSourceRanges has no effect on a load balancer of yours: use its security groups"),
            (false, false, _) => annotations.warning(format!(
                "loadBalancerSourceRanges has no effect on a CLB, which every address reaches: use annotation {}",
                key::ACL.key()
            )),
        }
        let affinity = service
            .spec
            .as_ref()
            .and_then(|spec| spec.session_affinity.as_deref());
        if affinity.is_some_and(|affinity| affinity != "None") {
            annotations.mistake(format!(
                "sessionAffinity: set it to None, and annotation {} for TCP listeners",
                key::PERSISTENCE.key()
            ));
        }
        if let Some(name) = annotations
            .get(&key::LB_NAME)
            .filter(|name| names::is_generated_for_another(name, service))
        {
            annotations.mistake(format!(
                "annotation {}: {name:?} has the form of a name that is generated for another Service; choose another name",
                key::LB_NAME.key()
            ));
        }
        ignored(service, is_network, &mut annotations);
        if spec.requested.is_some() {
            ignored_of_user(service, &mut annotations);
        }
        annotations.unknown(PREFIX, key::ALL);
        spec.warnings = annotations.warnings().to_vec();
        let follows = !spec.selector.selects_all();
        annotations.parsed(spec).targets_follow_labels(follows)
    }
}

/// Warns of settings that have no effect: those of the other kind of load balancer, and those that need another one.
fn ignored(service: &Service, is_network: bool, annotations: &mut Annotations<'_>) {
    let (own_kind, other) = if is_network {
        ("an NLB", "CLB:")
    } else {
        ("a CLB", "NLB:")
    };
    let is_set = |key: &str| {
        service
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(key))
    };
    for row in key::ALL
        .iter()
        .map(|setting| setting.row())
        .filter(|row| row.doc.trim_start().starts_with(other))
    {
        if is_set(row.key) {
            annotations.warning(format!(
                "annotation {} has no effect on {own_kind}",
                row.key
            ));
        }
    }
    let is_charged = annotations
        .get(&key::CHARGE)
        .is_some_and(|charge| charge == "paybybandwidth");
    if !is_network && annotations.is_set(&key::BANDWIDTH) && !is_charged {
        let (key, charge) = (key::BANDWIDTH.key(), key::CHARGE.key());
        annotations.warning(format!(
            "annotation {key} has no effect without {charge}: paybybandwidth"
        ));
    }
    if annotations.is_set(&key::WEIGHT_TOTAL) && !annotations.is_set(&key::GROUPS) {
        let (key, groups) = (key::WEIGHT_TOTAL.key(), key::GROUPS.key());
        annotations.warning(format!("annotation {key} has no effect without {groups}"));
    }
}

/// Warns of settings of the load balancer itself, which have no effect on a load balancer of the user.
fn ignored_of_user(service: &Service, annotations: &mut Annotations<'_>) {
    let is_set = |key: &str| {
        service
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(key))
    };
    let of_balancer = [
        key::LB_NAME.key(),
        key::TAGS.key(),
        key::IPV6_ADDRESS.key(),
        key::CHARGE.key(),
        key::BANDWIDTH.key(),
        key::INSTANCE_CHARGE.key(),
        key::SPEC.key(),
        key::SECURITY_GROUPS.key(),
        key::BANDWIDTH_PACKAGE.key(),
        key::CROSS_ZONE.key(),
        key::DELETE_PROTECTION.key(),
        key::MODIFICATION_PROTECTION.key(),
    ];
    for key in of_balancer.into_iter().filter(|key| is_set(key)) {
        annotations.warning(format!(
            "annotation {key} has no effect on a load balancer of yours: change it there"
        ));
    }
}

/// Returns the source ranges that are not all addresses.
fn source_ranges(service: &Service, annotations: &mut Annotations<'_>) -> Vec<String> {
    match configured_source_ranges(service) {
        Ok(ranges) if allows_all(&ranges) => Vec::new(),
        Ok(ranges) => ranges.iter().map(ToString::to_string).collect(),
        Err(error) => {
            annotations.mistake(error.to_string());
            Vec::new()
        }
    }
}

/// Returns the IP families of Pods as backends. Others than IPv4 need the feature gate and a load balancer of that
/// version: an IPv6 CLB, or a dual-stack NLB.
fn family(is_network: bool, config: &Config, annotations: &mut Annotations<'_>) -> AddressFamily {
    let wanted = annotations.get(&key::BACKEND_IP).unwrap_or_default();
    let needed = if is_network { "DualStack" } else { "ipv6" };
    let is_possible = config.has_dual_stack
        && annotations
            .get(&key::IP_VERSION)
            .is_some_and(|ip_version| ip_version.eq_ignore_ascii_case(needed))
        && (is_network || wanted != AddressFamily::Dualstack);
    if is_possible {
        wanted
    } else {
        AddressFamily::Ipv4
    }
}

fn balancer(is_network: bool, config: &Config, annotations: &mut Annotations<'_>) -> Attributes {
    // The default counts at the creation only: a load balancer that exists may be of the other type.
    let has_type = annotations.is_set(&key::ADDRESS_TYPE);
    let stated = |mut all: Value| {
        all.as_object_mut()
            .into_iter()
            .for_each(|all| all.retain(|name, _| has_type || name != "AddressType"));
        all
    };
    if !is_network {
        let mut all = object::<ClassicBalancer>(annotations);
        let is_public = all["AddressType"] == "internet";
        if is_public && config.has_no_public && !annotations.is_set(&key::ID) {
            annotations.mistake(format!(
                "annotation {}: Global.disablePublicSLB forbids public load balancers; set it to intranet",
                key::ADDRESS_TYPE.key()
            ));
        }
        if all["InstanceChargeType"] == "PayBySpec"
            && all["LoadBalancerSpec"].is_null()
            && !annotations.is_set(&key::ID)
        {
            all["LoadBalancerSpec"] = json!("slb.s1.small");
        }
        let fields = all.as_object_mut().into_iter();
        fields.for_each(|all| {
            all.retain(|name, _| {
                is_public || !["InternetChargeType", "Bandwidth"].contains(&&**name)
            });
        });
        if all["InternetChargeType"] != "paybybandwidth" {
            all.as_object_mut()
                .into_iter()
                .for_each(|all| drop(all.remove("Bandwidth")));
        }
        return attributes(&ClassicBalancer(stated(all)));
    }
    let mut all = object::<NetworkBalancer>(annotations);
    for field in ["AddressType", "Ipv6AddressType"] {
        if let Some(text) = all[field].as_str() {
            all[field] = json!(capitalized(text));
        }
    }
    if all["ZoneMappings"].as_array().is_none_or(Vec::is_empty) && !annotations.is_set(&key::ID) {
        annotations.mistake(format!(
            "annotation {} is required: name zones with their vSwitches, such as cn-hangzhou-a:vsw-1,cn-hangzhou-b:vsw-2",
            key::ZONE_MAPS.key()
        ));
    }
    attributes(&NetworkBalancer(stated(all)))
}
