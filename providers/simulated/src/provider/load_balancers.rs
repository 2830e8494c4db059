//! Load balancers: what a Service wants, what the cloud has, and the one request between them.

use cloud_provider::{
    Error, Goal, LoadBalancerIngress, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Plan, PlanAction,
    PlanStep, Result, async_trait, default_load_balancer_name,
};
use provider_kit::operation::{Polling, until_done};
use provider_kit::transport::Call;

use super::{IDS, ListPage, MARK_CLUSTER, Simulated};
use crate::cloud::{Listener, LoadBalancer, LoadBalancerSpec, LoadBalancerStatus as State};

const MARK_SERVICE: &str = "ccm-rs/service";

fn wanted(request: &LoadBalancerRequest<'_>) -> Result<LoadBalancerSpec> {
    let uid = request.service.metadata.uid.clone().unwrap_or_default();
    let ports = request.service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let number = |port: i32| u16::try_from(port).unwrap_or_default();
    let listeners = ports.iter().map(|port| Listener {
        port: number(port.port),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        target_port: number(port.node_port.unwrap_or_default()),
    });
    let ids = request.nodes.iter().filter_map(|node| node.provider_id()).map(|id| IDS.read(id).map(str::to_owned));
    let mark = Simulated::mark(request.cluster).to_owned();
    Ok(LoadBalancerSpec {
        name: default_load_balancer_name(request.service),
        labels: [(MARK_CLUSTER.to_owned(), mark), (MARK_SERVICE.to_owned(), uid)].into(),
        listeners: listeners.collect(),
        targets: ids.collect::<Result<_>>()?,
    })
}

fn plan(wanted: &LoadBalancerSpec, actual: Option<&LoadBalancer>) -> Plan {
    let counts = |it: &LoadBalancerSpec| format!("{} listeners, {} targets", it.listeners.len(), it.targets.len());
    let (action, detail) = match actual.map(|actual| &actual.spec) {
        Some(actual) if actual == wanted => return Plan::default(),
        Some(actual) => (PlanAction::Update, format!("{} → {}", counts(actual), counts(wanted))),
        None => (PlanAction::Create, counts(wanted)),
    };
    Plan { steps: vec![PlanStep { action, what: format!("load balancer {:?}", wanted.name), detail }] }
}

fn status(load_balancer: &LoadBalancer) -> LoadBalancerStatus {
    let ingress = |ip: &String| vec![LoadBalancerIngress { ip: Some(ip.clone()), ..Default::default() }];
    LoadBalancerStatus { ingress: load_balancer.ip.as_ref().map(ingress) }
}

impl Simulated {
    /// The load balancer of this Service's name: ours, or somebody else's as an error.
    async fn find(&self, request: &LoadBalancerRequest<'_>) -> Result<Result<Option<LoadBalancer>>> {
        let name = default_load_balancer_name(request.service);
        let call = Call::get("/v1/load-balancers", &[]).query("name", name);
        let mut page: ListPage<LoadBalancer> = self.http.read(call).await?;
        let Some(found) = page.items.pop() else { return Ok(Ok(None)) };
        let has = |label, value: &str| found.spec.labels.get(label).is_some_and(|mark| mark == value);
        let uid = request.service.metadata.uid.as_deref().unwrap_or_default();
        if has(MARK_CLUSTER, Self::mark(request.cluster)) && has(MARK_SERVICE, uid) {
            return Ok(Ok(Some(found)));
        }
        Ok(Err(Error::invalid(format!(
            "load balancer {:?} ({}) does not carry the marks of this cluster and service; rename or delete it",
            found.spec.name, found.id
        ))))
    }

    async fn until_active(&self, found: LoadBalancer) -> Result<LoadBalancer> {
        if found.status == State::Active {
            return Ok(found);
        }
        until_done(&format!("load balancer {:?}", found.spec.name), Polling::default(), async || {
            let now: LoadBalancer = self.http.read(Call::get("/v1/load-balancers/{id}", &[&found.id])).await?;
            Ok((now.status == State::Active).then_some(now))
        })
        .await
    }

    /// Replaces the spec. A change is refused while another one runs, so that one is awaited first.
    async fn replace(&self, actual: LoadBalancer, spec: &LoadBalancerSpec) -> Result<LoadBalancer> {
        let actual = self.until_active(actual).await?;
        self.http.read(Call::put("/v1/load-balancers/{id}", &[&actual.id]).json(spec)).await
    }
}

#[async_trait]
impl LoadBalancers for Simulated {
    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        Ok(self.find(&request).await?.ok().flatten().as_ref().map(status))
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let (wanted, actual) = (wanted(&request)?, self.find(&request).await??);
        let plan = plan(&wanted, actual.as_ref());
        if !plan.is_empty() {
            request.observer.planned(&plan);
        }
        let accepted = match actual {
            Some(actual) if plan.is_empty() => actual,
            Some(actual) => self.replace(actual, &wanted).await?,
            // Not repeated by itself: after a lost answer the next call finds it by its name and marks.
            None => self.http.read(Call::post("/v1/load-balancers", &[]).json(&wanted)).await?,
        };
        Ok(Some(status(&self.until_active(accepted).await?)))
    }

    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let wanted = wanted(&request)?;
        let missing = || Error::not_found(format!("there is no load balancer {:?}", wanted.name));
        let actual = self.find(&request).await??.ok_or_else(missing)?;
        let spec = LoadBalancerSpec { targets: wanted.targets, ..actual.spec.clone() };
        if spec != actual.spec {
            self.replace(actual, &spec).await?;
        }
        Ok(())
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let Ok(Some(found)) = self.find(&request).await? else { return Ok(()) };
        self.http.remove(Call::delete("/v1/load-balancers/{id}", &[&found.id])).await
    }

    fn has_plans(&self) -> bool {
        true
    }

    async fn plan(&self, request: LoadBalancerRequest<'_>, _goal: Goal) -> Result<Plan> {
        Ok(plan(&wanted(&request)?, self.find(&request).await??.as_ref()))
    }
}
