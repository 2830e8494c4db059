//! The state of a scripted provider: script, switches and log of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::scripted::balancers::BalancerHook;
use crate::scripted::routes::RouteTable;
use crate::scripted::{Answer, BalancerCall, Capability, Script};
use crate::{Error, Result, Route};

/// The cloud that a script describes. It implements all interfaces and capabilities; the provider chooses which of them
/// are offered.
pub(super) struct Cloud {
    state: Mutex<State>,
    switches: [AtomicBool; 6],
    cluster_id: AtomicBool,
}

/// The script and the records of calls.
#[derive(Default)]
pub(super) struct State {
    pub(super) script: Script,
    pub(super) routes: RouteTable,
    pub(super) balancer_hook: Option<BalancerHook>,
    pub(super) balancer_calls: Vec<BalancerCall>,
    pub(super) created_routes: Vec<(String, Route)>,
    pub(super) deleted_routes: Vec<Route>,
    delay: Duration,
    calls: Vec<String>,
    violations: Vec<String>,
}

impl Cloud {
    pub(super) fn new() -> Self {
        let cloud = Self {
            state: Mutex::default(),
            switches: Default::default(),
            cluster_id: AtomicBool::new(true),
        };
        use Capability::{Clusters, Instances, LoadBalancers, Routes, Zones};
        for capability in [Instances, Zones, LoadBalancers, Routes, Clusters] {
            cloud.switch(capability, true);
        }
        cloud
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn switch(&self, capability: Capability, on: bool) {
        self.switches[capability as usize].store(on, Ordering::SeqCst);
    }

    pub(super) fn is_on(&self, capability: Capability) -> bool {
        self.switches[capability as usize].load(Ordering::SeqCst)
    }

    pub(super) fn set_cluster_id(&self, known: bool) {
        self.cluster_id.store(known, Ordering::SeqCst);
    }

    pub(super) fn has_cluster_id(&self) -> bool {
        self.cluster_id.load(Ordering::SeqCst)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.state().script);
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    pub(super) fn set_balancer_hook(&self, hook: BalancerHook) {
        self.state().balancer_hook = Some(hook);
    }

    pub(super) fn add_route(&self, cluster: &str, route: Route) {
        self.state().routes.add(cluster, route);
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    pub(super) fn balancer_calls(&self) -> Vec<BalancerCall> {
        self.state().balancer_calls.clone()
    }

    pub(super) fn created_routes(&self) -> Vec<(String, Route)> {
        self.state().created_routes.clone()
    }

    pub(super) fn deleted_routes(&self) -> Vec<Route> {
        self.state().deleted_routes.clone()
    }

    pub(super) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    pub(super) fn clear_calls(&self) {
        let mut state = self.state();
        state.calls.clear();
        state.balancer_calls.clear();
        state.created_routes.clear();
        state.deleted_routes.clear();
    }

    /// Logs a call and waits for its delay.
    pub(super) async fn begin(&self, call: String) {
        let delay = {
            let mut state = self.state();
            state.calls.push(call);
            state.delay
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    /// Answers a call from the script at the end of the call; a call without an answer is a violation.
    pub(super) fn answer<A: ?Sized, T>(
        &self,
        method: &'static str,
        argument: &A,
        of: impl FnOnce(&Script) -> &Option<Answer<A, T>>,
    ) -> Result<T> {
        // The lock is not held while the answer is computed, because the answer may change the script.
        let scripted = of(&self.state().script).clone();
        match scripted {
            Some(answer) => answer.result_for(argument),
            None => {
                self.state().violations.push(format!(
                    "{method} was called, but the script has no answer for it"
                ));
                Err(Error::other(format!("{method} is not scripted")))
            }
        }
    }

    /// Answers a call whose argument the log does not show.
    pub(super) async fn ask<A: ?Sized + Sync, T>(
        &self,
        method: &'static str,
        argument: &A,
        of: impl FnOnce(&Script) -> &Option<Answer<A, T>> + Send,
    ) -> Result<T> {
        self.begin(method.to_owned()).await;
        self.answer(method, argument, of)
    }

    /// Answers a call about a provider ID, which the log shows.
    pub(super) async fn ask_by_id<T>(
        &self,
        method: &'static str,
        provider_id: &str,
        of: impl FnOnce(&Script) -> &Option<Answer<str, T>> + Send,
    ) -> Result<T> {
        self.begin(format!("{method}({provider_id})")).await;
        self.answer(method, provider_id, of)
    }

    pub(super) fn balancer_hook(&self) -> Option<BalancerHook> {
        self.state().balancer_hook.as_ref().map(Arc::clone)
    }
}
