//! Changes of a load balancer: the order of requests, and the handling of answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Identity, ObservedLoadBalancer, Operation, OwnerTags, Port,
    ResourceGraph, ResourceKey, State, check_account,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::annotations::LoadBalancerSpec;
use super::object::{LbConfig, LoadBalancerService, POOL, PortRule, stickiness};
use super::{BALANCER, Shared, with_ports};
use crate::api::Links;

/// Name and external ID of the stack of all load balancers.
const STACK: (&str, &str) = ("kubernetes-loadbalancers", "kubernetes-loadbalancers://");
/// The setting with the image of load balancers.
const IMAGE: &str = "lb.instance.image";
/// Age of the cached stack and image.
const AGE: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Setting {
    name: String,
    value: Option<String>,
}

impl Shared {
    pub(super) async fn carry_out(
        &self,
        change: Change<'_>,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let Some(actual) = change.actual else {
            return self.create(change).await;
        };
        let Some(balancer) = self.by_id(&actual.id).await? else {
            self.finish_deletion(change.identity).await?;
            return Ok(Applied::Gone);
        };
        if change
            .operations
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer))
        {
            return self.remove(change, &balancer).await;
        }
        self.update(change, balancer, spec).await
    }

    /// Creates a load balancer with its rules. Links need another request, which is accepted when Rancher has
    /// registered the load balancer.
    async fn create(&self, change: Change<'_>) -> Result<Applied> {
        self.check_environment().await?;
        let identity = change.identity;
        let graph = change
            .outcome_of_all()
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let cluster = OwnerTags::cluster(identity.cluster);
        // The image first: without it, nothing is created.
        let (image, _) = self.image.get(AGE, || self.read_image()).await?;
        let (stack, _) = self.stack.get(AGE, || self.find_stack()).await?;
        let (ids, _claim) = self
            .backends
            .ensure(&graph.targets_of(POOL), &self.names(), &stack, cluster)
            .await?;
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let ports = settings.get("ports").cloned().unwrap_or_default();
        let mut body = json!({
            "name": identity.name, "stackId": *stack, "metadata": tagged(None, &identity.owner_tags()),
            "launchConfig": {"ports": ports, "imageUuid": format!("docker:{image}")},
            "lbConfig": configured(LbConfig::default(), &graph, &ids),
        });
        if let Some(scale) = settings.get("scale") {
            body.as_object_mut()
                .into_iter()
                .for_each(|body| drop(body.insert("scale".to_owned(), scale.clone())));
        }
        let created: LoadBalancerService = self.source.api.create(BALANCER, &body).await?;
        Ok(Applied::PlanAgain(Box::new(self.observed(&created)?)))
    }

    /// Checks that the API key is for the environment of the Nodes: a load balancer in another one would not be found
    /// again.
    async fn check_environment(&self) -> Result<()> {
        let nodes = self.cluster.nodes().unwrap_or_default();
        if nodes.is_empty() {
            return Err(Error::other(
                "no nodes available: a load balancer is created when the cluster has a Node",
            ));
        }
        check_account(
            &self.source,
            nodes,
            "set CATTLE_ACCESS_KEY to a key of the environment that has them",
        )
        .await
    }

    async fn find_stack(&self) -> Result<String> {
        let (api, (name, external_id)) = (&self.source.api, STACK);
        let filters = [
            ("name", name),
            ("externalId", external_id),
            ("removed_null", "1"),
        ];
        let find = async || {
            api.all("stack", &filters, |resource: &Links| {
                resource.id().to_owned()
            })
            .await
        };
        if let Some(found) = find().await?.first() {
            return Ok(found.id().to_owned());
        }
        let created: Result<Links> = api
            .create("stack", &json!({"name": name, "externalId": external_id}))
            .await;
        match created {
            Err(error) if error.is_conflict() => find()
                .await?
                .first()
                .map(|resource| resource.id().to_owned())
                .ok_or(error),
            created => Ok(created?.id().to_owned()),
        }
    }

    async fn read_image(&self) -> Result<String> {
        let settings = self
            .source
            .api
            .all("setting", &[("name", IMAGE)], |setting: &Setting| {
                setting.name.clone()
            })
            .await?;
        let image = settings
            .into_iter()
            .find(|setting| setting.name.eq_ignore_ascii_case(IMAGE))
            .and_then(|setting| setting.value);
        image.filter(|image| !image.is_empty()).ok_or_else(|| {
            Error::invalid(format!(
                "the setting {IMAGE} of Rancher is empty: set it to the image of load balancers"
            ))
        })
    }

    /// Changes a load balancer: an unfinished upgrade first, then other published ports, which need an upgrade, then
    /// everything else. Rancher upgrades only an active load balancer, so one that never started is activated before.
    async fn update(
        &self,
        change: Change<'_>,
        balancer: LoadBalancerService,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let identity = change.identity;
        let api = &self.source.api;
        if !balancer.accepts_changes() {
            return Ok(Applied::PlanAgain(Box::new(self.observed(&balancer)?)));
        }
        let Some(outcome) = change.outcome_of_all() else {
            return Ok(Applied::Gone);
        };
        let mut graph = outcome.graph.clone().unwrap_or_default();
        // A load balancer without backends has no ports, so its first backends come without ports.
        let lacks_ports = graph.listeners().next().is_none() && !graph.targets_of(POOL).is_empty();
        if lacks_ports {
            graph = with_ports(graph, spec);
        }
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let changes: Vec<_> = change
            .operations
            .iter()
            .flat_map(Operation::changes)
            .map(|difference| &*difference.key)
            .collect();
        // Only what the action changes: everything else is planned again.
        let busy = |set: &dyn Fn(Attributes) -> Attributes| -> Result<Applied> {
            let mut now = ObservedLoadBalancer {
                state: State::Busy,
                ..self.observed(&balancer)?
            };
            let existing_balancer = now
                .graph
                .as_ref()
                .and_then(ResourceGraph::balancer_attributes)
                .cloned()
                .unwrap_or_default();
            now.graph = now
                .graph
                .map(|graph| graph.balancer(set(existing_balancer)));
            Ok(Applied::PlanAgain(Box::new(now)))
        };
        if changes.contains(&"upgraded") {
            api.act(&balancer.resource, "finishupgrade", &Value::Null)
                .await?;
            return busy(&|upgrade| upgrade.set("upgraded", false));
        }
        if changes.contains(&"active") && changes.contains(&"ports") {
            api.act(&balancer.resource, "activate", &Value::Null)
                .await?;
            return busy(&|activation| activation.set("active", true));
        }
        if changes.contains(&"ports") {
            let ports = settings.get("ports").cloned().unwrap_or_default();
            let config = balancer.launch_config_with(&ports);
            let strategy = json!({"launchConfig": config, "batchSize": 1, "intervalMillis": 2000});
            api.act(
                &balancer.resource,
                "upgrade",
                &json!({"inServiceStrategy": strategy}),
            )
            .await?;
            return busy(&|upgrade| upgrade.set("upgraded", true).set("ports", &ports));
        }
        let (stack, _) = self.stack.get(AGE, || self.find_stack()).await?;
        let cluster = OwnerTags::cluster(identity.cluster);
        let (ids, claim) = self
            .backends
            .ensure(&graph.targets_of(POOL), &self.names(), &stack, cluster)
            .await?;
        let kept: BTreeSet<String> = ids.values().cloned().collect();
        let removed: BTreeSet<String> = balancer
            .services()
            .filter(|id| !kept.contains(*id))
            .cloned()
            .collect();
        if !removed.is_empty() {
            self.release(cluster, &removed, &balancer, &kept).await;
        }
        let linked: Option<BTreeSet<String>> = balancer
            .linked_services
            .as_ref()
            .map(|all| all.values().cloned().collect());
        if linked.as_ref() != Some(&kept) {
            let links: Vec<_> = kept.iter().map(|id| json!({"serviceId": id})).collect();
            api.act(
                &balancer.resource,
                "setservicelinks",
                &json!({"serviceLinks": links}),
            )
            .await?;
        }
        drop(claim);
        let mut body = Map::new();
        let touches = |operation: &Operation| {
            operation.targets_of().is_some()
                || matches!(operation.resource(), Some(ResourceKey::Listener(_)))
        };
        if change.operations.iter().any(touches)
            || ["certificates", "cookie"]
                .iter()
                .any(|key| changes.contains(key))
        {
            let config = balancer.lb_config.unwrap_or_default();
            body.insert("lbConfig".to_owned(), configured(config, &graph, &ids));
        }
        if changes.contains(&"scale") {
            body.insert(
                "scale".to_owned(),
                settings.get("scale").cloned().unwrap_or_default(),
            );
        }
        if change
            .operations
            .iter()
            .any(|operation| matches!(operation, Operation::Tag | Operation::Untag))
        {
            body.insert(
                "metadata".to_owned(),
                tagged(balancer.metadata, &outcome.owner_tags),
            );
        }
        if !body.is_empty() {
            api.update(&balancer.resource, &body.into()).await?;
        }
        if changes.contains(&"active") {
            api.act(&balancer.resource, "activate", &Value::Null)
                .await?;
        }
        if lacks_ports {
            let written = ObservedLoadBalancer {
                state: State::Busy,
                graph: Some(graph),
                ..outcome
            };
            return Ok(Applied::PlanAgain(Box::new(written)));
        }
        Ok(Applied::Begun(change.operations.len()))
    }

    /// Deletes a load balancer, then its backends, unless another load balancer uses them: one whose deletion Rancher
    /// refuses goes on working. A load balancer that is being removed still shows its backends.
    async fn remove(&self, change: Change<'_>, balancer: &LoadBalancerService) -> Result<Applied> {
        let cluster = OwnerTags::cluster(change.identity.cluster);
        if balancer.state != "removing" {
            balancer.resource.check_action("remove")?;
        }
        let is_there = self.source.api.delete(&balancer.resource).await?;
        let consumed: BTreeSet<_> = balancer.services().cloned().collect();
        self.pending
            .lock()
            .insert(change.identity.uid().to_owned(), consumed.clone());
        let outcome = self
            .backends
            .release(cluster, &consumed, Some(balancer), &BTreeSet::new())
            .await;
        self.note_released(change.identity, outcome).await?;
        if !is_there {
            return Ok(Applied::Gone);
        }
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
            state: State::Busy,
            ..self.observed(balancer)?
        })))
    }

    /// Deletes the backends of a load balancer that was deleted, if that is still to be done.
    pub(super) async fn finish_deletion(&self, identity: &Identity<'_>) -> Result<()> {
        let pending = self.pending.lock().get(identity.uid()).cloned();
        let Some(consumed) = pending else {
            return Ok(());
        };
        let cluster = OwnerTags::cluster(identity.cluster);
        let outcome = self
            .backends
            .release(cluster, &consumed, None, &BTreeSet::new())
            .await;
        self.note_released(identity, outcome).await
    }

    /// Notes that the backends of a deleted load balancer were deleted. If the environment showed none of them, or
    /// refused, the API key may have become another environment's meanwhile.
    ///
    /// # Errors
    /// *Invalid* if the environment has none of the Nodes: the deletion goes on later.
    async fn note_released(&self, identity: &Identity<'_>, outcome: Result<bool>) -> Result<()> {
        if !matches!(outcome, Ok(true)) && !self.cluster.nodes().unwrap_or_default().is_empty() {
            self.check_environment().await?;
        }
        if let Err(error) = outcome {
            tracing::warn!(%error, "unused external services of a deleted load balancer are not deleted yet");
            self.leftovers.notify_one();
        }
        self.pending.lock().remove(identity.uid());
        Ok(())
    }

    /// Deletes backends that a load balancer no longer uses. What Rancher refuses is tried again by the sweeper, and keeps
    /// no load balancer from being changed or deleted.
    async fn release(
        &self,
        cluster: &str,
        consumed: &BTreeSet<String>,
        balancer: &LoadBalancerService,
        kept: &BTreeSet<String>,
    ) {
        if let Err(error) = self
            .backends
            .release(cluster, consumed, Some(balancer), kept)
            .await
        {
            let id = balancer.resource.id();
            tracing::warn!(%error, "unused external services of load balancer {id} are not deleted yet");
            self.leftovers.notify_one();
        }
    }
}

/// Returns the metadata of a service with these owner tags instead of its own; the rest stays.
fn tagged(metadata: Option<Map<String, Value>>, owner: &OwnerTags) -> Value {
    let mut all = metadata.unwrap_or_default();
    for (key, value) in [
        (OwnerTags::CLUSTER, &owner.cluster),
        (OwnerTags::SERVICE, &owner.service),
    ] {
        match value {
            Some(value) => all.insert(key.to_owned(), value.as_str().into()),
            None => all.remove(key),
        };
    }
    all.into()
}

/// Returns the configuration with the rules of all ports and backends; settings that no annotation sets stay.
fn configured(
    mut config: LbConfig,
    graph: &ResourceGraph,
    ids: &BTreeMap<String, String>,
) -> Value {
    let rule = |(port, settings): (&Port, &Attributes), id: &String| PortRule {
        source_port: Some(port.number),
        target_port: settings.number("node_port"),
        service_id: Some(id.clone()),
        protocol: settings.text("protocol").map(str::to_owned),
    };
    let rules = ids
        .values()
        .flat_map(|id| graph.listeners().map(move |listener| rule(listener, id)));
    config.port_rules = Some(rules.collect());
    let settings = graph.balancer_attributes().cloned().unwrap_or_default();
    if let Some(ids) = settings
        .get("certificates")
        .and_then(Value::as_array)
        .filter(|ids| !ids.is_empty())
    {
        config.certificate_ids = serde_json::from_value(ids.clone().into()).ok();
        config
            .others
            .insert("defaultCertificateId".to_owned(), ids[0].clone());
    }
    if let Some(cookie) = settings.text("cookie") {
        config.stickiness_policy = Some(stickiness(cookie));
    }
    json!(config)
}
