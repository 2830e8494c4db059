//! D-11: objects of the Go cloud-controller-manager are accepted unchanged, and this program writes the objects that it
//! would write.

use std::time::Duration;

use ccm_conformance::Harness;
use ccm_conformance::proofs::objections;
use ccm_tests::profiles::HetznerCloud;
use hetzner_fake::Balancer;
use serde_json::Value;

use crate::predecessor::{self, Case};

fn harness() -> (Harness, HetznerCloud) {
    let cloud = HetznerCloud::default();
    (Harness::with_routes(&cloud), cloud)
}

/// Returns the load balancer in a canonical order, without the cluster's owner tags, which the Go
/// cloud-controller-manager ignores.
fn sorted(mut balancer: Balancer) -> Balancer {
    balancer.labels.retain(|key, _| !key.starts_with("ccm-rs/"));
    balancer.services.sort_by_key(|service| service.listen_port);
    balancer.targets.sort();
    balancer
}

#[tokio::test(start_paused = true)]
async fn what_the_other_program_wrote_is_accepted_with_no_change() {
    let mut changed = Vec::new();
    for case in predecessor::cases() {
        let (harness, cloud) = harness();
        predecessor::leave(&harness, &cloud, &case).await;
        let found = objections(&harness).await;
        changed.extend(
            (!found.is_empty())
                .then(|| format!("{}: {found:?}, {:?}", case.name, cloud.fake.changes())),
        );
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

fn ingress(harness: &Harness) -> Value {
    let service = harness.api.get("services", Some("default"), "web").unwrap();
    service["status"]["loadBalancer"]["ingress"].clone()
}

/// Returns the load balancer, and the status of the Service, that this program creates.
async fn made(case: &Case) -> Result<(Balancer, Value), String> {
    let (harness, cloud) = harness();
    predecessor::furnish(&cloud);
    for (number, name) in ["worker-1", "worker-2"].into_iter().enumerate() {
        harness
            .user
            .register_node(name, &[format!("10.244.{}.0/24", number + 1)])
            .await;
    }
    let _program = harness.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    harness.api.seed(predecessor::service(case)).unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    for name in ["worker-1", "worker-2"] {
        let node = harness.api.get("nodes", None, name).unwrap();
        assert_eq!(
            node["status"]["addresses"],
            predecessor::addresses(&cloud, name),
            "{name}"
        );
        for (label, value) in predecessor::labels().as_object().unwrap() {
            assert_eq!(
                &node["metadata"]["labels"][label], value,
                "{label} of {name}"
            );
        }
        let id = cloud.fake.server(name).unwrap().id;
        assert_eq!(node["spec"]["providerID"], format!("hcloud://{id}"));
    }
    let mut all = cloud.fake.load_balancers();
    if all.len() != 1 {
        return Err(format!(
            "{} load balancers, {:?}",
            all.len(),
            harness.warnings(5)
        ));
    }
    Ok((sorted(all.remove(0)), ingress(&harness)))
}

#[tokio::test(start_paused = true)]
async fn what_is_made_here_is_what_the_other_program_makes() {
    let mut different = Vec::new();
    for case in predecessor::cases() {
        let (harness, cloud) = harness();
        predecessor::leave(&harness, &cloud, &case).await;
        let theirs = (
            sorted(cloud.fake.load_balancers().remove(0)),
            ingress(&harness),
        );
        match made(&case).await {
            Ok(ours) if ours == theirs => {}
            ours => different.push(format!(
                "{}:\n  theirs {theirs:?}\n  ours   {ours:?}",
                case.name
            )),
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
