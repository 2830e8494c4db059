//! Load balancers of the scripted cloud.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::scripted::cloud::Cloud;
use crate::{LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Node, Result, Service};

/// A hook that runs during a call.
pub(super) type BalancerHook = Arc<dyn Fn(BalancerCall) -> BoxFuture<'static, ()> + Send + Sync>;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BalancerAction {
    /// A call of [`LoadBalancers::ensure`].
    Ensure,
    /// A call of [`LoadBalancers::update_targets`].
    Update,
}

/// A call that sets a load balancer's targets.
#[derive(Clone, Debug, PartialEq)]
pub struct BalancerCall {
    /// Kind of the call.
    pub action: BalancerAction,
    /// Name of the cluster.
    pub cluster: String,
    /// Service, as the controller passed it.
    pub service: Service,
    /// Targets, in the order of the request.
    pub nodes: Vec<Arc<Node>>,
}

impl BalancerCall {
    fn of(action: BalancerAction, request: LoadBalancerRequest<'_>) -> Self {
        let cluster = request.cluster.name.clone();
        Self {
            action,
            cluster,
            service: request.service.clone(),
            nodes: request.nodes.to_vec(),
        }
    }

    /// Returns the names of the targets, in the order of the request.
    #[must_use]
    pub fn node_names(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| &*node.name).collect()
    }
}

impl Cloud {
    async fn give_targets(&self, method: &'static str, call: BalancerCall) {
        self.state().balancer_calls.push(call.clone());
        self.begin(method.to_owned()).await;
        if let Some(hook) = self.balancer_hook() {
            hook(call).await;
        }
    }
}

#[async_trait]
impl LoadBalancers for Cloud {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        self.ask("get_load_balancer", request.service, |s| {
            &s.get_load_balancer
        })
        .await
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let method = "ensure_load_balancer";
        self.give_targets(method, BalancerCall::of(BalancerAction::Ensure, request))
            .await;
        self.answer(method, request.service, |s| &s.ensure_load_balancer)
    }

    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let method = "update_load_balancer";
        self.give_targets(method, BalancerCall::of(BalancerAction::Update, request))
            .await;
        self.answer(method, request.service, |s| &s.update_load_balancer)
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.ask("ensure_load_balancer_deleted", request.service, |s| {
            &s.ensure_load_balancer_deleted
        })
        .await
    }
}
