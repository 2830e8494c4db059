//! Planned changes of Services: finalizer, load balancer, status and condition.

use std::sync::Arc;

use cloud_provider::names::{
    CONDITION_LOAD_BALANCER_READY, FINALIZER_LOAD_BALANCER, SERVICE_CONTROLLER,
};
use cloud_provider::{
    CloudProvider, Cluster, Error, Goal, LoadBalancerIngress, LoadBalancerRequest,
    LoadBalancerStatus, LoadBalancers, Node, Plan, PlanAction, PlanStep, Result, Service,
};
use controllers::service::patch;
use controllers::service::targets::TargetSet;
use controllers::service::wants::{Operation, is_foreign};
use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::report::{Kind, ObjectPlan, Report};
use crate::commands::ask;
use crate::commands::orphans::{advice, orphans_among};
use crate::controller_set::Settings;

/// Note for a Service whose load balancer another controller manages.
pub(crate) const RUN_ELSEWHERE: &str = "another controller runs its load balancer";
/// Maximum number of Services that are looked up in the cloud at the same time.
const AT_A_TIME: usize = 16;

/// Plans for all Services. `nodes` are the Nodes after their own plan.
pub(super) async fn plan(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    nodes: &[Arc<Node>],
    services: &[Arc<Service>],
    report: &mut Report,
) {
    let Some(balancers) = provider
        .load_balancers()
        .filter(|_| settings.wants(SERVICE_CONTROLLER))
    else {
        return;
    };
    report.looked_at.insert(Kind::Service, services.len());
    let options = &settings.options.service;
    let ours: Vec<_> = services
        .iter()
        .filter_map(|service| Some((service, Operation::at_start(service, options)?)))
        .collect();
    if !ours.is_empty() && !balancers.has_plans() {
        let name = provider.name();
        report.notes.push(format!(
            "cloud provider {name:?} does not support plans: changes of existing load balancers are not shown"
        ));
    }
    let targets = TargetSet::eligible(nodes);
    let cloud = Cloud {
        name: provider.name(),
        balancers,
        cluster,
        nodes: &targets.nodes,
    };
    let plans = stream::iter(ours)
        .map(|(service, operation)| async move {
            let mut plan = ObjectPlan::default();
            let is_foreign = is_foreign(service, options);
            if let Err(error) = of_one(cloud, service, operation, is_foreign, &mut plan).await {
                plan.errors.push(error.to_string());
            }
            (service, plan)
        })
        .buffered(AT_A_TIME);
    for (service, plan) in plans.collect::<Vec<_>>().await {
        let namespace = service.metadata.namespace.as_deref();
        let name = service.metadata.name.as_deref();
        report.add(
            Kind::Service,
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
            plan,
        );
    }
}

/// Returns `true` if the steps create a load balancer in place of one that is gone. A load balancer that is replaced is
/// deleted, too.
pub(crate) fn restores_balancer<'a>(steps: impl IntoIterator<Item = &'a PlanStep>) -> bool {
    let mut creates = false;
    let mut deletes = false;
    for step in steps
        .into_iter()
        .filter(|step| step.what.starts_with("load balancer"))
    {
        creates |= step.action == PlanAction::Create;
        deletes |= step.action == PlanAction::Delete;
    }
    creates && !deletes
}

/// Load balancers in the cloud that are not as the Services that show an address need them.
#[derive(Default)]
pub(crate) struct Irregularities {
    /// Services whose load balancer the cloud does not have.
    pub(crate) missing: Vec<Arc<Service>>,
    /// Notes of the plan, such as about a second load balancer that stays, with their Services.
    pub(crate) notes: Vec<(Arc<Service>, String)>,
}

/// Returns what is wrong in the cloud with the load balancers of Services that show an address. The provider must have
/// the caches.
///
/// # Errors
/// The cloud's error if it does not answer, or refuses the credential.
pub(crate) async fn irregular_balancers(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    nodes: &[Arc<Node>],
    services: &[Arc<Service>],
) -> Result<Irregularities> {
    let mut irregular = Irregularities::default();
    let Some(balancers) = provider.load_balancers() else {
        return Ok(irregular);
    };
    let targets = TargetSet::eligible(nodes);
    let cloud = Cloud {
        name: provider.name(),
        balancers,
        cluster,
        nodes: &targets.nodes,
    };
    let options = &settings.options.service;
    let has_one = |service: &&Arc<Service>| {
        Operation::at_start(service, options) == Some(Operation::Ensure) && has_ingress(service)
    };
    let found: Vec<_> = stream::iter(services.iter().filter(has_one))
        .map(|service| async move { (service, cloud.changes(service, Goal::Ensured).await) })
        .buffered(AT_A_TIME)
        .collect()
        .await;
    for (service, plan) in found {
        match plan {
            Ok(plan) => {
                irregular
                    .missing
                    .extend(restores_balancer(&plan.steps).then(|| Arc::clone(service)));
                irregular.notes.extend(
                    plan.notes
                        .into_iter()
                        .map(|note| (Arc::clone(service), note)),
                );
            }
            Err(error) if error.is_unanswered() || error.chain().any(Error::is_unauthorized) => {
                return Err(error);
            }
            // A mistake of one Service is reported with its condition.
            Err(_) => {}
        }
    }
    Ok(irregular)
}

/// Adds notes about load balancers whose Service is not among these.
pub(super) fn note_orphans(
    settings: &Settings,
    provider: &dyn CloudProvider,
    cluster: &Cluster,
    services: &[Arc<Service>],
    report: &mut Report,
) {
    if !settings.wants(SERVICE_CONTROLLER) {
        return;
    }
    // If the Services could not be listed, every load balancer would seem to be an orphan.
    let orphans = if services.is_empty() {
        None
    } else {
        orphans_among(provider, cluster, services)
    };
    report.notes.extend(
        orphans
            .unwrap_or_default()
            .iter()
            .map(|orphan| advice(orphan)),
    );
}

async fn of_one(
    cloud: Cloud<'_>,
    service: &Service,
    operation: Operation,
    is_foreign: bool,
    plan: &mut ObjectPlan,
) -> Result<()> {
    match operation {
        Operation::Ensure => ensure(cloud, service, plan).await,
        Operation::TearDown => tear_down(cloud, service, is_foreign, plan).await,
        Operation::Abandon => {
            let name = cloud.balancers.name(cloud.cluster, service);
            plan.notes.push(format!(
                "load balancer {name:?} stays in the cloud, as its annotation asks"
            ));
            let_go(service, plan);
            Ok(())
        }
        Operation::Nothing => {
            plan.notes.push(
                "it is being deleted and lacks the finalizer, so no load balancer is created"
                    .to_owned(),
            );
            Ok(())
        }
    }
}

/// Plans the creation or update of a load balancer (SVC-50 … SVC-53).
async fn ensure(cloud: Cloud<'_>, service: &Service, plan: &mut ObjectPlan) -> Result<()> {
    if patch::add_finalizer(service).is_some() {
        plan.kubernetes(
            PlanAction::Create,
            format!("finalizer {FINALIZER_LOAD_BALANCER}"),
            "",
        );
    }
    if cloud.nodes.is_empty() {
        plan.notes
            .push("no Node is available for its load balancer".to_owned());
    }
    let Plan { steps, notes } = match cloud.changes(service, Goal::Ensured).await {
        Err(error) if error.is_implemented_elsewhere() => {
            plan.notes.push(RUN_ELSEWHERE.to_owned());
            return Ok(());
        }
        answer => answer?,
    };
    plan.notes.extend(notes);
    // A load balancer that is about to be created has no address yet.
    let is_new = !steps.is_empty() && !has_ingress(service);
    steps.into_iter().for_each(|step| plan.cloud(step));
    let ingress = if is_new {
        Vec::new()
    } else {
        cloud.ingress(service).await?
    };
    if ingress.is_empty() {
        let action = if has_ingress(service) {
            PlanAction::Update
        } else {
            PlanAction::Create
        };
        plan.kubernetes(
            action,
            "status.loadBalancer",
            "the address that the cloud gives",
        );
    } else {
        status(service, &ingress, plan);
    }
    if condition(service).is_some_and(|condition| condition.status != "True") {
        plan.kubernetes(
            PlanAction::Update,
            format!("condition {CONDITION_LOAD_BALANCER_READY}"),
            "True",
        );
    }
    Ok(())
}

/// Plans the deletion of a load balancer (SVC-42 … SVC-48).
async fn tear_down(
    cloud: Cloud<'_>,
    service: &Service,
    is_foreign: bool,
    plan: &mut ObjectPlan,
) -> Result<()> {
    let Plan { steps, notes } = cloud.changes(service, Goal::Deleted).await?;
    plan.notes.extend(notes);
    if is_foreign && steps.is_empty() {
        plan.notes
            .push("its load balancer is another controller's, and so is its finalizer".to_owned());
        return Ok(());
    }
    steps.into_iter().for_each(|step| plan.cloud(step));
    let_go(service, plan);
    status(service, &[], plan);
    Ok(())
}

fn let_go(service: &Service, plan: &mut ObjectPlan) {
    if patch::remove_finalizer(service).is_some() {
        plan.kubernetes(
            PlanAction::Delete,
            format!("finalizer {FINALIZER_LOAD_BALANCER}"),
            "",
        );
    }
    if service.metadata.deletion_timestamp.is_none() && condition(service).is_some() {
        plan.kubernetes(
            PlanAction::Delete,
            format!("condition {CONDITION_LOAD_BALANCER_READY}"),
            "",
        );
    }
}

/// Plans the update of the load balancer status (SVC-55).
fn status(service: &Service, wanted: &[LoadBalancerIngress], plan: &mut ObjectPlan) {
    if patch::set_ingress(service, wanted).is_none() {
        return;
    }
    let action = match (has_ingress(service), wanted.is_empty()) {
        (false, _) => PlanAction::Create,
        (true, true) => PlanAction::Delete,
        (true, false) => PlanAction::Update,
    };
    let texts: Vec<&str> = wanted
        .iter()
        .filter_map(|entry| entry.ip.as_deref().or(entry.hostname.as_deref()))
        .collect();
    plan.kubernetes(action, "status.loadBalancer", texts.join(" "));
}

fn has_ingress(service: &Service) -> bool {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    status
        .and_then(|status| status.ingress.as_deref())
        .is_some_and(|ingress| !ingress.is_empty())
}

/// Returns the manager's own condition, which explains why a load balancer is pending or has failed (D-3).
fn condition(service: &Service) -> Option<&Condition> {
    let conditions = service
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition.type_ == CONDITION_LOAD_BALANCER_READY)
}

/// The cloud, for reads only.
#[derive(Clone, Copy)]
struct Cloud<'a> {
    name: &'a str,
    balancers: &'a dyn LoadBalancers,
    cluster: &'a Cluster,
    nodes: &'a [Arc<Node>],
}

impl Cloud<'_> {
    /// Returns the changes of the load balancer. For a provider without plans, only creation and deletion are known.
    async fn changes(self, service: &Service, goal: Goal) -> Result<Plan> {
        if self.balancers.has_plans() {
            let request = self.request(
                service,
                if goal == Goal::Ensured {
                    self.nodes
                } else {
                    &[]
                },
            );
            return ask(self.name, self.balancers.plan(request, goal)).await;
        }
        let action = match (goal, self.get(service).await?) {
            (Goal::Ensured, None) => PlanAction::Create,
            (Goal::Deleted, Some(_)) => PlanAction::Delete,
            (Goal::Ensured, Some(_)) | (Goal::Deleted, None) => return Ok(Plan::default()),
        };
        let what = format!(
            "load balancer {:?}",
            self.balancers.name(self.cluster, service)
        );
        Ok(Plan {
            steps: vec![PlanStep {
                action,
                what,
                detail: String::new(),
            }],
            ..Plan::default()
        })
    }

    /// Returns the addresses of the load balancer; none if the load balancer does not exist.
    async fn ingress(self, service: &Service) -> Result<Vec<LoadBalancerIngress>> {
        Ok(self
            .get(service)
            .await?
            .and_then(|status| status.ingress)
            .unwrap_or_default())
    }

    async fn get(self, service: &Service) -> Result<Option<LoadBalancerStatus>> {
        ask(self.name, self.balancers.get(self.request(service, &[]))).await
    }

    fn request<'b>(
        &'b self,
        service: &'b Service,
        nodes: &'b [Arc<Node>],
    ) -> LoadBalancerRequest<'b> {
        LoadBalancerRequest {
            cluster: self.cluster,
            service,
            nodes,
            callbacks: &(),
        }
    }
}
