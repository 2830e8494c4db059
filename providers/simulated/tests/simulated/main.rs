//! The simulated cloud and its provider, in one process, mostly under a paused clock.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails where it does not find what it expects"
)]

mod cloud;
mod credentials;
mod diagnosis;
mod faults;
mod load_balancers;
mod look_ups;
mod routes_and_volumes;
mod thousand_services;

use std::sync::Arc;

use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    CloudProvider, Cluster, Context, InstanceState, LookupRequest, Node, Result, Service,
};
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
use provider_simulated::provider::Simulated;

const MACHINES: &str = "GET /v1/machines";
const MACHINE: &str = "GET /v1/machines/{id}";
const FRESH: LookupRequest = LookupRequest::EXISTENCE.and_shutdown().fresh();

fn transport(cloud: &Cloud) -> Transport {
    let builder =
        Transport::builder("http://simulated").credential(Credential::token(DEFAULT_TOKEN));
    builder.service(cloud.router()).build().unwrap()
}

fn provider(cloud: &Cloud) -> Simulated {
    Simulated::new(transport(cloud), None)
}

/// Nodes of machines, initialised: with their provider ids.
fn nodes(ids: &[String]) -> Vec<Arc<Node>> {
    let node = |id: &String| Node {
        name: format!("node-{id}").into(),
        uid: format!("uid-{id}").into(),
        provider_id: format!("simulated://{id}").into(),
        ..Node::default()
    };
    ids.iter().map(|id| Arc::new(node(id))).collect()
}

/// Nodes that have just joined: without provider ids.
fn joining(names: impl IntoIterator<Item = String>) -> Vec<Arc<Node>> {
    let node = |name: String| Node {
        uid: format!("uid-{name}").into(),
        name: name.into(),
        ..Node::default()
    };
    names.into_iter().map(|name| Arc::new(node(name))).collect()
}

async fn look_up(
    provider: &Simulated,
    nodes: &[Arc<Node>],
    request: LookupRequest,
) -> Vec<Result<InstanceState>> {
    let answers = provider.instances().unwrap().lookup(nodes, request).await;
    assert_eq!(answers.len(), nodes.len());
    answers
}

/// Returns the numbers of present, deleted and unknown machines.
fn count(answers: &[Result<InstanceState>]) -> [usize; 3] {
    let count = |which: fn(&Result<InstanceState>) -> bool| {
        answers.iter().filter(|answer| which(answer)).count()
    };
    [
        count(|answer| matches!(answer, Ok(InstanceState::Present { .. }))),
        count(|answer| matches!(answer, Ok(InstanceState::Gone(_)))),
        count(Result::is_err),
    ]
}

fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("5c1d".into()),
    }
}

fn context() -> Context {
    ScriptedCluster::default().context(cluster())
}

/// Returns the caches of a cluster with these Nodes.
fn caches(nodes: &[Arc<Node>]) -> Arc<ScriptedCluster> {
    let cluster = ScriptedCluster::default();
    nodes
        .iter()
        .for_each(|node| cluster.set_node((**node).clone()));
    Arc::new(cluster)
}
