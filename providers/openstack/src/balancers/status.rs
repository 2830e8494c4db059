//! What is published of a load balancer: on the Service's status, and in annotations (§3.5).

use cloud_provider::{LoadBalancerStatus, Service};
use provider_kit::load_balancers::Actual;
use provider_kit::status::Status;

use super::asked::families;
use crate::annotations::{self as key, ProxyProtocol, text};
use crate::config::Balancers;

/// Where a Service is reached by its load balancer. What is wrong with its annotations is told where they are obeyed.
pub(super) fn status(actual: &Actual, service: &Service, config: &Balancers) -> LoadBalancerStatus {
    let mut asked = key::asked_by(service);
    let hostname = text(&mut asked, &key::HOSTNAME, None);
    let is_proxied = asked.get(&key::PROXY_PROTOCOL).is_some_and(|it| it != ProxyProtocol::Off);
    // Who asks for one family is not led to another one by which somebody else is reached.
    let shown = if families(service).1.is_some() { usize::MAX } else { 1 };
    // Clients inside the cluster must not be led past the load balancer, which speaks to Pods in a way that they do not. A
    // name does that everywhere; `ipMode` only with a kube-proxy that knows it.
    let suffix = config.ingress_hostname_suffix.as_ref().filter(|_| is_proxied);
    let hostname = hostname.or_else(|| Some(format!("{}.{}", address(actual)?, suffix?)));
    Status::default().hostname(hostname.as_deref()).proxied(is_proxied).addresses(addresses(actual).take(shown)).build()
}

/// What the annotations say that users, and the program before us, look for.
pub(super) fn annotations(actual: &Actual) -> Vec<(&'static str, Option<String>)> {
    // A security group that stands before its load balancer does is none yet.
    if actual.tree.as_ref().is_some_and(|tree| tree.balancer_attributes().is_none()) {
        return Vec::new();
    }
    // Another Service's view of a shared one has more to its id.
    let id = actual.id.split('/').next().filter(|id| !id.is_empty());
    vec![
        (key::LOAD_BALANCER_ID.key(), id.map(str::to_owned)),
        (key::LOAD_BALANCER_ADDRESS.key(), address(actual).map(str::to_owned)),
    ]
}

/// The floating IP's address, or the VIP.
fn address(actual: &Actual) -> Option<&str> {
    addresses(actual).next()
}

/// The same, and the second VIP.
fn addresses(actual: &Actual) -> impl Iterator<Item = &str> {
    actual.ingress.iter().filter_map(|it| it.ip.as_deref()).filter(|address| !address.is_empty())
}

/// Puts this address in the place of the first one.
pub(super) fn lead_by(actual: &mut Actual, address: &str) {
    let first = ..actual.ingress.len().min(1);
    actual.ingress.splice(first, [Actual::ip(address)]);
}

#[cfg(test)]
mod tests {
    use provider_kit::load_balancers::Tree;
    use serde_json::{Value, json};

    use super::*;

    fn shown(annotations: &Value, suffix: Option<&str>) -> Value {
        let service: Service = serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        let config =
            Balancers { ingress_hostname_suffix: suffix.map(str::to_owned), ..super::super::wanted::tests::config() };
        let actual = Actual { id: "lb/x".into(), ingress: vec![Actual::ip("203.0.113.9")], ..Actual::default() };
        serde_json::to_value(status(&actual, &service, &config)).unwrap()["ingress"].clone()
    }

    // §8.41, §8.42, §8.43
    #[test]
    fn a_service_shows_a_name_or_an_address_and_how_it_may_be_reached() {
        let proxied = json!({"loadbalancer.openstack.org/proxy-protocol": "v2"});
        let named = json!({"loadbalancer.openstack.org/hostname": "a.example", "loadbalancer.openstack.org/proxy-protocol": "v1"});
        let ip = |mode: &str| json!([{"ip": "203.0.113.9", "ipMode": mode}]);
        assert_eq!(shown(&json!({}), None), ip("VIP"));
        assert_eq!(shown(&json!({}), Some("nip.io")), ip("VIP"));
        assert_eq!(shown(&json!({"loadbalancer.openstack.org/hostname": ""}), None), ip("VIP"));
        assert_eq!(shown(&proxied, None), ip("Proxy"));
        assert_eq!(shown(&proxied, Some("nip.io")), json!([{"hostname": "203.0.113.9.nip.io"}]));
        assert_eq!(shown(&named, Some("nip.io")), json!([{"hostname": "a.example"}]));
    }

    #[test]
    fn the_second_vip_is_shown_to_those_who_ask_for_both_families_and_never_in_the_annotation() {
        let ingress = ["10.6.0.9", "fd00::9"].map(Actual::ip);
        let mut actual = Actual { id: "lb".into(), ingress: ingress.into(), ..Actual::default() };
        lead_by(&mut actual, "203.0.113.9");
        let config = super::super::wanted::tests::config();
        for (families, expected) in [(vec!["IPv4"], 1), (vec!["IPv4", "IPv6"], 2)] {
            let service: Service = serde_json::from_value(json!({"spec": {"ipFamilies": families}})).unwrap();
            let shown = status(&actual, &service, &config).ingress.unwrap_or_default();
            let ips: Vec<_> = shown.iter().filter_map(|it| it.ip.as_deref()).collect();
            assert_eq!(ips, ["203.0.113.9", "fd00::9"][..expected]);
            assert!(shown.iter().all(|it| it.ip_mode.as_deref() == Some("VIP")));
        }
        assert_eq!(annotations(&actual)[1].1.as_deref(), Some("203.0.113.9"));
        let mut none = Actual::default();
        lead_by(&mut none, "203.0.113.9");
        assert_eq!(none.ingress, [Actual::ip("203.0.113.9")]);
    }

    #[test]
    fn id_and_address_are_written_down_and_nothing_where_there_is_none() {
        let (id, address) = (key::LOAD_BALANCER_ID.key(), key::LOAD_BALANCER_ADDRESS.key());
        let actual = Actual { id: "lb-1/tag".into(), ingress: vec![Actual::ip("192.0.2.7")], ..Actual::default() };
        assert_eq!(annotations(&actual), [(id, Some("lb-1".into())), (address, Some("192.0.2.7".into()))]);
        assert_eq!(annotations(&Actual::default()), [(id, None), (address, None)]);
        let group = Actual { id: "sg-1".into(), tree: Some(Tree::default()), ..Actual::default() };
        assert_eq!(annotations(&group), [], "not the id of what stands before it");
    }
}
