//! Ownership of load balancers.

use super::*;

/// A load balancer that another program created is adopted by its name, and keeps its labels.
#[tokio::test(start_paused = true)]
async fn one_of_the_right_name_is_taken_over_and_signed() {
    let mut scene = Scene::new();
    scene.annotate("name", "edge");
    scene.fake.add_load_balancer("edge");
    scene.fake.change_load_balancer("edge", |load_balancer| {
        drop(load_balancer.labels.insert("team".into(), "blue".into()));
    });
    scene.start().await;
    scene.ensure().await;
    let labels = scene.balancer().labels;
    assert_eq!(
        (
            labels[LEGACY_OWNER_LABEL].as_str(),
            labels["team"].as_str(),
            labels["ccm-rs/service"].as_str()
        ),
        (UID, "blue", UID)
    );
    assert_eq!(scene.fake.count("PUT /load_balancers/{id}"), 1);
    assert_eq!(scene.fake.count(CREATE), 0);
    assert_eq!(
        (scene.targets(), scene.balancer().services.len()),
        (scene.servers(), 1)
    );
}

/// The legacy owner tag is missing, or stale.
#[tokio::test(start_paused = true)]
async fn a_sign_that_is_missing_or_of_a_service_that_is_gone_is_replaced_and_other_labels_stay() {
    for stale in [None, Some("a-service-that-is-gone")] {
        let mut scene = Scene::new();
        scene.ensure().await;
        scene
            .meddle(|load_balancer| {
                load_balancer.labels = [("team".to_owned(), "blue".to_owned())].into();
                load_balancer
                    .labels
                    .extend(stale.map(|uid| (LEGACY_OWNER_LABEL.to_owned(), uid.to_owned())));
            })
            .await;
        scene.ensure().await;
        let labels = scene.balancer().labels;
        assert_eq!(
            (labels[LEGACY_OWNER_LABEL].as_str(), labels["team"].as_str()),
            (UID, "blue")
        );
        assert_eq!(scene.changes(), ["PUT /load_balancers/{id}"]);
    }
}

/// D-11 in the other direction: the load balancer has the label that the Go cloud-controller-manager looks for.
#[tokio::test(start_paused = true)]
async fn a_cluster_whose_name_is_no_label_is_marked_by_the_service_alone() {
    let mut scene = Scene::new();
    let service = scene.service.clone();
    let nodes = scene.nodes.clone();
    let cluster = Cluster {
        name: "no label at all".into(),
        id: None,
    };
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service: &service,
        nodes: &nodes,
        callbacks: &(),
    };
    scene.balancers().await.ensure(request).await.unwrap();
    let labels = scene.balancer().labels;
    assert_eq!(
        (
            labels.get("ccm-rs/cluster"),
            labels[LEGACY_OWNER_LABEL].as_str()
        ),
        (None, UID)
    );
}

/// INV-7: the legacy owner tag decides nothing here, the targets do.
#[tokio::test(start_paused = true)]
async fn one_that_another_cluster_uses_is_refused_until_its_machines_are_gone() {
    let mut scene = Scene::new();
    scene.annotate("name", "edge");
    let theirs = Target::Server {
        id: scene.fake.add_server("theirs").id,
        use_private_ip: true,
    };
    scene.fake.add_load_balancer("edge");
    scene.fake.change_load_balancer("edge", |load_balancer| {
        load_balancer
            .labels
            .insert(LEGACY_OWNER_LABEL.into(), "of another cluster's".into());
        load_balancer.targets.push(theirs);
    });
    scene.start().await;
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("it is left alone"),
        "{err}"
    );
    assert_eq!(scene.changes(), [""; 0]);
    scene
        .fake
        .change_load_balancer("edge", |load_balancer| load_balancer.targets.clear());
    scene.start().await;
    scene.ensure().await;
    assert_eq!(scene.balancer().labels[LEGACY_OWNER_LABEL], UID);
}
