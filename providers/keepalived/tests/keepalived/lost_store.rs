//! The ConfigMap is lost, or restored from an old backup: each Service keeps the address that it shows.

use cloud_provider::Service;
use serde_json::json;

use crate::harness::{Harness, Run};

/// Gives addresses to three Services, and returns them with their status, the last one first.
async fn three_services(harness: &Harness, run: &Run) -> Vec<(Service, Vec<String>)> {
    let mut services = Vec::new();
    for name in ["web", "api", "dns"] {
        let addresses = run
            .ensure(&harness.service(name))
            .await
            .expect("an answer")
            .expect("an address");
        services.insert(0, (harness.show(name, &addresses), addresses));
    }
    services
}

async fn assert_addresses_stay(run: &Run, services: &[(Service, Vec<String>)]) {
    for (service, addresses) in services {
        let given = run
            .ensure(service)
            .await
            .expect("an answer")
            .expect("an address");
        assert_eq!(given, *addresses, "{:?}", service.metadata.name);
    }
}

#[tokio::test(start_paused = true)]
async fn services_keep_the_addresses_that_they_show_when_the_config_map_is_lost() {
    let harness = Harness::new("10.0.0.0/24");
    let run = harness.start(None).await;
    let services = three_services(&harness, &run).await;
    let before = harness.addresses();
    harness.api.remove("configmaps", Some("kube-system"), "vip");
    assert_addresses_stay(&run, &services).await;
    assert_eq!(
        harness.addresses(),
        before,
        "in a run that knew the ConfigMap"
    );
    harness.api.remove("configmaps", Some("kube-system"), "vip");
    let restarted = harness.start(None).await;
    assert_addresses_stay(&restarted, &services).await;
    assert_eq!(harness.addresses(), before, "after a restart");
}

#[tokio::test(start_paused = true)]
async fn services_keep_their_addresses_when_only_the_annotation_is_lost() {
    let harness = Harness::new("10.0.0.0/24");
    let run = harness.start(None).await;
    let services = three_services(&harness, &run).await;
    let mut map = harness.config_map();
    let before = harness.addresses();
    map["metadata"]["annotations"] = json!({});
    harness.api.seed(map).expect("a ConfigMap");
    assert_addresses_stay(&run, &services).await;
    assert_eq!(harness.addresses(), before);
    for (service, _) in &services {
        run.delete(service)
            .await
            .expect("an answer")
            .expect("a deletion");
    }
    assert_eq!(harness.addresses(), []);
}

#[tokio::test(start_paused = true)]
async fn new_service_never_gets_the_address_that_another_one_shows() {
    let harness = Harness::new("10.0.0.0/24");
    let run = harness.start(None).await;
    let services = three_services(&harness, &run).await;
    harness.api.remove("configmaps", Some("kube-system"), "vip");
    let restarted = harness.start(None).await;
    let new = harness.service("new");
    assert_eq!(
        restarted
            .ensure(&new)
            .await
            .expect("an answer")
            .expect("an address"),
        ["10.0.0.4"]
    );
    let mut thief = harness.service("thief");
    thief.spec.get_or_insert_default().load_balancer_ip = Some("10.0.0.1".into());
    let error = restarted
        .ensure(&thief)
        .await
        .expect("an answer")
        .unwrap_err();
    assert!(
        error.is_invalid()
            && error
                .to_string()
                .contains("10.0.0.1 is used by Service default/web"),
        "{error}"
    );
    assert_addresses_stay(&restarted, &services).await;
}

#[tokio::test(start_paused = true)]
async fn service_keeps_its_address_when_a_backup_gives_it_to_a_service_that_no_longer_exists() {
    let harness = Harness::new("10.0.0.0/24");
    let run = harness.start(None).await;
    let old = harness.service("old");
    run.ensure(&old)
        .await
        .expect("an answer")
        .expect("an address");
    let backup = harness.config_map();
    run.delete(&old)
        .await
        .expect("an answer")
        .expect("a deletion");
    harness.api.remove("services", Some("default"), "old");
    let services = three_services(&harness, &run).await;
    let before = harness.addresses();
    harness.api.remove("configmaps", Some("kube-system"), "vip");
    harness.api.seed(backup).expect("a ConfigMap");
    assert_addresses_stay(&run, &services).await;
    assert_eq!(harness.addresses(), before);
}
