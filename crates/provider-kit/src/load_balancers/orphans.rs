//! Load balancers with owner tags of the cluster, and the deletion of those whose Service no longer exists.
//!
//! An orphan is deleted by the sync that deletes a Service's load balancer, for a Service that is made up from the
//! owner tags. No load balancer is searched by name: the orphan is read by its ID, and deleted if it still carries the
//! owner tags that were listed.

use std::sync::Arc;

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use cloud_provider::{
    Cluster, Error, LoadBalancerRequest, OwnedResource, Owner, RemovalOutcome, Result, Service,
};
use serde_json::{Value, json};

use super::Naming;
use super::balancers::LoadBalancerEngine;
use super::model::{ObservedLoadBalancer, OwnerTags, ResourceGraph, ResourceKey};
use super::ownership::{Identity, OwnershipResult, full_name};
use super::run::Run;
use super::sync_goal::SyncGoal;

impl LoadBalancerEngine {
    pub(super) async fn all_owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        let all = self.cache.read_all().await?;
        Ok(all
            .iter()
            .filter_map(|actual| self.resource(cluster, actual, &[]))
            .collect())
    }

    pub(super) async fn read_one_owned(
        &self,
        cluster: &Cluster,
        id: &str,
        services: &[Arc<Service>],
    ) -> Result<Option<OwnedResource>> {
        let read = self.cache.read(id).await?;
        Ok(read.and_then(|actual| self.resource(cluster, &actual, services)))
    }

    /// Deletes the load balancer of a Service that no longer exists.
    pub(super) async fn delete_orphan(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
        services: &[Arc<Service>],
    ) -> Result<RemovalOutcome> {
        let left_alone = |why: String| {
            Err(Error::invalid(format!(
                "{resource} {why}; it is left alone"
            )))
        };
        let Owner::Service(uid) = &resource.owner else {
            return left_alone("carries the owner tags of no Service".to_owned());
        };
        if cluster.id.as_ref() != Some(&resource.cluster) {
            return left_alone("carries the owner tags of another cluster".to_owned());
        }
        let Some(actual) = self.cache.read(&resource.id).await? else {
            return Ok(RemovalOutcome::NotFound);
        };
        if let Some(adopting_service) = self.adopting_service(cluster, services, &actual) {
            return left_alone(format!("may be adopted by Service {adopting_service}"));
        }
        let service = former_service(uid, self.cloud().owner_name(&actual))?;
        let naming = Naming {
            name: actual.name.clone(),
            former_names: Vec::new(),
            legacy_owner: actual.legacy_owner.clone(),
            requested_id: None,
            ..self.cloud().naming(cluster, &service)
        };
        let identity = Identity::new(cluster, &service, naming);
        check_owner(&actual, &identity)?;
        let request = LoadBalancerRequest {
            cluster,
            service: &service,
            nodes: &[],
            callbacks: &(),
        };
        Run {
            balancers: self,
            request: &request,
            identity: &identity,
            held: None,
            only: Some(&actual),
        }
        .sync(SyncGoal::Deleted)
        .await?;
        match self.cache.read(&resource.id).await? {
            None => Ok(RemovalOutcome::Deleted),
            Some(left) if left.owner_tags != identity.owner_tags() => Ok(RemovalOutcome::Released),
            Some(left) => Err(Error::protected(format!(
                "{} is still there: it is protected from deletion; lift the protection and try again",
                left.place()
            ))),
        }
    }

    /// Reads the load balancer of this ID, if it has the owner tags of this Service.
    pub(super) async fn orphan(
        &self,
        id: &str,
        identity: &Identity<'_>,
    ) -> Result<OwnershipResult> {
        let read = self.cache.read(id).await?;
        read.iter()
            .try_for_each(|actual| check_owner(actual, identity))?;
        Ok(OwnershipResult::of(read))
    }

    /// Returns a load balancer as a resource of the cluster; `None` if its owner tags do not name the cluster.
    fn resource(
        &self,
        cluster: &Cluster,
        actual: &ObservedLoadBalancer,
        services: &[Arc<Service>],
    ) -> Option<OwnedResource> {
        let OwnerTags {
            cluster: tag,
            service,
        } = actual.owner_tags.clone();
        let tag = tag.filter(|tag| Some(tag) == cluster.id.as_ref() || *tag == cluster.name)?;
        let owner_name = self.cloud().owner_name(actual);
        Some(OwnedResource {
            kind: "load balancer",
            id: actual.id.clone(),
            name: actual.name.clone(),
            cloud_name_and_id: actual.cloud_name_and_id.clone(),
            cluster: tag,
            owner: service.map_or(Owner::Unnamed, Owner::Service),
            owner_name: owner_name.map(|(namespace, name)| format!("{namespace}/{name}")),
            created: actual.created,
            addresses: actual
                .ingress
                .iter()
                .filter_map(|ingress| ingress.ip.clone().or_else(|| ingress.hostname.clone()))
                .collect(),
            details: actual
                .graph
                .as_ref()
                .map(|graph| facts(graph, self.cloud().options().price))
                .unwrap_or_default(),
            auxiliaries: actual
                .graph
                .iter()
                .flat_map(|graph| graph.resources.keys())
                .filter_map(auxiliary)
                .collect(),
            is_adopted: actual.adopted,
            adopting_service: self.adopting_service(cluster, services, actual),
        })
    }

    /// Returns the Service whose own sync may find the load balancer and adopt it.
    fn adopting_service(
        &self,
        cluster: &Cluster,
        services: &[Arc<Service>],
        actual: &ObservedLoadBalancer,
    ) -> Option<String> {
        let id = actual.id.split('/').next();
        let takes_over = |service: &&Arc<Service>| {
            let Naming {
                name,
                former_names,
                legacy_owner,
                requested_id,
                ..
            } = self.cloud().naming(cluster, service);
            let is_named = name == actual.name || former_names.contains(&actual.name);
            let has_tag = legacy_owner.is_some() && legacy_owner == actual.legacy_owner;
            is_named || has_tag || (requested_id.is_some() && requested_id.as_deref() == id)
        };
        let is_load_balanced = |service: &&Arc<Service>| {
            service
                .spec
                .as_ref()
                .is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"))
        };
        services
            .iter()
            .filter(is_load_balanced)
            .find(takes_over)
            .map(|service| full_name(service))
    }
}

/// Checks that a load balancer has the owner tags of this Service.
fn check_owner(actual: &ObservedLoadBalancer, identity: &Identity<'_>) -> Result<()> {
    if actual.owner_tags == identity.owner_tags() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} does not carry the owner tags of the Service with UID {} any more; it is left alone",
        actual.place(),
        identity.uid()
    )))
}

/// Makes up a Service that is being deleted from the values of the owner tags.
fn former_service(uid: &str, owner_name: Option<(String, String)>) -> Result<Service> {
    let (namespace, name) = owner_name.unzip();
    let metadata = json!({
        "uid": uid, "namespace": namespace, "name": name, "finalizers": [FINALIZER_LOAD_BALANCER],
        "deletionTimestamp": "1970-01-01T00:00:00Z",
    });
    let service = json!({"metadata": metadata, "spec": {"type": "LoadBalancer"}});
    // From text, like every Service: code that reads this large type from a `Value` would exist beside it.
    serde_json::from_str(&service.to_string())
        .map_err(|error| Error::other(format!("cannot make up a Service: {error}")))
}

/// Returns the settings that decide about the price, and the ports.
fn facts(graph: &ResourceGraph, price: &[&str]) -> Vec<(String, String)> {
    let settings = graph.balancer_attributes();
    let text = |name: &str| match settings?.get(name)? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        value => Some(value.to_string()),
    };
    let mut facts: Vec<_> = price
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), text(name)?)))
        .collect();
    let ports: Vec<_> = graph
        .listeners()
        .map(|(port, _)| port.to_string())
        .collect();
    facts.extend((!ports.is_empty()).then(|| ("ports".to_owned(), ports.join(", "))));
    facts
}

fn auxiliary(resource: &ResourceKey) -> Option<String> {
    match resource {
        ResourceKey::CreatedBefore(object) | ResourceKey::CreatedAfter(object)
            if object.name.is_empty() =>
        {
            Some(object.kind.to_string())
        }
        ResourceKey::CreatedBefore(_) | ResourceKey::CreatedAfter(_) => Some(resource.to_string()),
        ResourceKey::Balancer | ResourceKey::Pool(_) | ResourceKey::Listener(_) => None,
    }
}
