//! What the stories are made of. Each deed is over before anybody else runs.

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::stage::Stage;

/// A deed that is still to be done.
pub(super) type Deed<'a> = BoxFuture<'a, ()>;

/// A machine and its Node, with a Pod CIDR of the name's number.
pub(super) fn node_joins<'a>(stage: &'a Stage, name: &'a str) -> Deed<'a> {
    async move {
        stage.cloud.add_machine(name);
        let number = name.rsplit('-').next().unwrap_or_default();
        stage.user.register_node(name, &[format!("10.244.{number}.0/24")]).await;
    }
    .boxed()
}

/// `worker-1` and `worker-2` join.
pub(super) fn two_nodes(stage: &Stage) -> Deed<'_> {
    async move {
        node_joins(stage, "worker-1").await;
        node_joins(stage, "worker-2").await;
    }
    .boxed()
}

/// `worker-1` and `worker-2` join, and Service `web` is created.
pub(super) fn a_service(stage: &Stage) -> Deed<'_> {
    async move {
        two_nodes(stage).await;
        service_comes(stage, "web").await;
    }
    .boxed()
}

pub(super) fn machine_stops<'a>(stage: &'a Stage, name: &'a str) -> Deed<'a> {
    stage.cloud.stop(name);
    set_ready(stage, name, false)
}

pub(super) fn machine_starts<'a>(stage: &'a Stage, name: &'a str) -> Deed<'a> {
    stage.cloud.start(name);
    set_ready(stage, name, true)
}

pub(super) fn machine_ends<'a>(stage: &'a Stage, name: &'a str) -> Deed<'a> {
    stage.cloud.terminate(name);
    set_ready(stage, name, false)
}

pub(super) fn set_ready<'a>(stage: &'a Stage, name: &'a str, is_ready: bool) -> Deed<'a> {
    stage.user.set_ready(name, is_ready).map(|_| ()).boxed()
}

pub(super) fn service_comes<'a>(stage: &'a Stage, name: &'a str) -> Deed<'a> {
    stage.user.create_service(name, &[80, 443]).map(|_| ()).boxed()
}

pub(super) fn service_goes<'a>(stage: &'a Stage, name: &'a str) -> Deed<'a> {
    async move { assert!(stage.user.delete_service(name).await) }.boxed()
}

pub(super) fn ports_change(stage: &Stage) -> Deed<'_> {
    async move { assert!(stage.user.set_ports("web", &[443, 8443]).await) }.boxed()
}

pub(super) fn annotations_change(stage: &Stage) -> Deed<'_> {
    change(stage, json!({"metadata": {"annotations": {"example.com/owner": "platform"}}}))
}

/// `spec.type` of Service `web`.
pub(super) fn set_type<'a>(stage: &'a Stage, kind: &str) -> Deed<'a> {
    change(stage, json!({"spec": {"type": kind}}))
}

/// Service `web` becomes another controller's.
pub(super) fn set_other_class(stage: &Stage) -> Deed<'_> {
    change(stage, json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/other"}}))
}

/// Three Services; the cloud refuses every change for one of them.
pub(super) fn three_services_one_hopeless(stage: &Stage) -> Deed<'_> {
    async move {
        service_comes(stage, "broken").await;
        stage.make_hopeless("broken");
        service_comes(stage, "web").await;
        service_comes(stage, "mail").await;
    }
    .boxed()
}

/// A Node joins, another one's machine ends, a Service changes, another one is created: all at once.
pub(super) fn everything_at_once(stage: &Stage) -> Deed<'_> {
    async move {
        node_joins(stage, "worker-3").await;
        machine_ends(stage, "worker-2").await;
        ports_change(stage).await;
        service_comes(stage, "mail").await;
    }
    .boxed()
}

/// The API server shows no object of this kind.
pub(super) fn api_forgets<'a>(stage: &'a Stage, kind: &'a str) -> Deed<'a> {
    stage.api.forget(kind);
    std::future::ready(()).boxed()
}

/// The API server shows them again.
pub(super) fn api_remembers<'a>(stage: &'a Stage, kind: &'a str) -> Deed<'a> {
    stage.api.remember(kind);
    std::future::ready(()).boxed()
}

fn change(stage: &Stage, patch: Value) -> Deed<'_> {
    async move { assert!(stage.user.patch_service("web", &patch).await) }.boxed()
}
