//! Tests of load balancer and security group as documents that all Services share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::middleware::Next;
use axum::response::IntoResponse;

use azure_fake::{Fault, id};
use cloud_provider::{CloudProvider, LookupRequest};
use futures::future::join_all;
use http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::{BALANCERS, Form, Harness, PUT_BALANCER, cluster, list, route, service, text};

#[tokio::test(start_paused = true)]
async fn hundred_services_are_created_with_few_writes_of_the_shared_documents() {
    for form in [Form::Addresses, Form::Interfaces, Form::ScaleSet] {
        let harness = Harness::new(form);
        let provider = harness.started().await;
        let services: Vec<_> = (0..100)
            .map(|number| service(&format!("web-{number}"), &[80], &[], &Value::Null))
            .collect();
        let outcomes = join_all(
            services
                .iter()
                .map(|service| harness.ensure(&provider, service)),
        )
        .await;
        let addresses: std::collections::BTreeSet<_> = outcomes
            .into_iter()
            .map(|outcome| {
                outcome.unwrap().unwrap().ingress.unwrap()[0]
                    .ip
                    .clone()
                    .unwrap()
            })
            .collect();
        assert_eq!(addresses.len(), 100);
        let fault_injector = harness.fake.fault_injector();
        assert!(
            fault_injector.count(PUT_BALANCER) <= 12,
            "{form:?}: {} writes of the load balancer",
            fault_injector.count(PUT_BALANCER)
        );
        let writes = fault_injector.count("PUT /Microsoft.Network/networkSecurityGroups/{name}");
        assert!(
            writes <= 12,
            "{form:?}: {writes} writes of the security group"
        );
        let rules = harness.security_rules();
        assert_eq!(
            rules.len(),
            1,
            "Services with the same ports and sources share a rule"
        );
        assert_eq!(
            list(&rules[0]["properties"]["destinationAddressPrefixes"]).count(),
            100
        );
        fault_injector.forget_requests();
        let outcomes = join_all(
            services
                .iter()
                .map(|service| harness.delete(&provider, service)),
        )
        .await;
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        let removals = fault_injector.count("DELETE /Microsoft.Network/loadBalancers/{name}");
        let writes = fault_injector.count(PUT_BALANCER) + removals;
        assert!(
            writes <= 12,
            "{form:?}: {writes} writes of the load balancer, {removals} of them deletions"
        );
        assert_eq!(
            (harness.balancer("kubernetes"), harness.security_rules()),
            (Value::Null, Vec::new())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_and_elements_of_others_are_written_back_unchanged() {
    let harness = Harness::new(Form::Addresses);
    harness.fake.lock().add_frontend("kubernetes", "theirs");
    harness
        .fake
        .lock()
        .edit(&id(BALANCERS, "kubernetes"), |kubernetes| {
            kubernetes["properties"]["mystery"] = json!({"a": [1, 2]});
        });
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    harness.ensure(&provider, &web).await.unwrap();
    let name = cloud_provider::default_load_balancer_name(&web);
    harness
        .fake
        .lock()
        .edit(&id(BALANCERS, "kubernetes"), |kubernetes| {
            let frontends = kubernetes["properties"]["frontendIPConfigurations"]
                .as_array_mut()
                .unwrap();
            frontends
                .iter_mut()
                .filter(|frontend| frontend["name"] == *name)
                .for_each(|frontend| frontend["properties"]["gateway"] = json!("x"));
        });
    harness
        .ensure(&provider, &service("web", &[80, 443], &[], &Value::Null))
        .await
        .unwrap();
    let shown = harness.balancer("kubernetes");
    assert_eq!(shown["properties"]["mystery"], json!({"a": [1, 2]}));
    let of = |name: &str| {
        list(&shown["properties"]["frontendIPConfigurations"])
            .find(|object| object["name"] == name)
            .cloned()
            .unwrap()
    };
    assert_eq!(of(&name)["properties"]["gateway"], "x");
    harness.delete(&provider, &web).await.unwrap();
    let left = harness.balancer("kubernetes");
    let names: Vec<_> = list(&left["properties"]["frontendIPConfigurations"])
        .map(|object| text(&object["name"]))
        .collect();
    assert_eq!(
        (names, left["tags"]["team"].clone()),
        (vec!["theirs".to_owned()], json!("others"))
    );
}

#[tokio::test(start_paused = true)]
async fn throttled_type_of_resources_delays_nothing_else() {
    const DELAY: Duration = Duration::from_secs(200);
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let fault_injector = harness.fake.fault_injector();
    let web = service("web", &[80], &[], &Value::Null);
    let open = service("open", &[25], &[], &Value::Null);
    harness.ensure(&provider, &open).await.unwrap();
    fault_injector.fail(Fault::retry_after(PUT_BALANCER, 429, 200).times(1));
    let throttled = tokio::time::Instant::now();
    let error = harness.ensure(&provider, &web).await.unwrap_err();
    assert!(error.retry_after().is_some(), "{error}");
    let sent = fault_injector.count(PUT_BALANCER);
    tokio::time::sleep(Duration::from_secs(60)).await;
    harness.ensure(&provider, &web).await.unwrap_err();
    assert_eq!(
        fault_injector.count(PUT_BALANCER),
        sent,
        "nothing is sent before the time that Azure asks for"
    );
    // Reads of load balancers, security rules, addresses, Nodes and routes go on meanwhile.
    let closed = service(
        "open",
        &[25],
        &[("azure-allowed-ip-ranges", "10.0.0.0/8")],
        &Value::Null,
    );
    harness.ensure(&provider, &closed).await.unwrap();
    assert_eq!(
        text(&harness.security_rules()[0]["properties"]["sourceAddressPrefix"]),
        "10.0.0.0/8"
    );
    harness
        .ensure(
            &provider,
            &service(
                "open",
                &[25],
                &[
                    ("azure-allowed-ip-ranges", "10.0.0.0/8"),
                    ("azure-pip-tags", "a=b"),
                ],
                &Value::Null,
            ),
        )
        .await
        .unwrap();
    let nodes: Vec<_> = cloud_provider::Caches::nodes(&harness.cluster);
    let states = provider
        .instances()
        .unwrap()
        .lookup(&nodes, LookupRequest::METADATA)
        .await;
    assert!(states.into_iter().all(|state| state.is_ok()));
    let routes = provider.routes().unwrap();
    routes
        .create(
            &cluster(),
            "",
            &route(&harness, "worker-1", "10.244.1.0/24"),
        )
        .await
        .unwrap();
    assert!(throttled.elapsed() < DELAY, "{:?}", throttled.elapsed());
    assert_eq!(fault_injector.count(PUT_BALANCER), sent);
    tokio::time::sleep(DELAY).await;
    harness.ensure(&provider, &web).await.unwrap();
    assert_eq!(
        list(&harness.balancer("kubernetes")["properties"]["loadBalancingRules"]).count(),
        2
    );
}

/// Twelve writes of the load balancer a minute, which answers report.
#[tokio::test(start_paused = true)]
async fn nearly_used_up_limit_of_a_type_slows_its_writes_before_a_refusal() {
    let harness = Harness::new(Form::Addresses);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let refused = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    harness.fake.lock().delay = Duration::from_millis(100);
    let refusals = Arc::clone(&refused);
    let limit = move |request: Request<Body>, next: Next| {
        let is_write =
            request.method() == Method::PUT && request.uri().path().contains("/loadBalancers/");
        let mut sent = counter.lock();
        let now = tokio::time::Instant::now();
        sent.retain(|then: &tokio::time::Instant| *then + Duration::from_secs(60) > now);
        let left = 12_usize.checked_sub(sent.len() + 1);
        if is_write {
            match left {
                Some(_) => sent.push(now),
                None => _ = refusals.fetch_add(1, Ordering::Relaxed),
            }
        }
        drop(sent);
        async move {
            match left {
                None if is_write => {
                    (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "60")]).into_response()
                }
                left => {
                    let mut answer = next.run(request).await;
                    let left = format!(
                        "Microsoft.Network/PutLoadBalancer1Min;{}",
                        left.unwrap_or_default()
                    );
                    if is_write {
                        answer
                            .headers_mut()
                            .insert("x-ms-ratelimit-remaining-resource", left.parse().unwrap());
                    }
                    answer
                }
            }
        }
    };
    let router = harness
        .fake
        .router()
        .layer(axum::middleware::from_fn(limit));
    let provider = harness
        .started_with(move |http| http.service(router.clone()))
        .await;
    for number in 0..30 {
        let web = service(&format!("web-{number}"), &[80], &[], &Value::Null);
        while let Err(error) = harness.ensure(&provider, &web).await {
            tokio::time::sleep(error.retry_after().expect("a time")).await;
        }
    }
    assert_eq!(refused.load(Ordering::Relaxed), 0);
    assert_eq!(
        list(&harness.balancer("kubernetes")["properties"]["loadBalancingRules"]).count(),
        30
    );
}

#[tokio::test(start_paused = true)]
async fn operation_without_a_delay_is_polled_no_more_than_twice_a_second() {
    let harness = Harness::new(Form::Addresses);
    harness.fake.lock().delay = Duration::from_millis(900);
    let provider = harness.started().await;
    harness
        .ensure(&provider, &service("web", &[80], &[], &Value::Null))
        .await
        .unwrap();
    let polls = harness
        .fake
        .fault_injector()
        .count("GET /{namespace}/locations/{location}/operations/{operation}");
    assert!(
        (3..=6).contains(&polls),
        "{polls} polls of three operations"
    );
}

#[tokio::test(start_paused = true)]
async fn changed_document_is_read_again_and_the_same_edit_applied() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    harness
        .ensure(&provider, &service("web", &[80], &[], &Value::Null))
        .await
        .unwrap();
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused_as(PUT_BALANCER, 412, "PreconditionFailed", "stale").times(2));
    harness
        .ensure(&provider, &service("mail", &[25], &[], &Value::Null))
        .await
        .unwrap();
    assert_eq!(
        list(&harness.balancer("kubernetes")["properties"]["loadBalancingRules"]).count(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_another_cluster_is_left_alone() {
    let harness = Harness::new(Form::Addresses);
    harness.fake.lock().add_frontend("kubernetes", "theirs");
    harness
        .fake
        .lock()
        .edit(&id(BALANCERS, "kubernetes"), |kubernetes| {
            kubernetes["tags"] = json!({"ccm-rs-cluster": "other"});
        });
    let before = harness.balancer("kubernetes");
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &service("web", &[80], &[], &Value::Null))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("another cluster, \"other\"") && error.contains("--cluster-name"),
        "{error}"
    );
    assert_eq!(harness.balancer("kubernetes"), before);
}

#[tokio::test(start_paused = true)]
async fn moved_service_gets_the_other_kind_and_leaves_nothing_behind() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    harness
        .ensure(&provider, &service("web", &[80], &[], &Value::Null))
        .await
        .unwrap();
    let internal = service(
        "web",
        &[80],
        &[("azure-load-balancer-internal", "true")],
        &Value::Null,
    );
    let status = harness.ensure(&provider, &internal).await.unwrap().unwrap();
    assert!(
        status.ingress.unwrap()[0]
            .ip
            .as_ref()
            .unwrap()
            .starts_with("10.1.")
    );
    assert_eq!(harness.balancer("kubernetes"), Value::Null);
    assert_eq!(
        harness
            .fake
            .lock()
            .all("Microsoft.Network/publicIPAddresses")
            .count(),
        0
    );
    assert_eq!(
        harness.security_rules(),
        Vec::<Value>::new(),
        "the virtual network is admitted anyway"
    );
    harness.delete(&provider, &internal).await.unwrap();
    assert_eq!(harness.balancer("kubernetes-internal"), Value::Null);
}
