//! The stories.

use futures::FutureExt;
use serde_json::json;

use super::Scenario;
use crate::stage::Stage;

/// All stories.
pub const SCENARIOS: [Scenario; 12] = [
    Scenario {
        name: "a Node is initialised",
        routes: false,
        set_up: None,
        actions: &[|stage| node_joins(stage, "worker-1").boxed()],
    },
    Scenario {
        name: "a machine is stopped and started",
        routes: false,
        set_up: Some(|stage| nodes_join(stage, 2).boxed()),
        actions: &[|stage| machine_stops(stage, "worker-2").boxed(), |stage| machine_starts(stage, "worker-2").boxed()],
    },
    Scenario {
        name: "a Node's machine is terminated",
        routes: false,
        set_up: Some(|stage| nodes_join(stage, 2).boxed()),
        actions: &[|stage| machine_ends(stage, "worker-2").boxed()],
    },
    Scenario {
        name: "a Service is created",
        routes: false,
        set_up: Some(|stage| nodes_join(stage, 2).boxed()),
        actions: &[|stage| service_comes(stage, "web").boxed()],
    },
    Scenario {
        name: "ports and annotations change",
        routes: false,
        set_up: Some(|stage| a_service(stage).boxed()),
        actions: &[
            |stage| async move { assert!(stage.user.set_ports("web", &[443, 8443]).await) }.boxed(),
            |stage| {
                let patch = json!({"metadata": {"annotations": {"example.com/owner": "platform"}}});
                async move { assert!(stage.user.patch_service("web", &patch).await) }.boxed()
            },
        ],
    },
    Scenario {
        name: "type away and back",
        routes: false,
        set_up: Some(|stage| a_service(stage).boxed()),
        actions: &[
            |stage| set_type(stage, json!({"type": "ClusterIP"})).boxed(),
            |stage| set_type(stage, json!({"type": "LoadBalancer"})).boxed(),
        ],
    },
    Scenario {
        name: "another class takes over",
        routes: false,
        set_up: Some(|stage| a_service(stage).boxed()),
        actions: &[
            |stage| set_type(stage, json!({"type": "ClusterIP"})).boxed(),
            |stage| set_type(stage, json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/other"})).boxed(),
        ],
    },
    Scenario {
        name: "Nodes join and leave",
        routes: false,
        set_up: Some(|stage| a_service(stage).boxed()),
        actions: &[|stage| node_joins(stage, "worker-3").boxed(), |stage| machine_ends(stage, "worker-2").boxed()],
    },
    Scenario {
        name: "a Service is deleted",
        routes: false,
        set_up: Some(|stage| a_service(stage).boxed()),
        actions: &[|stage| async move { assert!(stage.user.delete_service("web").await) }.boxed()],
    },
    Scenario {
        name: "a Service is deleted while it is made",
        routes: false,
        set_up: Some(|stage| nodes_join(stage, 2).boxed()),
        actions: &[|stage| {
            async move {
                service_comes(stage, "web").await;
                tokio::time::sleep(std::time::Duration::from_millis(700)).await;
                stage.user.delete_service("web").await;
            }
            .boxed()
        }],
    },
    Scenario {
        name: "three Services, one always fails",
        routes: false,
        set_up: Some(|stage| nodes_join(stage, 2).boxed()),
        actions: &[
            |stage| {
                async move {
                    service_comes(stage, "broken").await;
                    stage.make_hopeless("broken");
                    service_comes(stage, "web").await;
                    service_comes(stage, "mail").await;
                }
                .boxed()
            },
            |stage| async move { assert!(stage.user.delete_service("mail").await) }.boxed(),
        ],
    },
    Scenario {
        name: "routes follow the Nodes",
        routes: true,
        set_up: Some(|stage| nodes_join(stage, 2).boxed()),
        actions: &[|stage| node_joins(stage, "worker-3").boxed(), |stage| machine_ends(stage, "worker-2").boxed()],
    },
];

/// A machine and its Node, with a Pod CIDR of the name's number.
async fn node_joins(stage: &Stage, name: &str) {
    stage.cloud.add_machine(name);
    let number = name.rsplit('-').next().unwrap_or_default();
    stage.user.register_node(name, &[format!("10.244.{number}.0/24")]).await;
}

async fn nodes_join(stage: &Stage, count: usize) {
    for number in 1..=count {
        node_joins(stage, &format!("worker-{number}")).await;
    }
}

async fn machine_stops(stage: &Stage, name: &str) {
    stage.cloud.stop(name);
    stage.user.set_ready(name, false).await;
}

async fn machine_starts(stage: &Stage, name: &str) {
    stage.cloud.start(name);
    stage.user.set_ready(name, true).await;
}

async fn machine_ends(stage: &Stage, name: &str) {
    stage.cloud.terminate(name);
    stage.user.set_ready(name, false).await;
}

async fn service_comes(stage: &Stage, name: &str) {
    stage.user.create_service(name, &[80, 443]).await;
}

async fn a_service(stage: &Stage) {
    nodes_join(stage, 2).await;
    service_comes(stage, "web").await;
}

async fn set_type(stage: &Stage, spec: serde_json::Value) {
    assert!(stage.user.patch_service("web", &json!({"spec": spec})).await);
}
