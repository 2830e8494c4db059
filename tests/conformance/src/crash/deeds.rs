//! Actions of the scenarios. Each action completes before other tasks run.

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::harness::Harness;

/// A deed that is still to be done.
pub(super) type Deed<'a> = BoxFuture<'a, ()>;

/// Adds a machine and its Node, with a Pod CIDR of the name's number.
pub(super) fn node_joins<'a>(harness: &'a Harness, name: &'a str) -> Deed<'a> {
    async move {
        harness.cloud.add_machine(name);
        let number = name.rsplit('-').next().unwrap_or_default();
        harness
            .user
            .register_node(name, &[format!("10.244.{number}.0/24")])
            .await;
    }
    .boxed()
}

/// Adds the Nodes `worker-1` and `worker-2`.
pub(super) fn two_nodes(harness: &Harness) -> Deed<'_> {
    async move {
        node_joins(harness, "worker-1").await;
        node_joins(harness, "worker-2").await;
    }
    .boxed()
}

/// Adds the Nodes `worker-1` and `worker-2`, and creates Service `web`.
pub(super) fn a_service(harness: &Harness) -> Deed<'_> {
    async move {
        two_nodes(harness).await;
        service_comes(harness, "web").await;
    }
    .boxed()
}

pub(super) fn machine_stops<'a>(harness: &'a Harness, name: &'a str) -> Deed<'a> {
    harness.cloud.stop(name);
    set_ready(harness, name, false)
}

pub(super) fn machine_starts<'a>(harness: &'a Harness, name: &'a str) -> Deed<'a> {
    harness.cloud.start(name);
    set_ready(harness, name, true)
}

pub(super) fn machine_ends<'a>(harness: &'a Harness, name: &'a str) -> Deed<'a> {
    harness.cloud.terminate(name);
    set_ready(harness, name, false)
}

pub(super) fn set_ready<'a>(harness: &'a Harness, name: &'a str, is_ready: bool) -> Deed<'a> {
    harness.user.set_ready(name, is_ready).map(|_| ()).boxed()
}

pub(super) fn service_comes<'a>(harness: &'a Harness, name: &'a str) -> Deed<'a> {
    harness
        .user
        .create_service(name, &[80, 443])
        .map(|_| ())
        .boxed()
}

pub(super) fn service_goes<'a>(harness: &'a Harness, name: &'a str) -> Deed<'a> {
    async move { assert!(harness.user.delete_service(name).await) }.boxed()
}

pub(super) fn ports_change(harness: &Harness) -> Deed<'_> {
    async move { assert!(harness.user.set_ports("web", &[443, 8443]).await) }.boxed()
}

pub(super) fn annotations_change(harness: &Harness) -> Deed<'_> {
    change(
        harness,
        json!({"metadata": {"annotations": {"example.com/owner": "platform"}}}),
    )
}

/// Changes `spec.type` of Service `web`.
pub(super) fn set_type<'a>(harness: &'a Harness, kind: &str) -> Deed<'a> {
    change(harness, json!({"spec": {"type": kind}}))
}

/// Assigns Service `web` to another controller.
pub(super) fn set_other_class(harness: &Harness) -> Deed<'_> {
    change(
        harness,
        json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/other"}}),
    )
}

/// Creates three Services; the cloud refuses every change for one of them.
pub(super) fn three_services_one_hopeless(harness: &Harness) -> Deed<'_> {
    async move {
        service_comes(harness, "broken").await;
        harness.make_hopeless("broken");
        service_comes(harness, "web").await;
        service_comes(harness, "mail").await;
    }
    .boxed()
}

/// Adds a Node, terminates the machine of another, changes a Service and creates another one, all at once.
pub(super) fn everything_at_once(harness: &Harness) -> Deed<'_> {
    async move {
        node_joins(harness, "worker-3").await;
        machine_ends(harness, "worker-2").await;
        ports_change(harness).await;
        service_comes(harness, "mail").await;
    }
    .boxed()
}

/// Hides the objects of this kind in the API server.
pub(super) fn api_forgets<'a>(harness: &'a Harness, kind: &'a str) -> Deed<'a> {
    harness.api.lose_storage(kind);
    std::future::ready(()).boxed()
}

/// Shows the objects of this kind in the API server again.
pub(super) fn api_remembers<'a>(harness: &'a Harness, kind: &'a str) -> Deed<'a> {
    harness.api.restore_storage(kind);
    std::future::ready(()).boxed()
}

fn change(harness: &Harness, patch: Value) -> Deed<'_> {
    async move { assert!(harness.user.patch_service("web", &patch).await) }.boxed()
}
