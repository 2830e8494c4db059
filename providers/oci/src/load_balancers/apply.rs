//! Changes of a load balancer: the order of requests, and the handling of answers.

use std::collections::HashMap;
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Identity, ObservedLoadBalancer, Operation, POOL, Port, ResourceGraph, ResourceKey,
    State,
};
use provider_kit::transport::{Answer, Call};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use super::objects::{Form, PRIVATE_FROM, backends, busy};
use super::spec::LoadBalancerSpec;
use super::{LoadBalancers, groups, security};
use crate::annotations::SecurityMode;
use crate::instances::ocid;

/// Pauses between two reads of a load balancer whose group is deleted with it.
const PAUSE: Duration = Duration::from_secs(2);
/// The number of these reads.
const READS: usize = 60;
/// The namespace of tags that only OKE may write.
const OKE_TAGS: &str = "orcl-containerengine";

impl LoadBalancers {
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &LoadBalancerSpec) -> Result<Applied> {
        let Some(actual) = change.actual else { return self.create(change, spec).await };
        if change.operations.iter().any(|it| it.deletes(|resource| *resource == ResourceKey::Balancer)) {
            return self.remove(change, actual, spec).await;
        }
        if actual.graph.as_ref().is_none_or(|it| it.balancer_attributes().is_none()) {
            return match change.outcome_of_all().and_then(|it| it.graph) {
                // The group of a load balancer that was never created, or no longer exists.
                Some(graph) if graph.balancer_attributes().is_some() => self.create(change, spec).await,
                _ => self.remove_group(actual, change.identity).await,
            };
        }
        match self.update(change, actual, spec).await {
            Err(error) if error.is_conflict() && error.code() == "IncorrectState" => {
                self.pending.lock().insert(actual.id.clone(), String::new());
                Err(busy(&actual.id))
            }
            outcome => outcome,
        }
    }

    fn tags(owner: &Identity<'_>, labels: impl Iterator<Item = (String, String)>) -> Value {
        let labels = labels.filter(|(key, _)| key != PRIVATE_FROM && !key.starts_with("ccm-rs/network-security-group"));
        json!(owner.owner_tags().among(labels.collect()))
    }

    /// Creates a load balancer with its backend sets, listeners and certificates in one request. Rules of security lists
    /// follow when it exists.
    async fn create(&self, change: Change<'_>, spec: &LoadBalancerSpec) -> Result<Applied> {
        let (identity, form) = (change.identity, Form::of_kind(spec.kind));
        let outcome = change.outcome_of_all().unwrap_or_default();
        let graph = outcome.graph.clone().unwrap_or_default();
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let mut body = settings.nested();
        body["compartmentId"] = self.compartment(identity.service).await?.into();
        body["displayName"] = identity.name.as_str().into();
        body["freeformTags"] = Self::tags(identity, spec.freeform.clone().into_iter());
        body["definedTags"] = json!(spec.defined);
        if let Some(ip) = spec.reserved_ip {
            body["reservedIps"] = json!([{"id": self.reserved(ip).await?}]);
        }
        for (key, value) in ["assignedPrivateIpv4", "assignedIpv6"].into_iter().zip(&spec.assigned) {
            if let Some(value) = value {
                body[key] = value.as_str().into();
            }
        }
        if !form.is_network() && settings.text("shapeName").is_none() {
            body["shapeName"] = "flexible".into();
            body["shapeDetails"] = json!({"minimumBandwidthInMbps": 10, "maximumBandwidthInMbps": 100});
        }
        if spec.mode == SecurityMode::Groups {
            let own = self.ensure_group(identity, spec, &graph, None).await?;
            body["networkSecurityGroupIds"] = self.group_ids(spec, Some(&own))?;
        }
        let secrets = self.add_parts(&mut body, &graph, spec).await?;
        let answer = match self.post(form, &body, identity.uid(), &secrets).await {
            Err(error) if error.to_string().contains(OKE_TAGS) && spec.defined.0.contains_key(OKE_TAGS) => {
                body["definedTags"].as_object_mut().map(|tags| tags.remove(OKE_TAGS));
                self.post(form, &body, identity.uid(), &secrets).await?
            }
            answer => answer?,
        };
        let request = work_request(&answer);
        let id = match form.is_network() {
            true => answer.json::<Value>()?["id"].as_str().unwrap_or_default().to_owned(),
            false => {
                let call = Call::get("/20170115/loadBalancerWorkRequests/{id}", &[&request]);
                let request: Value = self.api.iaas.read(call).await?;
                request["loadBalancerId"].as_str().unwrap_or_default().to_owned()
            }
        };
        if id.is_empty() {
            return Err(Error::other("the cloud has accepted a load balancer, and does not name it yet"));
        }
        if !form.is_network() {
            self.pending.lock().insert(id.clone(), request);
        }
        let late = change.operations.iter().position(|it| it.resource() == Some(&security::resource()));
        let count = late.unwrap_or(change.operations.len());
        let shown = change.outcome(count).unwrap_or_default();
        Ok(Applied::Shown(count, Box::new(ObservedLoadBalancer { id, state: State::Busy, ..shown })))
    }

    /// Sends the request of a creation. The same token makes a request that is carried out late the same creation.
    async fn post(&self, form: &Form, body: &Value, uid: &str, secrets: &[SecretString]) -> Result<Answer> {
        let send = |token: String| {
            let call = Call::post(form.all, &[]).json(body).header("opc-retry-token", token).repeatable();
            form.http(&self.api).send(secrets.iter().cloned().fold(call, Call::hide))
        };
        match send(uid.to_owned()).await {
            // The load balancer of this token was deleted meanwhile.
            Err(error) if error.code() == "InvalidatedRetryToken" => {
                let now = jiff::Timestamp::now().as_millisecond();
                send(format!("{uid}-{now}")).await
            }
            answer => answer,
        }
    }

    async fn reserved(&self, ip: std::net::IpAddr) -> Result<String> {
        let call =
            Call::post("/20160918/publicIps/actions/getByIpAddress", &[]).json(&json!({"ipAddress": ip})).reading();
        let found: Option<Value> = self.api.iaas.find(call).await?;
        let found = found.unwrap_or_default();
        match (found["id"].as_str(), &found["lifecycleState"]) {
            (Some(id), state) if state == "AVAILABLE" && found["lifetime"] == "RESERVED" => Ok(id.to_owned()),
            (Some(_), state) => Err(Error::invalid(format!(
                "loadBalancerIP {ip}: the public IP is no reserved one, or is in use ({state})"
            ))),
            (None, _) => {
                Err(Error::invalid(format!("loadBalancerIP {ip}: there is no reserved public IP with this address")))
            }
        }
    }

    /// Adds backend sets, listeners, certificates and rule sets to the body of a creation. Returns its secrets.
    async fn add_parts(
        &self,
        body: &mut Value,
        graph: &ResourceGraph,
        spec: &LoadBalancerSpec,
    ) -> Result<Vec<SecretString>> {
        let (mut sets, mut listeners, mut secrets) = (Map::new(), Map::new(), Vec::new());
        let (mut certificates, mut rule_sets) = (Map::new(), Map::new());
        for (resource, settings) in &graph.resources {
            match resource {
                ResourceKey::Pool(name) => drop(sets.insert(name.clone(), self.set(graph, name, settings, spec))),
                ResourceKey::Listener(port) => {
                    let (name, listener) = listener(port, settings, spec);
                    listeners.insert(name, listener);
                }
                ResourceKey::CreatedBefore(it) if it.kind == "certificate" => {
                    let (certificate, hidden) = self.certificates.body(&it.name, spec).await?;
                    certificates.insert(it.name.clone(), certificate);
                    secrets.extend(hidden);
                }
                ResourceKey::CreatedBefore(it) if it.kind == "rule set" => {
                    drop(rule_sets.insert(it.name.clone(), settings.nested()))
                }
                _ => {}
            }
        }
        if spec.is_network() {
            for (name, part) in listeners.iter_mut().chain(sets.iter_mut()) {
                part["name"] = name.as_str().into();
            }
            sets.values_mut().for_each(|set| drop(set.as_object_mut().map(|it| it.remove("name"))));
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

    /// Returns a backend set with its backends.
    fn set(&self, graph: &ResourceGraph, name: &str, settings: &Attributes, spec: &LoadBalancerSpec) -> Value {
        let nodes = self.cluster.nodes().unwrap_or_default();
        let mut instances = HashMap::new();
        for node in nodes.iter().filter(|_| spec.is_network()) {
            if let (Some(ip), Ok(id)) = (LoadBalancerSpec::backend_address(node, false), ocid(&node.provider_id)) {
                instances.insert(ip.to_string(), id.to_owned());
            }
        }
        let mut set = settings.nested();
        set["backends"] = backends(&graph.targets_of(name), &|ip| instances.get(ip).cloned()).into();
        set
    }

    fn group_ids(&self, spec: &LoadBalancerSpec, own: Option<&str>) -> Result<Value> {
        let ids: Vec<_> = spec.groups.iter().map(String::as_str).chain(own).collect();
        if ids.len() > 5 {
            return Err(Error::invalid(
                "a load balancer has at most five network security groups, one of them its own",
            ));
        }
        Ok(json!(ids))
    }

    /// Creates the load balancer's own network security group, and writes its rules.
    async fn ensure_group(
        &self,
        identity: &Identity<'_>,
        spec: &LoadBalancerSpec,
        graph: &ResourceGraph,
        seen: Option<&Attributes>,
    ) -> Result<String> {
        let compartment = self.compartment(identity.service).await?;
        let vcn = match &self.config.vcn {
            Some(vcn) => vcn.clone(),
            None => self.facts(spec).await?.subnets.first().map(|it| it.vcn_id.clone()).unwrap_or_default(),
        };
        let own = self.groups.ensure(identity, &compartment, &vcn).await?;
        let wanted = graph.resources.get(&groups::resource()).cloned().unwrap_or_default();
        self.groups.write(&own, identity.uid(), &wanted, seen).await?;
        Ok(own)
    }

    async fn update(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let (form, id) = (Form::of_id(&actual.id), &*actual.id);
        let seen = actual.graph.clone().unwrap_or_default();
        let is_of = |it: &Operation, key: &ResourceKey| it.resource() == Some(key);
        // Rules are written before the ports that they are for leave the load balancer: then they are known.
        let rules = change.operations.iter().find(|it| is_of(it, &security::resource()));
        if let Some(operation) = rules {
            let wanted = match operation {
                Operation::Create { attributes, .. } | Operation::Update { attributes, .. } => Some(attributes),
                _ => None,
            };
            let (wanted, before) =
                (security::rules(wanted), security::rules(seen.resources.get(&security::resource())));
            let [add, remove] =
                [(&wanted, &before), (&before, &wanted)].map(|(a, b)| a.difference(b).cloned().collect());
            self.lists.write(&add, &remove).await?;
            let mut graph = seen;
            graph.apply_rules(&security::resource(), &wanted);
            if change.operations.len() == 1 {
                return Ok(Applied::all(change, ObservedLoadBalancer { graph: Some(graph), ..actual.clone() }));
            }
            return Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer { graph: Some(graph), ..actual.clone() })));
        }
        let first = &change.operations[0];
        let mut count = 1;
        match first {
            Operation::Tag | Operation::Untag => {
                let labels = actual.labels.clone().into_iter();
                let tags =
                    if *first == Operation::Tag { Self::tags(change.identity, labels) } else { json!(actual.labels) };
                self.send(form, id, Call::put(form.one, &[id]).json(&json!({ "freeformTags": tags }))).await?;
            }
            _ if is_of(first, &groups::resource()) => return self.update_group(change, actual, spec).await,
            _ if is_of(first, &ResourceKey::Balancer) => return self.update_balancer(change, actual, spec).await,
            _ => {
                let pool = pool_of(first);
                if let Some(pool) = pool.filter(|_| !first.deletes(|_| true)) {
                    count = change
                        .operations
                        .iter()
                        .take_while(|it| pool_of(it) == Some(pool) && !it.deletes(|_| true))
                        .count();
                    let after = change.outcome(count).and_then(|it| it.graph).unwrap_or_default();
                    let settings = after.pool_attributes(pool).cloned().unwrap_or_default();
                    let set = self.set(&after, pool, &settings, spec);
                    let is_new = matches!(first, Operation::Create { .. });
                    self.write_part(form, id, is_new, [form.sets, form.set], (pool, set)).await?;
                } else {
                    self.change_part(form, id, first, &seen, spec).await?;
                }
            }
        }
        let outcome = change.outcome(count).unwrap_or_default();
        Ok(Applied::Shown(count, Box::new(ObservedLoadBalancer { state: State::Busy, ..outcome })))
    }

    async fn send(&self, form: &Form, id: &str, call: Call) -> Result<()> {
        let answer = match form.http(&self.api).send(call).await {
            Err(error) if error.is_not_found() && error.to_string().starts_with("DELETE") => return Ok(()),
            answer => answer?,
        };
        let request = work_request(&answer);
        if !form.is_network() && !request.is_empty() {
            self.pending.lock().insert(id.to_owned(), request);
        }
        Ok(())
    }

    async fn write_part(
        &self,
        form: &Form,
        id: &str,
        is_new: bool,
        [all, one]: [&'static str; 2],
        (name, mut part): (&str, Value),
    ) -> Result<()> {
        let call = if is_new {
            part["name"] = name.into();
            Call::post(all, &[id])
        } else {
            Call::put(one, &[id, name])
        };
        self.send(form, id, call.json(&part)).await
    }

    /// Creates, changes or deletes a listener, a certificate or a rule set, or deletes a backend set.
    async fn change_part(
        &self,
        form: &Form,
        id: &str,
        operation: &Operation,
        seen: &ResourceGraph,
        spec: &LoadBalancerSpec,
    ) -> Result<()> {
        let Some(resource) = operation.resource() else { return Ok(()) };
        let settings = match operation {
            Operation::Create { attributes, .. } | Operation::Update { attributes, .. } => Some(attributes),
            _ => None,
        };
        let is_new = matches!(operation, Operation::Create { .. });
        match (resource, settings) {
            (ResourceKey::Listener(port), Some(settings)) => {
                let (name, part) = listener(port, settings, spec);
                self.write_part(form, id, is_new, [form.listeners, form.listener], (&name, part)).await
            }
            (ResourceKey::Listener(port), None) => {
                let (name, _) = listener(port, seen.resources.get(resource).unwrap_or(&Attributes::default()), spec);
                self.send(form, id, Call::delete(form.listener, &[id, &name])).await
            }
            (ResourceKey::Pool(name), _) => self.send(form, id, Call::delete(form.set, &[id, name])).await,
            (ResourceKey::CreatedBefore(it), settings) if it.kind == "rule set" => {
                let paths = ["/20170115/loadBalancers/{id}/ruleSets", "/20170115/loadBalancers/{id}/ruleSets/{name}"];
                match settings {
                    Some(settings) => self.write_part(form, id, is_new, paths, (&it.name, settings.nested())).await,
                    None => self.send(form, id, Call::delete(paths[1], &[id, &it.name])).await,
                }
            }
            (ResourceKey::CreatedBefore(it), Some(_)) => {
                let (body, secrets) = self.certificates.body(&it.name, spec).await?;
                let call = Call::post("/20170115/loadBalancers/{id}/certificates", &[id]).json(&body);
                self.send(form, id, secrets.into_iter().fold(call, Call::hide)).await
            }
            (ResourceKey::CreatedBefore(it), None) => {
                self.send(form, id, Call::delete("/20170115/loadBalancers/{id}/certificates/{name}", &[id, &it.name]))
                    .await
            }
            _ => Ok(()),
        }
    }

    /// Changes settings of the load balancer itself, one request at a time.
    async fn update_balancer(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let (form, id) = (Form::of_id(&actual.id), &*actual.id);
        let outcome = change.outcome(1).unwrap_or_default();
        let after = outcome.graph.as_ref().and_then(ResourceGraph::balancer_attributes).cloned().unwrap_or_default();
        let changes: Vec<_> = change.operations[0].changes().iter().map(|it| it.key.clone()).collect();
        let is_of = |prefixes: &[&str]| changes.iter().any(|key| prefixes.iter().any(|prefix| key.starts_with(prefix)));
        let shape = ["shapeName", "shapeDetails"];
        let nested = after.nested();
        let (done, call) = if is_of(&shape) {
            let body = json!({"shapeName": nested["shapeName"], "shapeDetails": nested["shapeDetails"]});
            (&shape[..], Call::put("/20170115/loadBalancers/{id}/updateShape", &[id]).json(&body))
        } else if is_of(&["networkSecurityGroupIds"]) {
            let ids = self.group_ids(spec, groups::own(actual))?;
            (
                &["networkSecurityGroupIds"][..],
                Call::put(form.groups, &[id]).json(&json!({ "networkSecurityGroupIds": ids })),
            )
        } else {
            let keys = ["ipMode", "nlbIpVersion"];
            let fields = keys.iter().filter_map(|key| Some((*key, after.get(key)?.clone())));
            (
                &["ipMode", "nlbIpVersion"][..],
                Call::put(form.one, &[id]).json(&Value::Object(fields.map(|(key, it)| (key.to_owned(), it)).collect())),
            )
        };
        self.send(form, id, call).await?;
        if changes.iter().all(|key| done.iter().any(|prefix| key.starts_with(prefix))) {
            return Ok(Applied::Shown(1, Box::new(ObservedLoadBalancer { state: State::Busy, ..outcome })));
        }
        let mut graph = actual.graph.clone().unwrap_or_default();
        let before = graph.balancer_attributes().cloned().unwrap_or_default();
        let changed = after.iter().filter(|(key, _)| done.iter().any(|prefix| key.starts_with(prefix)));
        let settings = changed.fold(before, |all, (key, value)| all.set(key.to_owned(), value));
        graph = graph.balancer(settings);
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
            graph: Some(graph),
            state: State::Busy,
            ..actual.clone()
        })))
    }

    /// Creates or changes the load balancer's own network security group, or takes it away.
    async fn update_group(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let (form, id, uid) = (Form::of_id(&actual.id), &*actual.id, change.identity.uid());
        let outcome = change.outcome(1).unwrap_or_default();
        let seen = actual.graph.as_ref().and_then(|it| it.resources.get(&groups::resource()));
        if let Operation::Delete { .. } = &change.operations[0] {
            let ids = self.group_ids(spec, None)?;
            self.send(form, id, Call::put(form.groups, &[id]).json(&json!({ "networkSecurityGroupIds": ids }))).await?;
            self.settle(form, id).await?;
            if let Some(own) = groups::own(actual) {
                self.groups.delete(own, uid, seen).await?;
            }
            return Ok(Applied::Shown(1, Box::new(outcome)));
        }
        let graph = outcome.graph.clone().unwrap_or_default();
        let own = self.ensure_group(change.identity, spec, &graph, seen).await?;
        if groups::own(actual).is_some() {
            return Ok(Applied::Shown(1, Box::new(outcome)));
        }
        let ids = self.group_ids(spec, Some(&own))?;
        self.send(form, id, Call::put(form.groups, &[id]).json(&json!({ "networkSecurityGroupIds": ids }))).await?;
        Ok(Applied::Shown(1, Box::new(ObservedLoadBalancer { state: State::Busy, ..outcome })))
    }

    /// Waits until the cloud has finished, where a group can be deleted only afterwards. Returns `false` if the load
    /// balancer no longer exists.
    async fn settle(&self, form: &'static Form, id: &str) -> Result<bool> {
        for _ in 0..READS {
            let found: Option<Value> = form.http(&self.api).find(Call::get(form.one, &[id])).await?;
            match found.as_ref().and_then(|it| it["lifecycleState"].as_str()) {
                None | Some("DELETED") => return Ok(false),
                Some("ACTIVE" | "FAILED") if form.is_network() || !self.is_working(form, id).await? => return Ok(true),
                Some(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        Err(busy(id))
    }

    /// Deletes a load balancer: its rules first, because they can no longer be found afterwards; its group last, because
    /// it is in use until then.
    async fn remove(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let (form, id, identity) = (Form::of_id(&actual.id), &*actual.id, change.identity);
        let graph = actual.graph.clone().unwrap_or_default();
        if spec.mode != SecurityMode::None {
            let (listeners, node_ports) = self.retained(identity.service);
            let stays = |rule: &security::Rule| {
                node_ports.contains(&rule.port) || rule.is_ingress && listeners.contains(&rule.port)
            };
            let rules = security::rules(graph.resources.get(&security::resource()));
            let remove = rules.into_iter().filter(|rule| !stays(rule)).collect();
            self.lists.write(&Default::default(), &remove).await?;
        }
        match form.http(&self.api).send(Call::delete(form.one, &[id])).await {
            Err(error) if error.is_not_found() => return Ok(Applied::Gone),
            Err(error) if error.code() == "IncorrectState" => {
                self.pending.lock().insert(id.to_owned(), String::new());
                return Err(busy(id));
            }
            answer => drop(answer?),
        }
        self.pending.lock().remove(id);
        let Some(own) = groups::own(actual) else { return Ok(Applied::Begun(change.operations.len())) };
        while self.settle(form, id).await? {
            tokio::time::sleep(PAUSE).await;
        }
        self.groups.delete(own, identity.uid(), graph.resources.get(&groups::resource())).await?;
        Ok(Applied::Removed)
    }

    async fn remove_group(&self, actual: &ObservedLoadBalancer, identity: &Identity<'_>) -> Result<Applied> {
        let seen = actual.graph.as_ref().and_then(|it| it.resources.get(&groups::resource()));
        self.groups.delete(&actual.id, identity.uid(), seen).await.map(|()| Applied::Removed)
    }
}

/// Returns the pool of an operation.
fn pool_of(operation: &Operation) -> Option<&str> {
    match operation {
        Operation::AddTargets { pool, .. } | Operation::RemoveTargets { pool, .. } => Some(pool),
        other => match other.resource() {
            Some(ResourceKey::Pool(pool)) => Some(pool),
            _ => None,
        },
    }
}

/// Returns the name of a listener, and the listener in the form of the API.
fn listener(port: &Port, settings: &Attributes, spec: &LoadBalancerSpec) -> (String, Value) {
    let wanted = spec.ports.iter().find(|it| it.number == port.number).filter(|_| !spec.is_network());
    let protocol = wanted.map_or(&*port.protocol, |it| it.protocol);
    let (protocol, suffix) = protocol.split_once('-').map_or((protocol, ""), |(protocol, _)| (protocol, "-IPv6"));
    let name = settings.text("name").map_or_else(|| format!("{protocol}-{}{suffix}", port.number), str::to_owned);
    let mut listener = settings.clone().matching(|key| ![POOL, "name"].contains(&key)).nested();
    listener["port"] = port.number.into();
    listener["defaultBackendSetName"] = settings.text(POOL).into();
    (name, listener)
}

fn work_request(answer: &Answer) -> String {
    answer.headers.get("opc-work-request-id").and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned()
}

/// A change of one resource in a graph.
trait WithRules {
    fn apply_rules(&mut self, resource: &ResourceKey, rules: &std::collections::BTreeSet<security::Rule>);
}

impl WithRules for ResourceGraph {
    fn apply_rules(&mut self, resource: &ResourceKey, rules: &std::collections::BTreeSet<security::Rule>) {
        match rules.is_empty() {
            true => drop(self.resources.remove(resource)),
            false => drop(self.resources.insert(resource.clone(), security::settings(rules))),
        }
    }
}
