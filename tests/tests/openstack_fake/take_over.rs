//! D-11: what the cloud's own program wrote is accepted as it is.

use ccm_conformance::Harness;
use ccm_conformance::proofs::objections;
use ccm_tests::profiles::OpenStackCloud;

use crate::predecessor;

#[tokio::test(start_paused = true)]
async fn what_the_other_program_wrote_is_accepted_with_no_change() {
    let mut changed = Vec::new();
    for case in predecessor::cases() {
        let cloud = OpenStackCloud::default();
        let harness = Harness::with_routes(&cloud);
        predecessor::furnish(&cloud);
        let program = harness.start().await.unwrap();
        for (number, name) in ["worker-1", "worker-2"].into_iter().enumerate() {
            harness
                .user
                .register_node(name, &[format!("10.244.{}.0/24", number + 1)])
                .await;
        }
        harness.settle().await;
        assert_eq!(cloud.fake.changes(), [], "the routes");
        program.stop().await;

        predecessor::leave(&harness, &cloud, &case);
        let found = objections(&harness).await;
        changed.extend(
            (!found.is_empty())
                .then(|| format!("{}: {found:?}, {:?}", case.name, cloud.fake.changes())),
        );
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

/// The Go cloud-controller-manager would find the load balancer that this program creates for the same Service.
#[tokio::test(start_paused = true)]
async fn what_is_made_here_has_the_names_and_tags_of_the_other_program() {
    let cloud = OpenStackCloud::default();
    let harness = Harness::with_routes(&cloud);
    harness.join(1..=2).await;
    let _program = harness.start().await.unwrap();
    harness.user.create_service("web", &[80, 443]).await;
    harness.settle().await;
    let balancer = cloud.fake.load_balancer(predecessor::NAME).unwrap();
    assert_eq!(
        balancer["description"],
        "Kubernetes external service default/web from cluster kubernetes"
    );
    let is_tagged = |object: &serde_json::Value| {
        object["tags"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tag| tag == predecessor::NAME)
    };
    assert!(is_tagged(&balancer), "{balancer}");
    for (index, port) in [(0, 80), (1, 443)] {
        let listener = balancer["listeners"]
            .as_array()
            .unwrap()
            .iter()
            .find(|listener| listener["protocol_port"] == port)
            .unwrap();
        assert_eq!(
            listener["name"],
            format!("listener_{index}_{}", predecessor::NAME)
        );
        assert!(is_tagged(listener), "{listener}");
        let pools = balancer["pools"].as_array().unwrap();
        let pool = pools
            .iter()
            .find(|pool| pool["id"] == listener["default_pool_id"])
            .unwrap();
        assert_eq!(pool["name"], format!("pool_{index}_{}", predecessor::NAME));
        assert_eq!(
            pool["healthmonitor"]["name"],
            format!("monitor_{index}_{}", predecessor::NAME)
        );
        let names: Vec<_> = pool["members"]
            .as_array()
            .unwrap()
            .iter()
            .map(|member| member["name"].clone())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
    let floating = &cloud.fake.floating_ips()[0];
    assert_eq!(
        floating["description"],
        "Floating IP for Kubernetes external service default/web from cluster kubernetes"
    );
    let service = harness.api.get("services", Some("default"), "web").unwrap();
    let uid = service["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        cloud.fake.security_groups()[0]["name"],
        format!("lb-sg-{uid}-default-web")
    );
    let annotation = |key: &str| {
        service["metadata"]["annotations"][format!("loadbalancer.openstack.org/{key}")].clone()
    };
    assert_eq!(annotation("load-balancer-id"), balancer["id"]);
    assert_eq!(
        annotation("load-balancer-address"),
        floating["floating_ip_address"]
    );
}
