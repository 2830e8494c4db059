//! Load balancers: what is created, changed and refused.

use serde_json::json;

use crate::harness::{Harness, UID, service};

const KIND: &str = "oci.oraclecloud.com/load-balancer-type";

#[tokio::test(start_paused = true)]
async fn load_balancer_and_its_security_rules_come_and_go_with_the_service() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let made = harness.balancer("loadbalancer");
    assert_eq!((&made["displayName"], &made["shapeName"]), (&json!(UID), &json!("flexible")));
    assert_eq!(made["backendSets"]["TCP-80"]["backends"].as_array().map(Vec::len), Some(2));
    let rules = |list: &str| harness.fake.lock().objects[&format!("ocid1.securitylist.oc1.phx.{list}")]["ingressSecurityRules"].as_array().map(Vec::len);
    assert_eq!((rules("balancers"), rules("nodes")), (Some(2), Some(3)), "beside the rule of a user");
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert!(harness.changes().is_empty(), "{:?}", harness.changes());
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!((rules("balancers"), rules("nodes")), (Some(1), Some(1)));
    assert_eq!(harness.fake.lock().all("loadbalancer").count(), 0);
}

#[tokio::test(start_paused = true)]
async fn network_load_balancer_serves_tcp_and_udp_with_one_listener() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let port = |protocol: &str| json!({"name": protocol.to_lowercase(), "port": 53, "nodePort": 30053, "protocol": protocol});
    let mut dns = service(&[(KIND, "nlb")], json!({"ports": [port("TCP"), port("UDP")]}));
    harness.ensure(&provider, &mut dns).await.unwrap();
    let made = harness.balancer("networkloadbalancer");
    assert_eq!(made["listeners"]["TCP_AND_UDP-53"]["protocol"], "TCP_AND_UDP");
    assert_eq!(made["displayName"], format!("default/web/{UID}"));
}

#[tokio::test(start_paused = true)]
async fn mode_nsg_writes_a_group_that_goes_with_the_load_balancer() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let backend = harness.fake.lock().add_group("nodes");
    let mode = "oci.oraclecloud.com/security-rule-management-mode";
    let mut web = service(&[(mode, "NSG"), ("oci.oraclecloud.com/oci-backend-network-security-group", &backend)], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let rules = |id: &str| harness.fake.lock().objects[id]["securityRules"].as_array().map_or(0, Vec::len);
    assert_eq!(rules(&backend), 2, "the node port and the health check");
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert!(harness.changes().is_empty(), "{:?}", harness.changes());
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!((rules(&backend), harness.fake.lock().all("networksecuritygroup").count()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn mistakes_in_annotations_are_reported_before_any_request() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let own = |key: &str| format!("service.beta.kubernetes.io/oci-load-balancer-{key}");
    let udp = json!({"ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}]});
    for (annotations, more, expected) in [
        (vec![(own("shape"), "flexible")], json!({}), "shape-flex-min is missing"),
        (vec![(own("health-check-interval"), "999")], json!({}), "health-check-interval"),
        (vec![(own("backend-protocol"), "GRPC")], json!({}), "needs TLS"),
        (vec![("oci.oraclecloud.com/oci-network-security-groups".into(), "a,b,c,d,e,f")], json!({}), "at most five"),
        (vec![], udp, "serves no UDP port"),
        (vec![], json!({"sessionAffinity": "ClientIP"}), "sessionAffinity must be None"),
    ] {
        let annotations: Vec<_> = annotations.iter().map(|(key, value)| (&**key, *value)).collect();
        let error = harness.ensure(&provider, &mut service(&annotations, more)).await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(expected), "{error}");
    }
    assert!(harness.changes().is_empty());
}
