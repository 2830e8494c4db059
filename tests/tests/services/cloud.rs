//! A cloud with nothing but load balancers, which watches how it is called.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    CloudProvider, Error, Goal, LoadBalancerIngress, LoadBalancerRequest, LoadBalancerStatus,
    LoadBalancers, Plan, PlanAction, PlanStep, Result, Service, async_trait,
};
use embedded_apiserver::ApiServer;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Finalizer of the service controller.
pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// The cloud. Clones share everything.
#[derive(Clone)]
pub(crate) struct LbCloud {
    api: ApiServer,
    has_plans: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Load balancers by UID of the Service.
    balancers: BTreeMap<String, Balancer>,
    behaviours: HashMap<(String, &'static str), Behaviour>,
    busy: BTreeSet<String>,
    calls: Vec<Call>,
    violations: Vec<String>,
    addresses: u8,
    /// Names of Services whose targets are Nodes with a label `in=yes`.
    selecting: BTreeSet<String>,
    /// Annotations that the provider sets on all Services.
    annotations: BTreeMap<&'static str, Option<String>>,
    /// The ID that every load balancer is reported with.
    id: Option<String>,
    /// If set, addresses are reported before the end of an ensure; with the status at that time.
    announces: bool,
    announced: Vec<serde_json::Value>,
}

/// A load balancer of the scripted cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balancer {
    pub(crate) ports: Vec<i32>,
    pub(crate) targets: Vec<String>,
    pub(crate) address: String,
}

/// A call, and when it began.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `ensure web`, `update web`, `get web`, `delete web`, `plan web`.
    pub(crate) what: String,
    pub(crate) at: Instant,
    /// If set, the call changed something.
    pub(crate) changed: bool,
}

/// Behaviour of a method for one Service, other than immediate success.
#[derive(Clone)]
pub(crate) enum Behaviour {
    Hangs,
    Panics,
    Takes(Duration),
    /// Takes this time like `Takes`, and reports the wait.
    Waits(Duration),
    Fails(Error),
}

/// Gives the Service free, also if the call is dropped.
struct Busy<'a>(&'a LbCloud, String);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state().busy.remove(&self.1);
    }
}

impl LbCloud {
    /// Creates a cloud for the Services of this API.
    pub(crate) fn new(api: &ApiServer) -> Self {
        Self {
            api: api.clone(),
            has_plans: true,
            state: Arc::default(),
        }
    }

    /// Disables previews of changes.
    pub(crate) fn without_plans(self) -> Self {
        Self {
            has_plans: false,
            ..self
        }
    }

    /// Sets the behaviour of `method` (`ensure`, `update`, `get`, `delete`, `plan`) for the Service of this name.
    pub(crate) fn behave(&self, service: &str, method: &'static str, behaviour: Behaviour) {
        self.state()
            .behaviours
            .insert((service.to_owned(), method), behaviour);
    }

    /// Restricts the targets of the Service of this name to Nodes with the label `in=yes`.
    pub(crate) fn select(&self, service: &str) {
        self.state().selecting.insert(service.to_owned());
    }

    /// Requests this annotation whenever a load balancer is ensured from now on, after success and failure alike.
    pub(crate) fn annotate(&self, key: &'static str, value: Option<&str>) {
        self.state()
            .annotations
            .insert(key, value.map(str::to_owned));
    }

    /// Reports every load balancer with this ID from now on.
    pub(crate) fn identify(&self, id: &str) {
        self.state().id = Some(id.to_owned());
    }

    /// Reports addresses before the end of each ensure from now on.
    pub(crate) fn announce(&self) {
        self.state().announces = true;
    }

    /// Returns the Services as they were right after the addresses were reported.
    pub(crate) fn announced(&self) -> Vec<serde_json::Value> {
        self.state().announced.clone()
    }

    /// Lets everything succeed at once from now on.
    pub(crate) fn heal(&self) {
        self.state().behaviours.clear();
    }

    /// Returns the load balancers by UID of their Service.
    pub(crate) fn balancers(&self) -> BTreeMap<String, Balancer> {
        self.state().balancers.clone()
    }

    /// Returns the only load balancer.
    pub(crate) fn only(&self) -> Balancer {
        let balancers = self.balancers();
        assert_eq!(balancers.len(), 1, "{balancers:?}");
        balancers.into_values().next().unwrap()
    }

    /// Changes all load balancers, as an operator in the cloud's console does.
    pub(crate) fn tamper(&self, change: impl Fn(&mut Balancer)) {
        self.state().balancers.values_mut().for_each(change);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Returns the number of calls whose name contains `what`, such as `ensure web`.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.state()
            .calls
            .iter()
            .filter(|call| call.what.contains(what))
            .count()
    }

    /// Calls that changed something.
    pub(crate) fn changes(&self) -> usize {
        self.state()
            .calls
            .iter()
            .filter(|call| call.changed)
            .count()
    }

    pub(crate) fn clear_calls(&self) {
        self.state().calls.clear();
    }

    /// Returns overlapping calls for one Service, and load balancers that were created without a finalizer.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }

    /// Removes violations with this text, which the controller could not prevent.
    pub(crate) fn forgive(&self, what: &str) {
        self.state()
            .violations
            .retain(|violation| !violation.contains(what));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn selects(&self, service: &Service) -> bool {
        self.state()
            .selecting
            .contains(service.metadata.name.as_deref().unwrap_or_default())
    }

    fn targets(&self, request: &LoadBalancerRequest<'_>) -> Vec<String> {
        let selects = self.selects(request.service);
        let selected = request
            .nodes
            .iter()
            .filter(|node| !selects || node.labels.get("in") == Some("yes"));
        selected
            .map(|node| format!("{}={}", node.name, node.provider_id))
            .collect()
    }

    async fn enter(
        &self,
        method: &'static str,
        request: &LoadBalancerRequest<'_>,
    ) -> Result<(Busy<'_>, usize)> {
        let LoadBalancerRequest {
            service, callbacks, ..
        } = *request;
        let name = text(&service.metadata.name);
        let uid = text(&service.metadata.uid);
        let (index, behaviour) = {
            let mut state = self.state();
            if !state.busy.insert(uid.clone()) {
                state
                    .violations
                    .push(format!("{method} {name} began during another call for it"));
            }
            state.calls.push(Call {
                what: format!("{method} {name}"),
                at: Instant::now(),
                changed: false,
            });
            (
                state.calls.len() - 1,
                state.behaviours.get(&(name, method)).cloned(),
            )
        };
        let busy = Busy(self, uid);
        match behaviour {
            None => tokio::task::yield_now().await,
            Some(Behaviour::Takes(time)) => tokio::time::sleep(time).await,
            Some(Behaviour::Waits(time)) => {
                callbacks.release_permit();
                tokio::time::sleep(time).await;
                callbacks.reacquire_permit().await;
            }
            Some(Behaviour::Hangs) => std::future::pending().await,
            Some(Behaviour::Panics) => panic!("a defect of the provider"),
            Some(Behaviour::Fails(error)) => return Err(error),
        }
        Ok((busy, index))
    }

    /// Checks INV-2: a Service needs the finalizer before its load balancer is created.
    fn check_finalizer(&self, service: &Service) {
        let namespace = text(&service.metadata.namespace);
        let name = text(&service.metadata.name);
        let object = self
            .api
            .get("services", Some(&namespace), &name)
            .unwrap_or_default();
        let held = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|all| all.iter().any(|object| object == FINALIZER));
        if !held {
            self.state().violations.push(format!(
                "{name} got a load balancer that no finalizer holds"
            ));
        }
    }

    fn noted_change(&self, index: usize) {
        if let Some(call) = self.state().calls.get_mut(index) {
            call.changed = true;
        }
    }
}

fn text(field: &Option<String>) -> String {
    field.clone().unwrap_or_default()
}

fn ports(service: &Service) -> Vec<i32> {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.ports.as_ref())
        .into_iter()
        .flatten()
        .map(|port| port.port)
        .collect()
}

fn plan(wanted: &Balancer, actual: Option<&Balancer>) -> Plan {
    let step = |action, what: &str, detail: String| PlanStep {
        action,
        what: what.to_owned(),
        detail,
    };
    let steps = match actual {
        None => vec![step(PlanAction::Create, "load balancer", String::new())],
        Some(actual) => {
            let mut steps = Vec::new();
            if actual.ports != wanted.ports {
                let detail = format!("{:?} → {:?}", actual.ports, wanted.ports);
                steps.push(step(PlanAction::Update, "ports", detail));
            }
            if actual.targets != wanted.targets {
                let detail = format!("{:?} → {:?}", actual.targets, wanted.targets);
                steps.push(step(PlanAction::Update, "targets", detail));
            }
            steps
        }
    };
    Plan {
        steps,
        ..Plan::default()
    }
}

impl CloudProvider for LbCloud {
    fn name(&self) -> &'static str {
        "lbs"
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }
}

#[async_trait]
impl LoadBalancers for LbCloud {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let _busy = self.enter("get", &request).await?;
        Ok(self
            .state()
            .balancers
            .get(&text(&request.service.metadata.uid))
            .map(|_| LoadBalancerStatus::default()))
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        self.check_finalizer(request.service);
        for (key, value) in self.state().annotations.clone() {
            request.callbacks.annotate(key, value);
        }
        let id = self.state().id.clone();
        id.iter()
            .for_each(|id| request.callbacks.set_load_balancer_id(id));
        let (_busy, index) = self.enter("ensure", &request).await?;
        let uid = text(&request.service.metadata.uid);
        let actual = self.state().balancers.get(&uid).cloned();
        let address = match &actual {
            Some(actual) => actual.address.clone(),
            None => {
                let mut state = self.state();
                state.addresses += 1;
                format!("192.0.2.{}", state.addresses)
            }
        };
        let wanted = Balancer {
            ports: ports(request.service),
            targets: self.targets(&request),
            address,
        };
        let plan = plan(&wanted, actual.as_ref());
        request.callbacks.on_plan(&plan);
        if !plan.is_empty() {
            self.noted_change(index);
        }
        let ip = Some(wanted.address.clone());
        self.state().balancers.insert(uid, wanted);
        let status = LoadBalancerStatus {
            ingress: Some(vec![LoadBalancerIngress {
                ip,
                ..Default::default()
            }]),
        };
        if self.state().announces {
            request.callbacks.publish(&status).await?;
            let metadata = &request.service.metadata;
            let shown = self.api.get(
                "services",
                metadata.namespace.as_deref(),
                &text(&metadata.name),
            );
            self.state().announced.extend(shown);
            // The remaining work takes long enough for the watch to report the writes.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(Some(status))
    }

    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let (_busy, index) = self.enter("update", &request).await?;
        let uid = text(&request.service.metadata.uid);
        let targets = self.targets(&request);
        let mut state = self.state();
        let balancer = state
            .balancers
            .get_mut(&uid)
            .ok_or_else(|| Error::not_found("there is no load balancer"))?;
        let before = balancer.clone();
        balancer.targets = targets;
        let plan = plan(balancer, Some(&before));
        drop(state);
        request.callbacks.on_plan(&plan);
        if !plan.is_empty() {
            self.noted_change(index);
        }
        Ok(())
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let (_busy, index) = self.enter("delete", &request).await?;
        if self
            .state()
            .balancers
            .remove(&text(&request.service.metadata.uid))
            .is_some()
        {
            self.noted_change(index);
        }
        Ok(())
    }

    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.selects(service)
    }

    fn has_plans(&self) -> bool {
        self.has_plans
    }

    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        assert_eq!(goal, Goal::Ensured);
        let _busy = self.enter("plan", &request).await?;
        let actual = self
            .state()
            .balancers
            .get(&text(&request.service.metadata.uid))
            .cloned();
        let address = actual
            .as_ref()
            .map(|actual| actual.address.clone())
            .unwrap_or_default();
        let wanted = Balancer {
            ports: ports(request.service),
            targets: self.targets(&request),
            address,
        };
        Ok(plan(&wanted, actual.as_ref()))
    }
}
