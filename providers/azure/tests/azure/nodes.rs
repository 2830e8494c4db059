//! Tests of Nodes and routes.

use std::sync::Arc;

use cloud_provider::{Caches, CloudProvider, InstanceState, LookupRequest, MetadataLevel, Node};
use serde_json::json;

use crate::harness::{Form, Harness, cluster, list, route, text};

const EVERYTHING: LookupRequest =
    LookupRequest { existence: true, shutdown: true, metadata: MetadataLevel::Full, fresh: true };

async fn state(harness: &Harness, node: Node) -> cloud_provider::Result<InstanceState> {
    let provider = harness.started().await;
    provider.instances().unwrap().lookup(&[Arc::new(node)], EVERYTHING).await.remove(0)
}

fn node(harness: &Harness, name: &str) -> Node {
    (*harness.cluster.node(name).unwrap()).clone()
}

#[tokio::test(start_paused = true)]
async fn provider_id_is_read_in_every_spelling_and_written_in_one() {
    for form in [Form::Addresses, Form::ScaleSet] {
        let harness = Harness::new(form);
        let known = node(&harness, "worker-1");
        let id = known.provider_id.to_string();
        let mut spellings = vec![
            id.clone(),
            id.to_uppercase().replace("AZURE://", "azure://"),
            id.replace("resourceGroups", "resourcegroups"),
        ];
        if form == Form::ScaleSet {
            let (path, number) = id.rsplit_once('/').unwrap();
            spellings.push(format!("{path}/workers_{number}"));
        }
        for spelling in spellings {
            let found = state(&harness, Node { provider_id: spelling.as_str().into(), ..known.clone() }).await.unwrap();
            let InstanceState::Present { metadata: Some(metadata), shutdown: Some(false) } = found else {
                panic!("{spelling}: {found:?}")
            };
            assert_eq!(metadata.provider_id.to_lowercase(), id.to_lowercase(), "{spelling}");
            assert!(metadata.zone.starts_with("westeurope-") && metadata.region == "westeurope");
            assert_eq!(metadata.instance_type, "Standard_D4s_v3");
        }
    }
    let harness = Harness::new(Form::Addresses);
    for wrong in [
        "azure:///subscriptions/x",
        "other://1",
        "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d",
    ] {
        let found = state(&harness, Node { provider_id: wrong.into(), ..Node::default() }).await;
        assert!(found.is_err(), "{wrong}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shut_down_machine_is_one_that_azure_is_not_changing() {
    let harness = Harness::new(Form::Addresses);
    let id = harness.fake.lock().ids("worker-1").remove(0);
    for (power, provisioning, expected) in [
        ("stopped", "Succeeded", true),
        ("deallocated", "succeeded", true),
        ("deallocating", "Succeeded", true),
        ("stopped", "Creating", false),
        ("stopping", "Succeeded", false),
        ("running", "Succeeded", false),
    ] {
        {
            let mut cloud = harness.fake.lock();
            let machine = cloud.objects.get_mut(&id.to_lowercase()).unwrap();
            machine["properties"]["provisioningState"] = provisioning.into();
            machine["properties"]["instanceView"]["statuses"][1]["code"] = format!("PowerState/{power}").into();
        }
        let found = state(&harness, node(&harness, "worker-1")).await.unwrap();
        assert!(
            matches!(found, InstanceState::Present { shutdown: Some(is_off), .. } if is_off == expected),
            "{power}: {found:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn machine_in_no_zone_has_its_fault_domain() {
    let harness = Harness::new(Form::Addresses);
    let id = harness.fake.lock().ids("worker-1").remove(0);
    harness.fake.lock().edit(&id, |it| it["zones"] = json!([]));
    let found = state(&harness, node(&harness, "worker-1")).await.unwrap();
    assert!(matches!(&found, InstanceState::Present { metadata: Some(it), .. } if it.zone == "1"), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn unmanaged_node_exists_and_evicted_machine_does_not() {
    let harness = Harness::new(Form::ScaleSet);
    let evicted = node(&harness, "worker-1");
    harness.fake.lock().terminate("worker-1");
    assert!(matches!(state(&harness, evicted.clone()).await.unwrap(), InstanceState::Gone(_)));
    let labels = [("kubernetes.azure.com/managed".to_owned(), "false".to_owned())].into_iter().collect();
    let unmanaged = Node { labels, ..evicted };
    assert!(matches!(state(&harness, unmanaged).await.unwrap(), InstanceState::Present { .. }));
}

#[tokio::test(start_paused = true)]
async fn routes_are_written_together_and_those_of_others_stay() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    let cluster = cluster();
    assert!(routes.list(&cluster).await.unwrap().is_empty(), "there is no table yet");
    let (one, two) = (route(&harness, "worker-1", "10.244.1.0/24"), route(&harness, "worker-2", "10.244.2.0/24"));
    let (a, b) = futures::join!(routes.create(&cluster, "", &one), routes.create(&cluster, "", &two));
    a.and(b).unwrap();
    let table = harness
        .fake
        .lock()
        .get(&azure_fake::id("Microsoft.Network/routeTables", azure_fake::ROUTE_TABLE))
        .cloned()
        .unwrap();
    let names: Vec<_> = list(&table["properties"]["routes"]).map(|it| text(&it["name"])).collect();
    assert_eq!(names, ["worker-1____102441024", "worker-2____102442024"]);
    let listed = routes.list(&cluster).await.unwrap();
    routes.delete(&cluster, &listed[0]).await.unwrap();
    assert_eq!(routes.list(&cluster).await.unwrap().len(), 1);
}
