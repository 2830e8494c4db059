//! Changes of load balancers: their order, and the tasks that they begin.

use std::collections::BTreeMap;

use cloud_provider::{Error, Result};
use provider_kit::inventory::MachineSource;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, ObservedLoadBalancer, Operation, Port, ResourceGraph, ResourceKey, State,
    Targets,
};
use provider_kit::signing::sha256_hex;
use provider_kit::transport::Priority;
use serde_json::{Value, json};

use super::model::default_health_check;
use super::read::listener_prefix;
use super::spec::{Spec, pool};
use super::{CREATED_TAG, ID, INTERNAL, RANGES_TAG, TencentLoadBalancers, group_key, server_of};
use crate::annotations as key;
use crate::api::{Action, CLB, TAG, list, text, texts};

/// Targets, listeners and tags that a request can name.
const TARGETS: usize = 500;
const TARGETS_OF_A_RULE: usize = 50;
const LISTENERS: usize = 20;
const TAGS: usize = 10;

/// The change of an existing load balancer, with its state before and after.
struct Work<'a> {
    cloud: &'a TencentLoadBalancers,
    change: Change<'a>,
    spec: &'a Spec,
    actual: &'a ObservedLoadBalancer,
    before: ResourceGraph,
    after: ResourceGraph,
}

/// Returns a number of a target: `<ID> <port> <weight>`.
fn parts(target: &str) -> (&str, u64, u64) {
    let mut all = target.split(' ');
    let id = all.next().unwrap_or_default();
    let mut number = || all.next().and_then(|it| it.parse().ok()).unwrap_or_default();
    let port = number();
    (id, port, number())
}

/// Returns a target as the API takes it.
fn server(target: &str, has_weight: bool) -> Value {
    let (id, port, weight) = parts(target);
    let field = if id.starts_with("ins-") { "InstanceId" } else { "EniIp" };
    let mut it = json!({field: id, "Port": port});
    if has_weight {
        it["Weight"] = weight.into();
    }
    it
}

impl TencentLoadBalancers {
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let Some(actual) = change.actual else { return self.create(change, spec).await };
        let before = actual.graph.clone().unwrap_or_default();
        let after = change.outcome_of_all().and_then(|it| it.graph).unwrap_or_default();
        let work = Work { cloud: self, change, spec, actual, before, after };
        if change.operations.iter().any(|it| it.deletes(|resource| *resource == ResourceKey::Balancer)) {
            return work.leave().await;
        }
        match change.operations.contains(&Operation::Untag) {
            true => work.release().await,
            false => work.update().await,
        }
    }

    /// Creates a load balancer, and nothing else: listeners follow when it works and has its security groups.
    async fn create(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let identity = change.identity;
        let vpc = self.api.metadata.vpc().await?;
        if let Some(id) = &identity.requested_id {
            // Another state of it is known: from before the annotation named it.
            if self.by_ids(std::slice::from_ref(id), false).await?.iter().any(|it| it.adopted) {
                return Err(Error::conflict(format!("load balancer {id} has become one of yours")));
            }
            return Err(Error::invalid(format!(
                "annotation {}: there is no load balancer {id} of yours in VPC {vpc}",
                key::EXISTING.key()
            )));
        }
        self.check_account().await?;
        let graph = change.outcome_of_all().and_then(|it| it.graph).unwrap_or_default();
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let mut tags = self.tags(identity, true);
        if !spec.ranges.is_empty() {
            tags.insert(RANGES_TAG.to_owned(), "yes".to_owned());
        }
        let tags = tags.iter().map(|(key, value)| json!({"TagKey": key, "TagValue": value}));
        let tags: Vec<_> = tags.chain(spec.tags.iter().cloned()).collect();
        let metadata = &identity.service.metadata;
        let version = metadata.resource_version.as_deref().unwrap_or_default();
        // A load balancer of another kind is another creation of the same Service.
        let token = sha256_hex(format!("{} {version} {}", identity.uid(), identity.kind).as_bytes());
        let service = identity.service.spec.as_ref();
        let address = service.and_then(|it| it.load_balancer_ip.clone()).filter(|it| !it.is_empty());
        let is_internal = settings.text("LoadBalancerType") == Some(INTERNAL);
        let of_request = ["LoadBalancerType", "SubnetId", "LoadBalancerPassToTarget"];
        let mut body = settings.clone().only(&of_request).nested();
        body["Forward"] = 1.into();
        let network = settings.clone().only(&["InternetChargeType", "InternetMaxBandwidthOut"]).nested();
        if network.as_object().is_some_and(|it| !it.is_empty()) {
            body["InternetAccessible"] = network;
        }
        let action = Action::new(CLB, "CreateLoadBalancer").fields(body);
        let action = action.set("LoadBalancerName", &identity.name).set("VpcId", vpc);
        let action = action.set("Vip", address.filter(|_| is_internal)).fields(spec.creation.clone().into());
        let action = action.set("Tags", tags).set("ClientToken", &token[..40]);
        let answer: Value = self.api.send(action).await?;
        let mut ids = texts(&answer["LoadBalancerIds"]);
        if ids.is_empty() {
            change.callbacks.release_permit();
            let outcome = self.api.wait(&answer).await;
            change.callbacks.reacquire_permit().await;
            ids = outcome?;
        }
        let id = ids.into_iter().next().ok_or_else(|| {
            Error::conflict(format!("CreateLoadBalancer {} began no load balancer", text(&answer, "RequestId")))
        })?;
        // The credential may have become another account's since the check, and would not show this load balancer again.
        if let Err(error) = self.check_account().await {
            return Err(self.discarded(&id, error).await);
        }
        let of_creation = ["LoadBalancerType", "SubnetId", "LoadBalancerPassToTarget", "InternetChargeType"];
        let created = settings.only(&[&of_creation[..], &["InternetMaxBandwidthOut"]].concat());
        let graph = Some(ResourceGraph::default().balancer(created.set("DeleteProtect", false)));
        let outcome = change.outcome_of_all().unwrap_or_default();
        let created = ObservedLoadBalancer { id, graph, state: State::Busy, ..outcome };
        Ok(Applied::PlanAgain(Box::new(created)))
    }

    /// Deletes a new load balancer whose account could not be confirmed, and returns the reason.
    async fn discarded(&self, id: &str, reason: Error) -> Error {
        let action = Action::new(CLB, "DeleteLoadBalancer").set("LoadBalancerIds", [id]);
        match self.api.send::<Value>(action).await {
            Err(error) if !error.is_not_found() => {
                reason.context(format!("load balancer {id} could not be deleted again: {error}"))
            }
            _ => reason,
        }
    }
}

impl Work<'_> {
    /// Returns an action about the load balancer.
    fn action(&self, name: &'static str) -> Action {
        Action::new(CLB, name).set("LoadBalancerId", &self.actual.id)
    }

    /// Sends a change and waits for its task, while others use the worker.
    async fn send(&self, action: Action) -> Result<Value> {
        let answer: Value = self.cloud.api.send(action).await?;
        self.change.callbacks.release_permit();
        let outcome = self.cloud.api.wait(&answer).await;
        self.change.callbacks.reacquire_permit().await;
        outcome.map(|_| answer)
    }

    fn listener_id(&self, port: &Port) -> &str {
        let resource = ResourceKey::Listener(port.clone());
        self.before.resources.get(&resource).and_then(|it| it.text(ID)).unwrap_or_default()
    }

    /// Removes the tags without a value, then adds the others: a load balancer of a user is never seen as one that the
    /// program may delete.
    async fn set_tags(&self, tags: BTreeMap<String, Option<String>>) -> Result<()> {
        let region = self.cloud.api.metadata.region().await?;
        let resource = format!("qcs::clb:{region}:uin/:clb/{}", self.actual.id);
        let (new, gone): (Vec<_>, Vec<_>) = tags.iter().partition(|(_, value)| value.is_some());
        let new: Vec<_> = new.into_iter().map(|(key, value)| json!({"TagKey": key, "TagValue": value})).collect();
        let gone: Vec<_> = gone.into_iter().map(|(key, _)| json!({"TagKey": key})).collect();
        for (field, tags) in [("DeleteTags", gone), ("ReplaceTags", new)] {
            for tags in tags.chunks(TAGS) {
                let action = Action::new(TAG, "ModifyResourceTags").set("Resource", &resource).set(field, tags);
                self.cloud.api.send::<Value>(action).await?;
            }
        }
        Ok(())
    }

    async fn update(&self) -> Result<Applied> {
        let identity = self.change.identity;
        let is_requested = identity.requested_id.as_ref() == Some(&self.actual.id);
        let mut tags = BTreeMap::new();
        if self.change.operations.contains(&Operation::Tag) {
            let owner = self.cloud.tags(identity, !self.actual.adopted && !is_requested);
            tags.extend(owner.into_iter().map(|(key, value)| (key, Some(value))));
        }
        let is_rescued = is_requested && !self.actual.adopted;
        if is_rescued || self.change.operations.iter().flat_map(Operation::changes).any(|it| it.key == "IsCreated") {
            tags.insert(CREATED_TAG.to_owned(), None);
        }
        self.set_tags(tags).await?;
        if is_rescued {
            // It was read as a load balancer of this program: listeners of the user looked like those of a Service.
            return Err(Error::conflict(format!("load balancer {} has become one of yours", self.actual.id)));
        }
        let (wants_group, had_group) =
            (self.after.resources.get(&group_key()), self.before.resources.get(&group_key()));
        let managed = match wants_group {
            Some(settings) if had_group != wants_group => Some(self.ensure_group(settings).await?),
            Some(_) => had_group.and_then(|it| it.text(ID)).map(str::to_owned),
            None => None,
        };
        // Security groups are written once, before the first listener.
        let groups = self.wanted_groups(managed.as_deref(), had_group);
        let is_same = |all: &[String], others: &[String]| all.iter().all(|it| others.contains(it));
        let has = self.groups();
        if !(is_same(&groups, &has) && is_same(&has, &groups)) {
            self.send(self.action("SetLoadBalancerSecurityGroups").set("SecurityGroups", groups)).await?;
        }
        for operation in self.change.operations.iter().filter(|it| it.updates(|it| *it == ResourceKey::Balancer)) {
            self.update_balancer(operation.changes()).await?;
        }
        let deleted = self.deleted_listeners();
        // A port must be free before it gets another listener.
        let is_replaced = |port: &&Port| self.after.listeners().any(|(it, _)| it == *port);
        let (first, last): (Vec<_>, Vec<_>) = deleted.iter().partition(is_replaced);
        self.delete_listeners(first.into_iter()).await?;
        let mut ids: BTreeMap<Port, String> =
            self.before.listeners().map(|(port, _)| (port.clone(), self.listener_id(port).to_owned())).collect();
        ids.extend(self.create_listeners().await?);
        for operation in self.change.operations {
            if let Operation::Update { resource: ResourceKey::Listener(port), attributes, changes } = operation {
                self.update_listener(port, attributes, changes).await?;
            }
        }
        let are_all_there = self.change_targets(&ids, &deleted).await?;
        self.delete_listeners(last.into_iter()).await?;
        if let (None, Some(group)) = (wants_group, had_group) {
            self.delete_group(group).await?;
        }
        let mut outcome = self.change.outcome_of_all().unwrap_or_default();
        if let Some(graph) = &mut outcome.graph {
            for (port, id) in ids {
                let resource = ResourceKey::Listener(port);
                if let Some(settings) = graph.resources.get(&resource).cloned() {
                    graph.resources.insert(resource, settings.set(ID, id));
                }
            }
        }
        // The ID of a new security group, the groups of the load balancer, and the targets without those that were left
        // out are read when they are needed.
        let changes_groups =
            self.change.operations.iter().flat_map(Operation::changes).any(|it| it.key == "SecurityGroups");
        if wants_group != had_group || changes_groups || !are_all_there {
            outcome.graph = None;
        }
        Ok(Applied::all(self.change, outcome))
    }

    /// Returns the IDs of the security groups that the load balancer has.
    fn groups(&self) -> Vec<String> {
        self.before.balancer_attributes().and_then(|it| it.get("Groups")).map(texts).unwrap_or_default()
    }

    /// Returns the security groups that the load balancer is to have: those of the annotation, or else those that it has,
    /// and the managed one.
    fn wanted_groups(&self, managed: Option<&str>, had: Option<&Attributes>) -> Vec<String> {
        let mut changes = self.change.operations.iter().flat_map(Operation::changes);
        let others = match changes.find(|it| it.key == "SecurityGroups") {
            Some(change) => texts(&change.to),
            None => self.groups(),
        };
        let left = had.and_then(|it| it.text(ID));
        let is_kept = |id: &String| Some(&**id) != left && Some(&**id) != managed;
        others.into_iter().filter(is_kept).chain(managed.map(str::to_owned)).collect()
    }

    /// Lets the security group for source ranges admit these ranges, and returns its ID. The tag says that there is one,
    /// before it exists.
    async fn ensure_group(&self, settings: &Attributes) -> Result<String> {
        let ranges = settings.get("Ranges").map(texts).unwrap_or_default();
        self.set_tags([(RANGES_TAG.to_owned(), Some("yes".to_owned()))].into()).await?;
        self.cloud.ensure_group(self.change.identity, &ranges).await
    }

    /// Deletes the security group for source ranges, which the load balancer no longer has.
    async fn delete_group(&self, settings: &Attributes) -> Result<()> {
        self.cloud.delete_group(settings.text(ID).unwrap_or_default()).await?;
        self.set_tags([(RANGES_TAG.to_owned(), None)].into()).await
    }

    async fn update_balancer(&self, changes: &[Difference]) -> Result<()> {
        let mut body = json!({});
        for it in changes {
            match &*it.key {
                "InternetMaxBandwidthOut" => body["InternetChargeInfo"] = json!({"InternetMaxBandwidthOut": it.to}),
                "LoadBalancerPassToTarget" | "DeleteProtect" => body[&it.key] = it.to.clone(),
                _ => {}
            }
        }
        if body.as_object().is_some_and(|it| !it.is_empty()) {
            self.send(self.action("ModifyLoadBalancerAttributes").fields(body)).await?;
        }
        Ok(())
    }

    fn deleted_listeners(&self) -> Vec<Port> {
        let port = |operation: &Operation| match operation {
            Operation::Delete { resource: ResourceKey::Listener(port) } => Some(port.clone()),
            _ => None,
        };
        self.change.operations.iter().filter_map(port).collect()
    }

    async fn delete_listeners(&self, ports: impl Iterator<Item = &Port>) -> Result<()> {
        let ids: Vec<_> = ports.map(|port| self.listener_id(port)).filter(|id| !id.is_empty()).collect();
        let delete = async |ids: &[&str]| {
            self.send(self.action("DeleteLoadBalancerListeners").set("ListenerIds", ids)).await.map(drop)
        };
        for ids in ids.chunks(LISTENERS) {
            match delete(ids).await {
                // One of several does not exist, and the request deleted none.
                Err(error) if error.is_not_found() => {
                    for id in ids.chunks(1) {
                        match delete(id).await {
                            Err(error) if error.is_not_found() => {}
                            outcome => outcome?,
                        }
                    }
                    // With a credential of another account, the load balancer is what was not found.
                    self.cloud.check_account().await?;
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Returns the settings of a listener as parameters of a request.
    fn listener(settings: &Attributes) -> Value {
        let mut body = settings.clone().only(&["Scheduler", "SessionExpireTime", "IdleConnectTimeout"]).nested();
        body["HealthCheck"] = settings.nested()["HealthCheck"].take();
        if let Some(id) = settings.text("CertId") {
            body["Certificate"] = json!({"SSLMode": "UNIDIRECTIONAL", "CertId": id});
        }
        body
    }

    /// Creates the missing listeners, those with equal settings in one request, and returns their IDs.
    async fn create_listeners(&self) -> Result<Vec<(Port, String)>> {
        let mut requests: Vec<(Value, Vec<&Port>)> = Vec::new();
        for operation in self.change.operations {
            let Operation::Create { resource: ResourceKey::Listener(port), attributes } = operation else { continue };
            let mut body = Self::listener(attributes);
            body["Protocol"] = attributes.text("Protocol").unwrap_or("TCP").into();
            let stated = body["HealthCheck"].take();
            body["HealthCheck"] = default_health_check();
            for (name, value) in stated.as_object().into_iter().flatten() {
                body["HealthCheck"][name] = value.clone();
            }
            match requests.iter_mut().find(|(known, _)| *known == body) {
                Some((_, ports)) => ports.push(port),
                None => requests.push((body, vec![port])),
            }
        }
        let mut created = Vec::new();
        let prefix = listener_prefix(self.change.identity.uid());
        for (body, ports) in requests {
            for ports in ports.chunks(LISTENERS) {
                let name = |port: &&Port| format!("{prefix}{}_{}", port.protocol.to_ascii_lowercase(), port.number);
                let action = self.action("CreateListener").fields(body.clone());
                let action = action.fields(self.spec.listener.clone().into());
                let action = action.set("Ports", ports.iter().map(|it| it.number).collect::<Vec<_>>());
                let action = action.set("ListenerNames", ports.iter().map(name).collect::<Vec<_>>());
                let answer = self.send(action).await?;
                let ids = texts(&answer["ListenerIds"]);
                if ids.len() != ports.len() {
                    return Err(Error::conflict(format!(
                        "CreateListener answered {} IDs for {} ports",
                        ids.len(),
                        ports.len()
                    )));
                }
                created.extend(ports.iter().map(|port| (*port).clone()).zip(ids));
            }
        }
        Ok(created)
    }

    async fn update_listener(&self, port: &Port, settings: &Attributes, changes: &[Difference]) -> Result<()> {
        let mut body = Self::listener(settings);
        let is_changed = |field: &str| {
            changes
                .iter()
                .any(|it| it.key.split('.').next() == Some(field) || field == "Certificate" && it.key == "CertId")
        };
        if let Some(fields) = body.as_object_mut() {
            fields.retain(|field, _| is_changed(field));
        }
        if body["HealthCheck"].is_object() && body["HealthCheck"]["CheckPort"].is_null() {
            // The port of the targets.
            body["HealthCheck"]["CheckPort"] = (-1).into();
        }
        let action = self.action("ModifyListener").set("ListenerId", self.listener_id(port)).fields(body);
        self.send(action.fields(self.spec.listener.clone().into())).await.map(drop)
    }

    /// Returns the targets whose instances exist, and those that are addresses.
    async fn existing(&self, targets: &[Value]) -> Result<Vec<Value>> {
        let mut there = Vec::new();
        for target in targets {
            let exists = match target["InstanceId"].as_str() {
                Some(id) => self.cloud.source.state_by_id(id, Priority::Ordinary).await?.is_some(),
                None => true,
            };
            there.extend(exists.then(|| target.clone()));
        }
        Ok(there)
    }

    /// Registers new targets, then removes old ones, then changes weights. Returns `false` if targets were left out,
    /// because their instances no longer exist.
    async fn change_targets(&self, ids: &BTreeMap<Port, String>, deleted: &[Port]) -> Result<bool> {
        let (mut new, mut gone, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let listeners = ids.iter().filter(|(port, _)| self.after.listeners().any(|(it, _)| it == *port));
        for (port, id) in listeners {
            let name = pool(&port.protocol, port.number);
            // A listener that was created again has no targets.
            let before = if deleted.contains(port) { Targets::default() } else { self.before.targets_of(&name) };
            let after = self.after.targets_of(&name);
            let is_in = |target: &str, all: &Targets| all.iter().any(|it| server_of(it) == server_of(target));
            let with_id = |target: &str, has_weight| {
                let mut it = server(target, has_weight);
                it["ListenerId"] = id.as_str().into();
                it
            };
            let (changed, added): (Vec<_>, Vec<_>) =
                after.without(&before).iter().map(str::to_owned).partition(|it| is_in(it, &before));
            new.extend(added.iter().map(|it| with_id(it, true)));
            gone.extend(before.without(&after).iter().filter(|it| !is_in(it, &after)).map(|it| with_id(it, false)));
            let changed: Vec<_> = changed.iter().map(|it| server(it, true)).collect();
            let rules = changed.chunks(TARGETS_OF_A_RULE);
            weights.extend(rules.map(|targets| json!({"ListenerId": id, "Targets": targets})));
        }
        let mut are_all_there = true;
        for targets in new.chunks(TARGETS) {
            are_all_there &= self.register(targets).await?;
        }
        for targets in gone.chunks(TARGETS) {
            self.send_targets("BatchDeregisterTargets", targets).await?;
        }
        for rules in weights.chunks(TARGETS / TARGETS_OF_A_RULE) {
            self.send(self.action("BatchModifyTargetWeight").set("ModifyList", rules)).await?;
        }
        Ok(are_all_there)
    }

    /// Registers targets, except for those whose instance no longer exists: they must neither keep the others out nor
    /// fail the sync of the Service. Returns `false` if there were such targets.
    async fn register(&self, targets: &[Value]) -> Result<bool> {
        const ACTION: &str = "BatchRegisterTargets";
        match self.send_targets(ACTION, targets).await {
            Err(error) if error.is_not_found() || error.is_invalid() => {
                let there = self.existing(targets).await?;
                if there.len() == targets.len() {
                    return Err(error);
                }
                // A credential of another account sees no instance, and not the load balancer either.
                self.cloud.check_account().await?;
                tracing::warn!(%error, id = self.actual.id, "targets without an instance are left out");
                if !there.is_empty() {
                    self.send_targets(ACTION, &there).await?;
                }
                Ok(false)
            }
            outcome => outcome.map(|()| true),
        }
    }

    async fn send_targets(&self, action: &'static str, targets: &[Value]) -> Result<()> {
        let answer = self.send(self.action(action).set("Targets", targets)).await?;
        match list(&answer["FailListenerIdSet"]).next() {
            Some(listener) => {
                let message = text(&answer, "Message");
                Err(Error::other(format!("{action} failed for listener {listener}: {message}")))
            }
            None => Ok(()),
        }
    }

    /// Deletes the load balancer. Its security group is deleted first, while the load balancer still names its owner.
    async fn leave(&self) -> Result<Applied> {
        if let Some(group) = self.before.resources.get(&group_key()) {
            let ports: Vec<_> = self.before.listeners().map(|(port, _)| port).collect();
            self.delete_listeners(ports.into_iter()).await?;
            let groups = self.wanted_groups(None, Some(group));
            if groups != self.groups() {
                self.send(self.action("SetLoadBalancerSecurityGroups").set("SecurityGroups", groups)).await?;
            }
            self.delete_group(group).await?;
        }
        if self.spec.is_protected {
            self.send(self.action("ModifyLoadBalancerAttributes").set("DeleteProtect", false)).await?;
        }
        let action = Action::new(CLB, "DeleteLoadBalancer").set("LoadBalancerIds", [&self.actual.id]);
        match self.send(action.set("ForceDelete", true)).await {
            Err(error) if error.is_not_found() => Ok(Applied::Gone),
            outcome => outcome.map(|_| Applied::Removed),
        }
    }

    /// Removes the listeners of the Service, and the tags, from a load balancer of a user.
    async fn release(&self) -> Result<Applied> {
        let ports: Vec<_> = self.before.listeners().map(|(port, _)| port).collect();
        self.delete_listeners(ports.into_iter()).await?;
        let tags = self.cloud.tags(self.change.identity, true);
        self.set_tags(tags.into_keys().map(|key| (key, None)).collect()).await?;
        Ok(Applied::Protected)
    }
}
