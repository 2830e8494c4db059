//! A provider that answers from a script, for tests of controllers and adapters (PROV-85, PROV-86).
//!
//! A test scripts the cloud's answers to each method, lets a controller or an adapter work with them, and then checks
//! which calls were made, in which order and with which arguments. **A method that is not scripted must not be
//! called**: such a call gets an error and is recorded as a [violation](ScriptedProvider::violations), and a test
//! asserts that there is none.
//!
//! | feature | item |
//! |---|---|
//! | answers and errors, by method | [`ScriptedProvider::script`], [`Script`], [`Answer`] |
//! | capabilities on and off, also in the middle of a test | [`ScriptedProvider::switch`], [`Capability`] |
//! | log of calls | [`ScriptedProvider::calls`] |
//! | targets of load balancers | [`ScriptedProvider::balancer_calls`] |
//! | hooks during a call | [`ScriptedProvider::on_balancer_call`] |
//! | slow calls, in tokio's time | [`ScriptedProvider::delay`] |
//! | routes, which the test double stores | [`ScriptedProvider::seed_route`] |
//! | the cluster around a provider under test: caches, events, Secrets | [`ScriptedCluster`] |
//! | a Kubernetes API that refuses all requests | [`AnsweringStatus`] |
//!
//! ```
//! use std::sync::Arc;
//! use cloud_provider::scripted::{Answer, Capability, ScriptedProvider};
//! use cloud_provider::{CloudProvider, Error, InstanceMetadata, InstanceState, Node, LookupRequest};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! // A cloud with `InstancesV2` in which worker-1 runs and everything else is unknown.
//! let cloud = ScriptedProvider::named("acme");
//! cloud.switch(Capability::InstancesV2, true).script(|script| {
//!     script.instance_metadata = Some(Answer::by(|node: &Node| match &*node.name {
//!         "worker-1" => Ok(Some(InstanceMetadata { provider_id: "acme://1".into(), ..Default::default() })),
//!         other => Err(Error::not_found(format!("no machine named {other:?}"))),
//!     }));
//! });
//!
//! let nodes = ["worker-1", "worker-2"].map(|name| Arc::new(Node { name: name.into(), ..Node::default() }));
//! let answers = cloud.instances().unwrap().lookup(&nodes, LookupRequest::METADATA).await;
//!
//! assert!(matches!(&answers[0], Ok(InstanceState::Present { metadata: Some(m), .. }) if m.provider_id == "acme://1"));
//! assert!(answers[1].as_ref().is_err_and(Error::is_not_found));
//! assert_eq!(cloud.calls(), ["instance_metadata", "instance_metadata"]);
//! assert!(cloud.violations().is_empty(), "{:?}", cloud.violations());
//! # }
//! ```

mod answer;
mod balancers;
mod cloud;
mod cluster;
mod machines;
mod routes;
mod script;
mod status;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

pub use answer::Answer;
pub use balancers::{BalancerAction, BalancerCall};
pub use cluster::{RecordedAnnotations, RecordedEvent, ScriptedCluster};
pub use script::Script;
pub use status::AnsweringStatus;

use crate::scripted::cloud::Cloud;
use crate::{CloudProvider, Clusters, Instances, LoadBalancers, Route, Routes, V1, V2};

/// A capability of a [`ScriptedProvider`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Machines through `InstancesV1` (on by default).
    Instances,
    /// Machines through `InstancesV2`; they take precedence over `InstancesV1` and its zones (off by default).
    InstancesV2,
    /// Zones for `InstancesV1` (on by default).
    Zones,
    /// Load balancers (on by default).
    LoadBalancers,
    /// Routes (on by default).
    Routes,
    /// Clusters (on by default).
    Clusters,
}

/// A provider that answers from a script. See the [module](self).
///
/// Machines are offered through the adapters for the Go interfaces, [`V2`] if [`Capability::InstancesV2`] is on, else
/// [`V1`], so that a test sees the calls that such a provider would see.
pub struct ScriptedProvider {
    name: Box<str>,
    cloud: Arc<Cloud>,
    v1: V1,
    v1_with_zones: V1,
    v2: V2<Arc<Cloud>>,
}

impl Default for ScriptedProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl ScriptedProvider {
    /// Returns a provider named `fake`.
    #[must_use]
    pub fn new() -> Self {
        Self::named("fake")
    }

    /// Returns a provider of this name, which is also the scheme of its provider IDs.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let cloud = Arc::new(Cloud::new());
        Self {
            name: name.into(),
            v1: V1::new(name, cloud.clone(), None),
            v1_with_zones: V1::new(name, cloud.clone(), Some(cloud.clone())),
            v2: V2(cloud.clone()),
            cloud,
        }
    }

    /// Switches a capability on or off, from now on.
    pub fn switch(&self, capability: Capability, on: bool) -> &Self {
        self.cloud.switch(capability, on);
        self
    }

    /// Changes the script, from now on.
    pub fn script(&self, change: impl FnOnce(&mut Script)) -> &Self {
        self.cloud.change(change);
        self
    }

    /// Delays every call by `delay`, in tokio's time, which a test can pause. The call is logged when it begins.
    pub fn delay(&self, delay: Duration) -> &Self {
        self.cloud.set_delay(delay);
        self
    }

    /// Sets the result of [`CloudProvider::has_cluster_id`]; `true` by default.
    pub fn set_has_cluster_id(&self, known: bool) -> &Self {
        self.cloud.set_cluster_id(known);
        self
    }

    /// Calls `hook` during every ensure and update of a load balancer, after the call was recorded and before it is
    /// answered. The call continues when the hook's future ends.
    pub fn on_balancer_call(
        &self,
        hook: impl Fn(BalancerCall) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> &Self {
        self.cloud.set_balancer_hook(Arc::new(hook));
        self
    }

    /// Adds a route to the cloud's routes for a cluster, under its own name.
    pub fn seed_route(&self, cluster: &str, route: Route) -> &Self {
        self.cloud.add_route(cluster, route);
        self
    }

    /// Returns all calls so far, in the order in which they began: the method's name, and the provider ID for a lookup
    /// by provider ID: `instance_id`, `node_addresses_by_provider_id(fake://12345)`.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.cloud.calls()
    }

    /// Clears the calls so far, including those of load balancers and routes; violations stay.
    pub fn clear_calls(&self) {
        self.cloud.clear_calls();
    }

    /// Returns all calls that create a load balancer, update it or change its targets, in order.
    #[must_use]
    pub fn balancer_calls(&self) -> Vec<BalancerCall> {
        self.cloud.balancer_calls()
    }

    /// Returns the arguments of all calls that create a route, in order: the hint and the route.
    #[must_use]
    pub fn created_routes(&self) -> Vec<(String, Route)> {
        self.cloud.created_routes()
    }

    /// Returns the arguments of all calls that delete a route, in order.
    #[must_use]
    pub fn deleted_routes(&self) -> Vec<Route> {
        self.cloud.deleted_routes()
    }

    /// Returns the calls to methods without a script. A test fails if there is one.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.cloud.violations()
    }

    /// Returns the adapter for `InstancesV1`, if it is on, even if `InstancesV2` hides it.
    #[must_use]
    pub fn v1(&self) -> Option<&V1> {
        match (
            self.cloud.is_on(Capability::Instances),
            self.cloud.is_on(Capability::Zones),
        ) {
            (false, _) => None,
            (true, false) => Some(&self.v1),
            (true, true) => Some(&self.v1_with_zones),
        }
    }
}

impl CloudProvider for ScriptedProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn has_cluster_id(&self) -> bool {
        self.cloud.has_cluster_id()
    }

    fn instances(&self) -> Option<&dyn Instances> {
        if self.cloud.is_on(Capability::InstancesV2) {
            return Some(&self.v2);
        }
        self.v1().map(|v1| v1 as &dyn Instances)
    }

    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.cloud
            .is_on(Capability::LoadBalancers)
            .then_some(&*self.cloud as &dyn LoadBalancers)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        self.cloud
            .is_on(Capability::Routes)
            .then_some(&*self.cloud as &dyn Routes)
    }

    fn clusters(&self) -> Option<&dyn Clusters> {
        self.cloud
            .is_on(Capability::Clusters)
            .then_some(&*self.cloud as &dyn Clusters)
    }
}
