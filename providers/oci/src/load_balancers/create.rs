//! Creation of a load balancer with all of its parts in one request.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Change, Identity, ObservedLoadBalancer, ResourceGraph, ResourceKey, State,
};
use provider_kit::transport::{Answer, Call};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use super::apply::{group_ids, listener};
use super::objects::{Form, RULES};
use super::spec::LoadBalancerSpec;
use super::work::named;
use super::{LoadBalancers, security};
use crate::annotations::SecurityMode;
use crate::api::created;

/// The namespace of tags that only OKE may write.
const OKE_TAGS: &str = "orcl-containerengine";

impl LoadBalancers {
    /// Checks what only a new load balancer needs: that no other is requested, a free address, and few groups.
    pub(super) async fn check_new(
        &self,
        identity: &Identity<'_>,
        spec: &LoadBalancerSpec,
        desired: &ResourceGraph,
    ) -> Result<()> {
        if let Some(id) = &identity.requested_id {
            return Err(Error::invalid(format!(
                "load balancer {id} does not exist, or may not be read"
            )));
        }
        if spec.mode == SecurityMode::Groups {
            let settings = desired.balancer_attributes().cloned().unwrap_or_default();
            group_ids(&settings, Some("its own"))?;
        }
        if let Some(ip) = spec.reserved_ip {
            self.reserved(ip).await?;
        }
        Ok(())
    }

    /// Creates a load balancer with its backend sets, listeners and certificates in one request. Rules of security lists
    /// follow when it exists.
    pub(super) async fn create(
        &self,
        change: Change<'_>,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let identity = change.identity;
        let form = Form::of_kind(spec.kind);
        let graph = change
            .outcome_of_all()
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let mut body = settings.clone().matching(|key| key != RULES).nested();
        body["compartmentId"] = self.compartment(identity.service).await?.into();
        body["displayName"] = identity.name.as_str().into();
        let mut labels = spec.tags.freeform.clone();
        labels.insert(RULES.to_owned(), spec.mode.name().to_owned());
        body["freeformTags"] = json!(identity.owner_tags().among(labels));
        body["definedTags"] = json!(spec.tags.defined);
        if let Some(ip) = spec.reserved_ip {
            body["reservedIps"] = json!([{"id": self.reserved(ip).await?}]);
        }
        for (key, value) in ["assignedPrivateIpv4", "assignedIpv6"]
            .into_iter()
            .zip(&spec.assigned)
        {
            if let Some(value) = value {
                body[key] = value.as_str().into();
            }
        }
        if !form.is_network() && settings.text("shapeName").is_none() {
            body["shapeName"] = "flexible".into();
            body["shapeDetails"] =
                json!({"minimumBandwidthInMbps": 10, "maximumBandwidthInMbps": 100});
        }
        if spec.mode == SecurityMode::Groups {
            let own_group = self.ensure_group(identity, spec, &graph).await?;
            body["networkSecurityGroupIds"] = group_ids(&settings, Some(&own_group))?;
        }
        let secrets = self.add_parts(&mut body, &graph, spec).await?;
        let answer = match self.post(form, &body, identity.uid(), &secrets).await {
            Err(error)
                if error.to_string().contains(OKE_TAGS)
                    && spec.tags.defined.0.contains_key(OKE_TAGS) =>
            {
                body["definedTags"]
                    .as_object_mut()
                    .map(|tags| tags.remove(OKE_TAGS));
                self.post(form, &body, identity.uid(), &secrets).await?
            }
            Err(error) if is_missing_target(&error) && form.is_network() => {
                self.forget_missing_targets(&mut body["backendSets"])
                    .await?;
                self.post(form, &body, identity.uid(), &secrets).await?
            }
            answer => answer?,
        };
        let request = named(&answer);
        let shown: Value = match form.is_network() {
            true => answer.json()?,
            false => {
                self.api
                    .iaas
                    .read(Call::get(form.work, &[&request]))
                    .await?
            }
        };
        let id = shown[if form.is_network() {
            "id"
        } else {
            "loadBalancerId"
        }]
        .as_str()
        .unwrap_or_default()
        .to_owned();
        if id.is_empty() {
            return Err(Error::other(
                "the cloud has accepted a load balancer, and does not name it yet",
            ));
        }
        self.work.begin(&id, request, "PROVISION");
        let late = change
            .operations
            .iter()
            .position(|operation| operation.resource() == Some(&security::resource()));
        let count = late.unwrap_or(change.operations.len());
        let outcome = change.outcome(count).unwrap_or_default();
        Ok(Applied::Shown(
            count,
            Box::new(ObservedLoadBalancer {
                id,
                state: State::Busy,
                ..outcome
            }),
        ))
    }

    /// Sends the request of a creation. The same token makes a request that is carried out late the same creation.
    async fn post(
        &self,
        form: &Form,
        body: &Value,
        uid: &str,
        secrets: &[SecretString],
    ) -> Result<Answer> {
        created(uid, |token| {
            let call = Call::post(form.all, &[])
                .json(body)
                .header("opc-retry-token", token)
                .repeatable();
            form.http(&self.api)
                .send(secrets.iter().cloned().fold(call, Call::hide))
        })
        .await
    }

    async fn reserved(&self, ip: std::net::IpAddr) -> Result<String> {
        let call = Call::post("/20160918/publicIps/actions/getByIpAddress", &[]);
        let found: Option<Value> = self
            .api
            .iaas
            .find(call.json(&json!({"ipAddress": ip})).reading())
            .await?;
        let found = found.unwrap_or_default();
        let problem = match (found["id"].as_str(), &found["lifecycleState"]) {
            (Some(id), state) if state == "AVAILABLE" && found["lifetime"] == "RESERVED" => {
                return Ok(id.to_owned());
            }
            (Some(_), state) => format!("the public IP is not reserved, or is in use ({state})"),
            (None, _) => "there is no reserved public IP with this address".to_owned(),
        };
        Err(Error::invalid(format!(
            "loadBalancerIP {ip}: {problem}; use a reserved public IP that is available"
        )))
    }

    /// Adds backend sets, listeners, certificates and rule sets to the body of a creation. Returns its secrets.
    async fn add_parts(
        &self,
        body: &mut Value,
        graph: &ResourceGraph,
        spec: &LoadBalancerSpec,
    ) -> Result<Vec<SecretString>> {
        let mut sets = Map::new();
        let mut listeners = Map::new();
        let mut secrets = Vec::new();
        let mut certificates = Map::new();
        let mut rule_sets = Map::new();
        for (resource, settings) in &graph.resources {
            match resource {
                ResourceKey::Pool(name) => {
                    drop(sets.insert(name.clone(), self.set(graph, name, settings, spec)));
                }
                ResourceKey::Listener(port) => {
                    let (name, mut listener) = listener(port, settings, spec);
                    if spec.is_network() {
                        listener["name"] = name.as_str().into();
                    }
                    listeners.insert(name, listener);
                }
                ResourceKey::CreatedBefore(object) if object.kind == "certificate" => {
                    let (certificate, hidden) = self.certificates.body(&object.name, spec).await?;
                    certificates.insert(object.name.clone(), certificate);
                    secrets.extend(hidden);
                }
                ResourceKey::CreatedBefore(auxiliary) if auxiliary.kind == "rule set" => {
                    drop(rule_sets.insert(auxiliary.name.clone(), settings.nested()));
                }
                _ => {}
            }
        }
        body["backendSets"] = sets.into();
        body["listeners"] = listeners.into();
        for (key, parts) in [("certificates", certificates), ("ruleSets", rule_sets)] {
            if !parts.is_empty() {
                body[key] = parts.into();
            }
        }
        Ok(secrets)
    }

    /// Leaves instances out of backends that no longer exist: their Nodes are deleted soon, and until then they count by
    /// their addresses.
    pub(super) async fn forget_missing_targets(&self, sets: &mut Value) -> Result<()> {
        let existing = self.instances.source().existing().await?;
        let sets = sets.as_object_mut().into_iter().flatten();
        for backend in sets
            .filter_map(|(_, set)| set["backends"].as_array_mut())
            .flatten()
        {
            if backend["targetId"]
                .as_str()
                .is_some_and(|id| !existing.contains(id))
            {
                backend
                    .as_object_mut()
                    .map(|backend| backend.remove("targetId"));
            }
        }
        Ok(())
    }
}

/// Returns `true` if the cloud does not know an object that a request names, such as the instance of a backend.
pub(super) fn is_missing_target(error: &Error) -> bool {
    error.code() == "RelatedResourceNotAuthorizedOrNotFound"
}
