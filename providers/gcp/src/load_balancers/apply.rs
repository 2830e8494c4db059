//! Changes of a load balancer: a request for each operation, and one wait for all that can go on at the same time.

use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, Operation, ResourceGraph, ResourceKey, Targets,
};
use provider_kit::transport::{Call, Method};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::names::{LbNames, held, is_ipv6, traffic};
use super::objects::{Address, Description, Rule, body, without_nulls};
use super::spec::Spec;
use super::{GceLoadBalancers, snapshot};
use crate::api::{
    ADDRESS, CHECK, FIREWALL, GROUP, HTTP_CHECK, Kind, Place, REGION_CHECK, RULE, TARGET_POOL,
    is_in_use,
};

/// Time for which an object that Services share counts as present after this program has created it, and as absent after it
/// has deleted it.
const SHARED_AGE: Duration = Duration::from_secs(10);
/// The key of the lock of the read that the last Service of all causes.
const LAST: &str = "last Service";
const LABEL: &str = "/projects/{project}/regions/{region}/forwardingRules/{name}/setLabels";
/// Settings whose change gives the load balancer another address.
const MOVES: [&str; 3] = ["subnetwork", "loadBalancingScheme", "networkTier"];

/// The change of one load balancer that is under way.
pub(super) struct Session<'a> {
    pub(super) cloud: &'a GceLoadBalancers,
    pub(super) change: Change<'a>,
    pub(super) spec: &'a Spec,
    pub(super) names: LbNames,
    pub(super) place: &'a Place,
    /// Operations under way, and the level of the resources that they change.
    pending: Vec<String>,
    level: Option<(u8, bool)>,
    /// Instances with which a target pool was created.
    pub(super) created: Targets,
    /// Targets whose instances do not exist.
    pub(super) left_out: Targets,
    /// If set, a shared health check is in use, and its firewall stays.
    is_kept: bool,
}

/// Returns the level of an operation: operations of the same level may run at the same time.
fn level(operation: &Operation) -> (u8, bool) {
    let is_removal = matches!(operation, Operation::Delete { .. });
    let level = match operation.resource() {
        Some(ResourceKey::CreatedBefore(it)) => it.rank,
        Some(ResourceKey::Pool(_)) => 2,
        None => 3,
        Some(ResourceKey::Balancer | ResourceKey::Listener(_)) => 4,
        // A firewall that denies has the next level: it is in force only while one that allows is.
        Some(ResourceKey::CreatedAfter(it)) => 5 + it.rank,
    };
    (level, is_removal)
}

/// Returns `true` if this program has just created (`exists`) or deleted a shared object.
fn is_recent(known: Option<(bool, Instant)>, exists: bool) -> bool {
    known.is_some_and(|(is_there, at)| is_there == exists && at.elapsed() < SHARED_AGE)
}

impl GceLoadBalancers {
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let place = self.api.place().await?;
        let names = self.names(&change.identity.name).await?;
        let outcome = change.outcome_of_all();
        if outcome.is_some() && change.actual.is_none() {
            self.check(change, spec).await?;
        }
        let mut session = Session {
            cloud: self,
            change,
            spec,
            names,
            place: &place,
            pending: Vec::new(),
            level: None,
            created: Targets::default(),
            left_out: Targets::default(),
            is_kept: false,
        };
        let graph = change
            .actual
            .and_then(|load_balancer| load_balancer.graph.as_ref());
        let mut markers = [false, true]
            .map(|is_ipv6| traffic(session.names.firewall(is_ipv6)))
            .into_iter();
        let marker = markers
            .find(|resource| graph.is_some_and(|graph| graph.resources.contains_key(resource)));
        if outcome.is_none() && !self.is_known(change.identity.uid()) {
            session.mark_owner(marker.as_ref()).await?;
        }
        // The firewall is deleted last, so that each incomplete deletion is found by it.
        let is_last = |operation: &Operation| {
            outcome.is_none() && operation.deletes(|resource| Some(resource) == marker.as_ref())
        };
        let (last, operations): (Vec<_>, Vec<_>) = change
            .operations
            .iter()
            .partition(|operation| is_last(operation));
        for (at, operation) in operations.into_iter().chain(last).enumerate() {
            if let Some(rule) = session.carry_out(operation).await? {
                return session.planned_again(at, &rule).await;
            }
        }
        session.finish().await?;
        let Some(mut outcome) = outcome else {
            // The last Service of its kind reads once more, in case an earlier deletion was incomplete; so does the last of all,
            // in case a change of the kind was.
            for kind in spec.frontends().map(|frontend| frontend.backend.check) {
                let is_deleted = is_recent(
                    *self
                        .shared
                        .lock(kind.path(&session.names.shared_check()))
                        .await,
                    false,
                );
                if !is_deleted
                    && !self
                        .has_other_users(&change.identity.name, |other| other.shares_check(kind))
                {
                    return Ok(Applied::ReadAgain);
                }
            }
            let mut last = self.shared.lock(LAST.to_owned()).await;
            if !is_recent(*last, false) && !self.has_other_users(&change.identity.name, |_| true) {
                *last = Some((false, Instant::now()));
                return Ok(Applied::ReadAgain);
            }
            return Ok(Applied::Removed);
        };
        outcome.ingress = outcome
            .graph
            .as_ref()
            .map(snapshot::ingress)
            .unwrap_or_default();
        // The firewall that allows changes its priority when the one that denies is deleted.
        let is_denial = |resource: &ResourceKey| {
            session.names.is_denial(resource) && !self.is_kept_firewall(resource)
        };
        if change
            .operations
            .iter()
            .any(|operation| operation.deletes(is_denial))
        {
            return Ok(Applied::PlanAgain(Box::new(outcome)));
        }
        Ok(Applied::all(change, outcome))
    }

    /// Returns `true` if the API server shows a Service with this UID.
    fn is_known(&self, uid: &str) -> bool {
        let services = self
            .caches
            .get()
            .map(|caches| caches.services())
            .unwrap_or_default();
        services
            .iter()
            .any(|service| service.metadata.uid.as_deref() == Some(uid))
    }

    /// Checks what must hold before anything is created for a Service, and adds the finalizer of the Go program.
    async fn check(&self, change: Change<'_>, spec: &Spec) -> Result<()> {
        let is_filled = |operation: &Operation| matches!(operation, Operation::AddTargets { .. });
        if !change.operations.iter().any(is_filled) {
            return Err(Error::other(
                "no nodes available: a load balancer is created when the cluster has a Node",
            ));
        }
        let place = self.api.place().await?;
        let names = self.names(&change.identity.name).await?;
        for frontend in spec.frontends() {
            let rule: Option<Rule> = self
                .api
                .find(&place, RULE, &names.rule(frontend.is_ipv6))
                .await?;
            if rule.is_some_and(|rule| rule.is_of_other_controller()) {
                return Err(Error::implemented_elsewhere());
            }
        }
        self.kubernetes
            .add_finalizer(change.identity.service, spec.is_internal)
            .await
    }
}

impl Session<'_> {
    async fn finish(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.cloud.api.finish(&pending, self.change.callbacks).await
    }

    pub(super) async fn begin(&mut self, call: Call) -> Result<()> {
        let operation = self.cloud.api.begin(call).await?;
        self.pending.extend(operation);
        Ok(())
    }

    /// Carries out one operation. A forwarding rule that was created is returned: the rest is planned from what it shows.
    async fn carry_out(&mut self, operation: &Operation) -> Result<Option<Rule>> {
        if self.level.replace(level(operation)) != Some(level(operation)) {
            self.finish().await?;
        }
        match operation {
            Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            }
            | Operation::Update {
                resource: ResourceKey::Listener(port),
                attributes,
                ..
            } => {
                return self
                    .replace_rule(is_ipv6(&port.protocol), attributes)
                    .await
                    .map(Some);
            }
            Operation::Create {
                resource,
                attributes,
            } => self.create(resource, attributes).await?,
            Operation::Update {
                resource,
                attributes,
                changes,
            } => self.update(resource, attributes, changes).await?,
            Operation::Delete { resource } => self.delete(resource).await?,
            Operation::AddTargets { pool, targets } => self.add(pool, targets).await?,
            Operation::RemoveTargets { pool, targets } => self.remove(pool, targets).await?,
            Operation::Tag => self.tag().await?,
            Operation::Untag => {}
        }
        Ok(None)
    }

    /// Returns the load balancer after the first operations, with a forwarding rule as the cloud shows it.
    async fn planned_again(mut self, at: usize, rule: &Rule) -> Result<Applied> {
        self.finish().await?;
        let mut graph = self
            .change
            .outcome(at + 1)
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let is_for_ipv6 = is_ipv6(&rule.name);
        if let Some(ResourceKey::Listener(port)) = self.change.operations[at].resource() {
            let is_other = |resource: &ResourceKey| !matches!(resource, ResourceKey::Listener(port) if is_ipv6(&port.protocol) == is_for_ipv6);
            graph.resources.retain(|resource, _| is_other(resource));
            graph = rule.listener(graph, port.number, is_for_ipv6)?;
        }
        if let Some(address) = self
            .cloud
            .api
            .find::<Address>(self.place, ADDRESS, &rule.name)
            .await?
        {
            graph = graph.resource(held(rule.name.clone()), Attributes::observed(&address)?);
        }
        Ok(Applied::PlanAgain(Box::new(snapshot::load_balancer(
            &self.names.name,
            Some(rule),
            graph,
        ))))
    }

    pub(super) fn graph(&self) -> Option<&ResourceGraph> {
        self.change
            .actual
            .and_then(|load_balancer| load_balancer.graph.as_ref())
    }

    /// Writes the owner tags into the description of the firewall for traffic. The forwarding rule has them, but is deleted
    /// first, and no Service leads to the rest.
    async fn mark_owner(&mut self, marker: Option<&ResourceKey>) -> Result<()> {
        let Some(ResourceKey::CreatedAfter(auxiliary)) = marker else {
            return Ok(());
        };
        let text = Description::text(&self.spec.service, self.change.identity.owner_tags());
        let firewall = self
            .graph()
            .zip(marker)
            .and_then(|(graph, marker)| graph.resources.get(marker));
        if firewall.is_some_and(|firewall| firewall.text("description") == Some(&text)) {
            return Ok(());
        }
        self.firewall(
            Method::PATCH,
            &auxiliary.name,
            &Attributes::default().set("description", text),
        )
        .await?;
        self.finish().await
    }

    /// Begins a change of a firewall.
    async fn firewall(&mut self, method: Method, name: &str, settings: &Attributes) -> Result<()> {
        let operation = self
            .cloud
            .change_firewall(method, name, settings, self.change.identity.service)
            .await?;
        self.pending.extend(operation);
        Ok(())
    }

    async fn create(&mut self, resource: &ResourceKey, settings: &Attributes) -> Result<()> {
        let Some((kind, name)) = self
            .names
            .object(resource)
            .filter(|(kind, _)| *kind != GROUP)
        else {
            return Ok(());
        };
        let mut known = None;
        if self.names.is_shared(&name) {
            let recent = known.insert(self.cloud.shared.lock(kind.path(&name)).await);
            if is_recent(**recent, true) {
                return Ok(());
            }
        }
        let sent = match resource {
            ResourceKey::Pool(_) => {
                self.cloud.set_released(&self.names.name, false);
                let operation = self
                    .create_pool(kind, &name, settings, &self.targets_to_add(resource))
                    .await?;
                self.pending.extend(operation);
                Ok(())
            }
            _ if kind == FIREWALL => {
                check_tags(resource, settings)?;
                self.firewall(Method::POST, &name, settings).await
            }
            _ => {
                self.begin(
                    self.place
                        .all(Method::POST, kind, "")
                        .json(&body(&name, settings)),
                )
                .await
            }
        };
        let Some(mut known) = known else { return sent };
        // Another program may have been faster.
        sent.or_else(|error| {
            if error.is_conflict() {
                Ok(())
            } else {
                Err(error)
            }
        })?;
        self.finish().await?;
        *known = Some((true, Instant::now()));
        Ok(())
    }

    async fn update(
        &mut self,
        resource: &ResourceKey,
        settings: &Attributes,
        changes: &[Difference],
    ) -> Result<()> {
        let Some((kind, name)) = self.names.object(resource) else {
            return Ok(());
        };
        if kind == FIREWALL {
            return self.firewall(Method::PATCH, &name, settings).await;
        }
        if let ResourceKey::Pool(pool) = resource
            && (kind == TARGET_POOL
                || changes.iter().any(|difference| {
                    ["protocol", "loadBalancingScheme"].contains(&&*difference.key)
                }))
        {
            return self.replace_pool(pool, kind, &name, settings).await;
        }
        let changed = changes
            .iter()
            .fold(Attributes::default(), |all, difference| {
                all.set(difference.key.clone(), &difference.to)
            });
        let mut body = changed.nested();
        self.expand_checks(&mut body);
        if let Some(fingerprint) = settings.text("fingerprint") {
            body["fingerprint"] = fingerprint.into();
        }
        self.begin(self.place.one(Method::PATCH, kind, &name).json(&body))
            .await
    }

    /// Replaces a pool with its forwarding rules, whose addresses are held. A target pool cannot change its affinity.
    async fn replace_pool(
        &mut self,
        pool: &str,
        kind: Kind,
        name: &str,
        settings: &Attributes,
    ) -> Result<()> {
        let graph = self.graph().cloned().unwrap_or_default();
        for (port, rule) in graph
            .listeners()
            .filter(|(_, rule)| rule.text("pool") == Some(pool))
        {
            let rule_name = self.names.rule(is_ipv6(&port.protocol));
            if rule.text("loadBalancingScheme") == Some(self.spec.scheme()) {
                self.hold_address(&rule_name, rule).await?;
            }
            self.delete_object(RULE, &rule_name).await?;
        }
        self.delete_object(kind, name).await?;
        let targets = graph.targets_of(pool);
        let operation = self.create_pool(kind, name, settings, &targets).await?;
        self.pending.extend(operation);
        self.finish().await?;
        if kind == TARGET_POOL {
            self.add(pool, &targets).await?;
        }
        self.finish().await?;
        // The next plan does not know the health check to which only the old pool led.
        for operation in self.change.operations {
            if let Operation::Delete {
                resource: resource @ ResourceKey::CreatedBefore(_),
            } = operation
            {
                self.delete(resource).await?;
            }
        }
        self.finish().await?;
        Err(Error::conflict(format!(
            "pool {pool:?} was replaced; its forwarding rules are created again"
        )))
    }

    /// Creates a forwarding rule, in the place of the one that there is. The address stays, unless the change is about it.
    async fn replace_rule(&self, is_for_ipv6: bool, settings: &Attributes) -> Result<Rule> {
        let rule_name = self.names.rule(is_for_ipv6);
        let mut before = self.graph().into_iter().flat_map(ResourceGraph::listeners);
        let before = before
            .find(|(port, _)| is_ipv6(&port.protocol) == is_for_ipv6)
            .map(|(_, settings)| settings);
        let mut body = body(&rule_name, settings);
        let moves = |key: &&str| {
            before.is_some_and(|entry| {
                settings
                    .get(key)
                    .is_some_and(|to| entry.get(key) != Some(to))
            })
        };
        let seen = before.and_then(|settings| settings.text("IPAddress"));
        let wanted = self
            .spec
            .ip
            .as_deref()
            .filter(|ip| ip.contains(':') == is_for_ipv6);
        let is_moving = MOVES.iter().any(moves) || wanted.is_some_and(|ip| Some(ip) != seen);
        if let Some(ip) = wanted.filter(|ip| !self.spec.is_internal && Some(*ip) != seen) {
            self.check_address(ip).await?;
        }
        if let Some(before) = before {
            body["IPAddress"] = wanted.or(seen.filter(|_| !is_moving)).into();
            if !is_moving {
                self.hold_address(&rule_name, before).await?;
            }
            self.delete_object(RULE, &rule_name).await?;
        }
        body["description"] =
            Description::text(&self.spec.service, self.change.identity.owner_tags()).into();
        let pool = settings.text("pool").unwrap_or_default();
        let is_of_targets = pool.starts_with(TARGET_POOL.word);
        body[if is_of_targets {
            "target"
        } else {
            "backendService"
        }] = self.place.url_of(pool).into();
        body["network"] = self.spec.is_internal.then_some(&*self.place.network).into();
        let subnetwork = settings
            .text("subnetwork")
            .map(|subnetwork| format!("{}/projects/{subnetwork}", self.place.base));
        body["subnetwork"] = subnetwork.into();
        self.cloud
            .api
            .change(
                self.place
                    .all(Method::POST, RULE, "")
                    .json(&without_nulls(body)),
            )
            .await?;
        let shown: Option<Rule> = self.cloud.api.find(self.place, RULE, &rule_name).await?;
        shown.ok_or_else(|| {
            Error::conflict("the forwarding rule that was just created does not exist")
        })
    }

    async fn delete(&mut self, resource: &ResourceKey) -> Result<()> {
        let Some((kind, name)) = self.names.object(resource) else {
            return Ok(());
        };
        match kind {
            _ if self.names.is_shared(&name) => self.delete_shared(resource, kind, &name).await?,
            FIREWALL => {
                self.firewall(Method::DELETE, &name, &Attributes::default())
                    .await?;
            }
            _ => self.delete_object(kind, &name).await?,
        }
        if matches!(resource, ResourceKey::Pool(_)) && self.change.identity.is_leaving() {
            self.cloud.set_released(&self.names.name, true);
        }
        Ok(())
    }

    /// Deletes an object that Services share, unless another Service or object uses it.
    async fn delete_shared(
        &mut self,
        resource: &ResourceKey,
        kind: Kind,
        name: &str,
    ) -> Result<()> {
        let is_user = |spec: &Spec| match kind {
            GROUP => spec.has_groups(),
            FIREWALL if name.ends_with("-http-hc") => spec.shares_check(HTTP_CHECK),
            FIREWALL => {
                (spec.has_ipv6 || !is_ipv6(name))
                    && [CHECK, REGION_CHECK]
                        .into_iter()
                        .any(|kind| spec.shares_check(kind))
            }
            _ => spec.shares_check(kind),
        };
        let is_kept = (kind == FIREWALL && self.is_kept)
            || (kind == GROUP && self.cloud.api.config.skips_groups);
        let has_users = || self.cloud.has_other_users(&self.names.name, is_user);
        if matches!(resource, ResourceKey::CreatedBefore(_)) && (is_kept || has_users()) {
            return Ok(());
        }
        let mut known = self.cloud.shared.lock(kind.path(name)).await;
        if is_recent(*known, false) {
            return Ok(());
        }
        *known = None;
        let outcome = match kind {
            FIREWALL => {
                self.firewall(Method::DELETE, name, &Attributes::default())
                    .await
            }
            GROUP => {
                self.cloud
                    .groups
                    .store()
                    .delete(&self.names.cluster_id)
                    .await
            }
            _ => self.delete_object(kind, name).await,
        };
        match outcome {
            Err(error) if is_in_use(&error) => {
                self.is_kept |= matches!(kind, CHECK | REGION_CHECK | HTTP_CHECK);
            }
            outcome => {
                outcome?;
                *known = Some((false, Instant::now()));
            }
        }
        Ok(())
    }

    /// Deletes an object, and waits: what refers to nothing any more can be deleted next.
    pub(super) async fn delete_object(&self, kind: Kind, name: &str) -> Result<()> {
        self.cloud
            .api
            .remove(self.place.one(Method::DELETE, kind, name))
            .await
    }

    /// Writes the owner tags as labels: the description of a forwarding rule does not change.
    async fn tag(&mut self) -> Result<()> {
        let rule_name = self.names.name.clone();
        let Some(rule) = self
            .cloud
            .api
            .find::<Rule>(self.place, RULE, &rule_name)
            .await?
        else {
            return Ok(());
        };
        let Some(labels) = rule.labelled(&self.change.identity.owner_tags()) else {
            return Ok(());
        };
        let body = json!({"labels": labels, "labelFingerprint": rule.label_fingerprint});
        let call = self
            .place
            .action(Method::POST, RULE, LABEL, "", &rule_name)
            .json(&body);
        self.begin(call).await
    }

    /// Replaces the short paths of health checks by their URLs.
    pub(super) fn expand_checks(&self, body: &mut Value) {
        for check in body
            .get_mut("healthChecks")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            *check = self.place.url_of(check.as_str().unwrap_or_default()).into();
        }
    }
}

/// Fails if a resource is a new firewall without network tags, which would be for the whole network.
pub(super) fn check_tags(resource: &ResourceKey, settings: &Attributes) -> Result<()> {
    if !resource.is_of_kind(FIREWALL.word) || settings.get("targetTags").is_some() {
        return Ok(());
    }
    Err(Error::invalid(
        "no network tag of a Node is known, and a firewall without one is for the whole network; set node-tags in the \
         cloud configuration",
    ))
}
