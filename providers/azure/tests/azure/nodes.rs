//! Tests of Nodes and routes.

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use cloud_provider::{
    Caches, CloudProvider, ConditionStatus, Environment, InstanceState, LookupRequest,
    MetadataLevel, Node, Setup, Taint,
};
use provider_azure::Azure;
use serde_json::{Value, json};

use crate::harness::{Form, Harness, cluster, list, route, text};

const EVERYTHING: LookupRequest = LookupRequest {
    existence: true,
    shutdown: true,
    metadata: MetadataLevel::Full,
    fresh: true,
};

async fn state(harness: &Harness, node: Node) -> cloud_provider::Result<InstanceState> {
    let provider = harness.started().await;
    provider
        .instances()
        .unwrap()
        .lookup(&[Arc::new(node)], EVERYTHING)
        .await
        .remove(0)
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
            let found = state(
                &harness,
                Node {
                    provider_id: spelling.as_str().into(),
                    ..known.clone()
                },
            )
            .await
            .unwrap();
            let InstanceState::Present {
                metadata: Some(metadata),
                shutdown: Some(false),
            } = found
            else {
                panic!("{spelling}: {found:?}")
            };
            assert_eq!(
                metadata.provider_id.to_lowercase(),
                id.to_lowercase(),
                "{spelling}"
            );
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
        let found = state(
            &harness,
            Node {
                provider_id: wrong.into(),
                ..Node::default()
            },
        )
        .await;
        assert!(found.is_err(), "{wrong}: {found:?}");
    }
}

/// Answers the list of states with values of forms that Azure never sends.
async fn odd_states(
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    match request.uri().query().is_some_and(|query| query.contains("statusOnly")) {
        true => r#"{"value": ["text", 7, {"id": "a", "properties": "text"}, {"properties": {"instanceView": [1]}}]}"#
            .into_response(),
        false => next.run(request).await,
    }
}

#[tokio::test(start_paused = true)]
async fn machine_is_found_although_the_states_have_another_form() {
    let harness = Harness::new(Form::Addresses);
    let router = harness
        .fake
        .router()
        .layer(axum::middleware::from_fn(odd_states));
    let provider = harness
        .started_with(move |http| http.service(router.clone()))
        .await;
    let known = Arc::new(node(&harness, "worker-1"));
    let found = provider
        .instances()
        .unwrap()
        .lookup(&[known], EVERYTHING)
        .await
        .remove(0);
    assert!(
        matches!(found, Ok(InstanceState::Present { .. })),
        "{found:?}"
    );
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
            machine["properties"]["instanceView"]["statuses"][1]["code"] =
                format!("PowerState/{power}").into();
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
    harness
        .fake
        .lock()
        .edit(&id, |object| object["zones"] = json!([]));
    let found = state(&harness, node(&harness, "worker-1")).await.unwrap();
    assert!(
        matches!(&found, InstanceState::Present { metadata: Some(it), .. } if it.zone == "1"),
        "{found:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn unmanaged_node_exists_and_evicted_machine_does_not() {
    let harness = Harness::new(Form::ScaleSet);
    let evicted = node(&harness, "worker-1");
    harness.fake.lock().terminate("worker-1");
    assert!(matches!(
        state(&harness, evicted.clone()).await.unwrap(),
        InstanceState::Gone(_)
    ));
    let labels = [(
        "kubernetes.azure.com/managed".to_owned(),
        "false".to_owned(),
    )]
    .into_iter()
    .collect();
    let unmanaged = Node { labels, ..evicted };
    assert!(matches!(
        state(&harness, unmanaged).await.unwrap(),
        InstanceState::Present { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn young_node_is_kept_although_azure_does_not_show_its_machine() {
    for (grace, age, is_kept) in [(600, 60, true), (600, 1200, false), (0, 60, false)] {
        let harness = Harness::new(Form::Addresses)
            .with(json!({ "nodeInstanceNotFoundGracePeriodInSeconds": grace }));
        harness.fake.lock().terminate("worker-1");
        let created = Some(jiff::Timestamp::now() - jiff::SignedDuration::from_secs(age));
        let found = state(
            &harness,
            Node {
                created,
                ..node(&harness, "worker-1")
            },
        )
        .await
        .unwrap();
        assert_eq!(
            matches!(found, InstanceState::Present { .. }),
            is_kept,
            "{grace} {age}: {found:?}"
        );
    }
}

/// Returns the taints and Pod ranges that were written to Nodes.
async fn patches(harness: &Harness) -> Vec<Value> {
    harness.cluster.take_patches();
    tokio::time::sleep(Duration::from_secs(12)).await;
    let patches = harness.cluster.take_patches().into_iter();
    patches
        .map(|(_, body)| serde_json::from_slice::<Value>(&body).unwrap()["spec"].clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn node_that_is_shut_down_and_not_ready_is_out_of_service() {
    let taint = |key: &str, effect: &str| Taint {
        key: key.into(),
        effect: effect.into(),
        ..Taint::default()
    };
    let shutdown = taint("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule");
    let out = taint("node.kubernetes.io/out-of-service", "NoExecute");
    let added = json!(["shutdown", "out-of-service"]);
    let kept = json!(["shutdown"]);
    for (is_off, taints, ready, expected) in [
        (
            false,
            vec![shutdown.clone()],
            ConditionStatus::False,
            Some(added.clone()),
        ),
        (
            false,
            vec![shutdown.clone()],
            ConditionStatus::Unknown,
            Some(added),
        ),
        (false, vec![shutdown.clone()], ConditionStatus::True, None),
        (false, vec![], ConditionStatus::False, None),
        (
            false,
            vec![shutdown.clone(), out.clone()],
            ConditionStatus::False,
            None,
        ),
        (
            false,
            vec![shutdown.clone(), out.clone()],
            ConditionStatus::True,
            Some(kept),
        ),
        (true, vec![shutdown.clone()], ConditionStatus::False, None),
    ] {
        let harness =
            Harness::new(Form::Addresses).with(json!({ "disableOutOfServiceTaint": is_off }));
        let tainted = Node {
            taints: taints.clone().into(),
            ready,
            ..node(&harness, "worker-1")
        };
        harness.cluster.set_node(tainted);
        let _provider = harness.started().await;
        let written = patches(&harness).await;
        let names = written.first().map(|object| {
            list(&object["taints"])
                .map(|taints| text(&taints["key"]).rsplit('/').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        });
        assert_eq!(
            names.map(|names| json!(names)),
            expected,
            "{taints:?} {ready:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_get_pod_ranges_of_each_family_if_the_flags_say_so() {
    let flags = [
        ("--allocate-node-cidrs", "true"),
        ("--node-cidr-mask-size-ipv4", "25"),
        ("--service-cluster-ip-range", "10.244.0.0/25"),
    ];
    let harness = Harness::new(Form::Addresses);
    let router = harness.fake.router();
    let start = async |flags: &[(&str, &str)], ranges: &str| {
        let flags = Environment::of(flags.to_vec());
        let setup = Setup {
            flags,
            cluster_cidr: Some(ranges.to_owned()),
            ..harness.setup()
        };
        let router = router.clone();
        let provider = Azure::new(&setup, move |http| http.service(router.clone()))?;
        provider.initialize(&harness.context()).await?;
        provider.set_caches(Arc::new(harness.cluster.clone()));
        Ok::<_, cloud_provider::Error>(provider)
    };
    let _provider = start(&flags, "10.244.0.0/16,fd00::/48").await.unwrap();
    let mut written: Vec<_> = patches(&harness)
        .await
        .iter()
        .map(|patch| patch["podCIDRs"].clone())
        .collect();
    written.sort_by_key(ToString::to_string);
    assert_eq!(
        written,
        [
            json!(["10.244.0.128/25", "fd00::/64"]),
            json!(["10.244.1.0/25", "fd00:0:0:1::/64"])
        ]
    );
    assert!(start(&[], "10.244.0.0/16").await.is_ok());
    let error = start(&flags[..1], "").await.err().unwrap().to_string();
    assert!(
        error.contains("--allocate-node-cidrs needs --cluster-cidr"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn node_gets_a_pod_range_of_the_length_in_the_tag_of_its_set() {
    for (allocator, form, expected) in [
        (
            "CloudAllocator",
            Form::ScaleSet,
            ["10.244.0.0/26", "10.244.0.64/26"],
        ),
        (
            "CloudAllocator",
            Form::Addresses,
            ["10.244.0.0/24", "10.244.1.0/26"],
        ),
        (
            "RangeAllocator",
            Form::ScaleSet,
            ["10.244.0.0/24", "10.244.1.0/24"],
        ),
    ] {
        let harness = Harness::new(form);
        let tags = json!({"location": "westeurope", "tags": {
            "kubernetesNodeCIDRMaskIPV4": "26", "kubernetesNodeCIDRMaskIPV6": "none",
        }});
        let set = azure_fake::id("Microsoft.Compute/virtualMachineScaleSets", "workers");
        harness
            .fake
            .lock()
            .edit(&set, |object| object["tags"] = tags["tags"].clone());
        if form == Form::Addresses {
            let set = azure_fake::id("Microsoft.Compute/availabilitySets", "FEW");
            harness.fake.lock().insert(&set, tags);
            let machine = harness.fake.lock().ids("worker-2").remove(0);
            harness.fake.lock().edit(&machine, |object| {
                object["properties"]["availabilitySet"] = json!({ "id": set });
            });
        }
        let flags = Environment::of([
            ("--allocate-node-cidrs", "true"),
            ("--cidr-allocator-type", allocator),
        ]);
        let setup = Setup {
            flags,
            cluster_cidr: Some("10.244.0.0/16".to_owned()),
            ..harness.setup()
        };
        let router = harness.fake.router();
        let provider = Azure::new(&setup, move |http| http.service(router.clone())).unwrap();
        provider.initialize(&harness.context()).await.unwrap();
        provider.set_caches(Arc::new(harness.cluster.clone()));
        let mut written: Vec<_> = patches(&harness)
            .await
            .iter()
            .map(|patch| text(&patch["podCIDR"]))
            .collect();
        written.sort();
        assert_eq!(written, expected, "{allocator} {form:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn routes_are_written_together_and_those_of_others_stay() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let routes = provider.routes().unwrap();
    let cluster = cluster();
    assert!(
        routes.list(&cluster).await.unwrap().is_empty(),
        "there is no table yet"
    );
    let one = route(&harness, "worker-1", "10.244.1.0/24");
    let two = route(&harness, "worker-2", "10.244.2.0/24");
    let (a, b) = futures::join!(
        routes.create(&cluster, "", &one),
        routes.create(&cluster, "", &two)
    );
    a.and(b).unwrap();
    let table = harness
        .fake
        .lock()
        .get(&azure_fake::id(
            "Microsoft.Network/routeTables",
            azure_fake::ROUTE_TABLE,
        ))
        .cloned()
        .unwrap();
    let names: Vec<_> = list(&table["properties"]["routes"])
        .map(|routes| text(&routes["name"]))
        .collect();
    assert_eq!(names, ["worker-1____102441024", "worker-2____102442024"]);
    let listed = routes.list(&cluster).await.unwrap();
    routes.delete(&cluster, &listed[0]).await.unwrap();
    assert_eq!(routes.list(&cluster).await.unwrap().len(), 1);
    harness.changes();
    routes.create(&cluster, "", &two).await.unwrap();
    let labels = [(
        "kubernetes.azure.com/managed".to_owned(),
        "false".to_owned(),
    )]
    .into_iter()
    .collect();
    harness.cluster.set_node(Node {
        labels,
        ..node(&harness, "worker-1")
    });
    routes.create(&cluster, "", &one).await.unwrap();
    assert_eq!(
        harness.changes(),
        [""; 0],
        "the same route, and one of a Node that is no machine of Azure"
    );
    assert_eq!(routes.list(&cluster).await.unwrap().len(), 2);
}
