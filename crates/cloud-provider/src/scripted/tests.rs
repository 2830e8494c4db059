//! Rules: PROV-13, PROV-85, PROV-86.

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::{
    Cluster, Error, InstanceState, LoadBalancerRequest, LoadBalancerStatus, LookupRequest, Node,
    Service, single_answer,
};

fn cluster() -> Cluster {
    Cluster {
        name: "c".into(),
        id: None,
    }
}

fn node(name: &str) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        ..Node::default()
    })
}

fn route(node: &str, cidr: &str) -> Route {
    Route {
        target_node: node.into(),
        destination_cidr: cidr.into(),
        ..Route::default()
    }
}

async fn look_up(
    provider: &ScriptedProvider,
    request: LookupRequest,
) -> crate::Result<InstanceState> {
    single_answer(
        provider
            .instances()
            .unwrap()
            .lookup(&[node("n")], request)
            .await,
    )
}

#[tokio::test]
async fn calls_are_logged_in_order_with_the_provider_id() {
    let provider = ScriptedProvider::new();
    provider.switch(Capability::Zones, false).script(|s| {
        s.instance_id = Some(Answer::ok("7".into()));
        s.node_addresses_by_provider_id = Some(Answer::err(Error::other("x")));
        s.node_addresses = Some(Answer::ok(vec![]));
        s.instance_types([("fake://7".to_owned(), "m5".to_owned())].into());
    });
    let state = look_up(&provider, LookupRequest::METADATA).await.unwrap();
    assert!(
        matches!(state, InstanceState::Present { metadata: Some(m), .. } if m.instance_type == "m5")
    );
    assert_eq!(
        provider.calls(),
        [
            "instance_id",
            "node_addresses_by_provider_id(fake://7)",
            "node_addresses",
            "instance_type_by_provider_id(fake://7)"
        ]
    );
    assert!(provider.violations().is_empty());
    provider.clear_calls();
    assert!(provider.calls().is_empty());
}

#[tokio::test]
async fn a_call_without_a_script_is_an_error_and_a_violation() {
    let provider = ScriptedProvider::new();
    provider.switch(Capability::InstancesV2, true);
    assert_eq!(
        look_up(&provider, LookupRequest::EXISTENCE)
            .await
            .unwrap_err()
            .to_string(),
        "instance_exists is not scripted"
    );
    assert_eq!(
        provider.violations(),
        ["instance_exists was called, but the script has no answer for it"]
    );
}

#[tokio::test]
async fn instances_v2_take_precedence_and_capabilities_can_be_switched_off() {
    let provider = ScriptedProvider::new();
    provider.script(|s| {
        s.instance_exists = Some(Answer::ok(true));
        s.instance_id = Some(Answer::err(Error::instance_not_found()));
    });
    assert!(matches!(
        look_up(&provider, LookupRequest::EXISTENCE).await,
        Ok(InstanceState::Gone(_))
    ));
    provider.switch(Capability::InstancesV2, true);
    assert!(matches!(
        look_up(&provider, LookupRequest::EXISTENCE).await,
        Ok(InstanceState::Present { .. })
    ));
    provider
        .switch(Capability::InstancesV2, false)
        .switch(Capability::Instances, false);
    assert!(provider.instances().is_none() && provider.v1().is_none());
    for (capability, offered) in [
        (
            Capability::LoadBalancers,
            (|p| p.load_balancers().is_some()) as fn(&ScriptedProvider) -> bool,
        ),
        (Capability::Routes, |p| p.routes().is_some()),
        (Capability::Clusters, |p| p.clusters().is_some()),
    ] {
        assert!(offered(&provider), "{capability:?} is on from the start");
        assert!(
            !offered(provider.switch(capability, false)),
            "{capability:?}"
        );
    }
    assert!(provider.has_cluster_id() && !provider.set_has_cluster_id(false).has_cluster_id());
}

#[tokio::test(start_paused = true)]
async fn calls_are_delayed_as_configured() {
    let provider = ScriptedProvider::new();
    provider
        .delay(Duration::from_secs(3))
        .script(|s| s.list_clusters = Some(Answer::ok(vec!["a".into()])));
    let start = Instant::now();
    assert_eq!(provider.clusters().unwrap().list().await.unwrap(), ["a"]);
    assert_eq!(start.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn targets_are_recorded_and_a_hook_runs_before_the_answer() {
    let provider = ScriptedProvider::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    provider
        .script(|s| {
            s.ensure_load_balancer = Some(Answer::in_turn([
                Err(Error::other("busy")),
                Ok(Some(LoadBalancerStatus::default())),
            ]));
            s.update_load_balancer = Some(Answer::ok(()));
        })
        .on_balancer_call(move |call| {
            hook.lock().push(call.action);
            async {}.boxed()
        });
    let cluster = cluster();
    let service = Service::default();
    let nodes = [node("b"), node("a")];
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service: &service,
        nodes: &nodes,
        callbacks: &(),
    };
    let balancers = provider.load_balancers().unwrap();
    assert!(balancers.ensure(request).await.is_err());
    assert!(balancers.ensure(request).await.unwrap().is_some());
    balancers
        .update_targets(LoadBalancerRequest {
            nodes: &nodes[1..],
            ..request
        })
        .await
        .unwrap();
    let calls = provider.balancer_calls();
    assert_eq!(
        calls
            .iter()
            .map(BalancerCall::node_names)
            .collect::<Vec<_>>(),
        [vec!["b", "a"], vec!["b", "a"], vec!["a"]]
    );
    assert_eq!(
        *seen.lock(),
        [
            BalancerAction::Ensure,
            BalancerAction::Ensure,
            BalancerAction::Update
        ]
    );
    assert!(balancers.get(request).await.is_err());
    assert_eq!(provider.violations().len(), 1);
}

#[tokio::test]
async fn routes_are_remembered_by_cluster_node_and_cidr() {
    let provider = ScriptedProvider::new();
    provider.seed_route("other", route("n", "10.0.0.0/24"));
    let cluster = cluster();
    let routes = provider.routes().unwrap();
    assert_eq!(routes.list(&cluster).await.unwrap(), []);
    routes
        .create(&cluster, "uid", &route("n", "10.0.0.0/24"))
        .await
        .unwrap();
    let listed = routes.list(&cluster).await.unwrap();
    assert_eq!(listed[0].name, "c-n-10.0.0.0/24");
    routes
        .delete(
            &cluster,
            &Route {
                name: "another name".into(),
                ..listed[0].clone()
            },
        )
        .await
        .unwrap();
    assert!(
        routes
            .delete(&cluster, &listed[0])
            .await
            .unwrap_err()
            .is_not_found()
    );
    assert_eq!(
        provider.created_routes(),
        [("uid".to_owned(), route("n", "10.0.0.0/24"))]
    );
    assert_eq!(provider.deleted_routes().len(), 2);
}

#[tokio::test]
async fn creating_a_route_twice_fails_and_lists_fail_from_then_on() {
    let provider = ScriptedProvider::new();
    let cluster = cluster();
    let routes = provider.routes().unwrap();
    routes
        .create(&cluster, "", &route("n", "10.0.0.0/24"))
        .await
        .unwrap();
    let error = routes
        .create(&cluster, "", &route("n", "10.0.0.0/24"))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "route \"c-n-10.0.0.0/24\" already exists"
    );
    assert_eq!(
        routes.list(&cluster).await.unwrap_err().to_string(),
        error.to_string()
    );
}

#[tokio::test]
async fn a_scripted_failure_leaves_the_routes_alone() {
    let provider = ScriptedProvider::new();
    provider
        .script(|s| s.create_route = Some(Answer::in_turn([Err(Error::other("quota")), Ok(())])));
    let cluster = cluster();
    let routes = provider.routes().unwrap();
    assert!(
        routes
            .create(&cluster, "", &route("n", "10.0.0.0/24"))
            .await
            .is_err()
    );
    assert_eq!(routes.list(&cluster).await.unwrap(), []);
    routes
        .create(&cluster, "", &route("n", "10.0.0.0/24"))
        .await
        .unwrap();
    assert_eq!(routes.list(&cluster).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_empty_provider_id_cannot_be_shut_down() {
    let cloud = Cloud::new();
    cloud.change(|s| s.instance_shutdown_by_provider_id = Some(Answer::ok(true)));
    let machines: &dyn crate::InstancesV1 = &cloud;
    assert!(
        machines
            .instance_shutdown_by_provider_id("p://1")
            .await
            .unwrap()
    );
    assert!(machines.instance_shutdown_by_provider_id("").await.is_err());
}
